#include "cli/program.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <filesystem>

using namespace eg::test;

namespace {

/// Exit code 2, nothing on stdout, one line on stderr that holds `words`.
void check_refused(const std::vector<std::string>& args, const std::string& words) {
  const Outcome got = run_program(args);
  INFO(got.err);
  CHECK(got.code == 2);
  CHECK(got.out.empty());
  CHECK(std::count(got.err.begin(), got.err.end(), '\n') == 1);
  CHECK(got.err.find(words) != std::string::npos);
}

} // namespace

TEST_CASE("version and help") {
  const Outcome version = run_program({"--version"});
  CHECK(version.code == 0);
  CHECK(version.out.rfind("equigrad 0.", 0) == 0);
  for (const char* verb : {"doctor", "run", "verify", "train", "keygen", "bench"}) {
    const Outcome help = run_program({verb, "--help"});
    CHECK(help.code == 0);
    for (const char* option : {"--json", "--threads", "--seed", "--quiet"})
      CHECK(help.out.find(option) != std::string::npos);
  }
}

TEST_CASE("wrong usage is one line and exit code 2") {
  check_refused({}, "A subcommand is required");
  check_refused({"fly"}, "fly");
  check_refused({"doctor", "--fast"}, "--fast");
  check_refused({"doctor", "--threads", "lots"}, "--threads");
  check_refused({"verify", "--filter", "nothing-fits-*"}, "nothing-fits-*");
  check_refused({"verify", "--heads", "5"}, "heads");
  check_refused({"verify", "--dtype", "f16"}, "f16");
  check_refused({"bench", "walk"}, "walk");
  check_refused({"bench", "step", "--case", "vit-huge"}, "there is no case 'vit-huge'");
  check_refused({"train", "vit", "--data", "shapes", "--steps", "many"}, "--steps: 'many' is not a whole number");
  check_refused({"train", "vit", "--data", "shapes"}, "steps");
  check_refused({"train", "vit", "--data", "shapes", "--steps", "1", "--optimizer", "magic"}, "magic");
  check_refused({"train", "vit", "--data", "shapes", "--steps", "1", "--heads", "5", "--dim", "64"}, "heads");
  check_refused({"train", "vit", "--data", "shapes", "--steps", "1", "--patch", "5"}, "patch");
  check_refused({"train", "vit", "--data", "no/such/folder", "--steps", "1"}, "no/such/folder");
  check_refused({"train", "vit", "--resume", "no/such/run"}, "no/such/run");
  check_refused({"train", "bird"}, "bird");
}

TEST_CASE("doctor says what it runs on") {
  const Outcome got = run_program({"doctor", "--json", "-", "--threads", "2"});
  CHECK(got.code == 0);
  const auto json = nlohmann::json::parse(got.out);
  CHECK(json["threads"] == 2);
  CHECK(json["blas"].get<std::string>().find("OpenBLAS") != std::string::npos);
}

TEST_CASE("verify gives the fields that others rely on") {
  const Outcome got = run_program({"verify", "--filter", "eq4*", "--json", "-", "--dtype", "both"});
  INFO(got.err);
  CHECK(got.code == 0);
  const auto json = nlohmann::json::parse(got.out);
  CHECK(json["summary"]["fail"] == 0);
  CHECK(json["summary"]["pass"] == json["results"].size());
  CHECK(json["results"].size() >= 6);
  for (const auto& r : json["results"]) {
    for (const char* field : {"id", "title", "paper", "equation", "kind", "dtype", "sizes", "seed", "error",
                              "tolerance", "control", "bitwise", "status", "ms"})
      CHECK_MESSAGE(r.contains(field), field);
    for (const char* field : {"what", "error", "must_exceed"}) CHECK(r["control"].contains(field));
    CHECK(r["error"].get<double>() <= r["tolerance"].get<double>());
    CHECK(r["control"]["error"].get<double>() > r["control"]["must_exceed"].get<double>());
  }
}

TEST_CASE("a result that cannot be written is said") {
  check_refused({"doctor", "--quiet", "--json", "/no/such/folder/x.json"}, "/no/such/folder/x.json: cannot be written");
  for (const auto& args : std::vector<std::vector<std::string>>{
           {"doctor", "--json", "-"}, {"doctor"}, {"--help"}, {"verify", "--filter", "perm-orth"}}) {
    const Outcome lost = run_program_into("/dev/full", args);
    CHECK(lost.code == 2);
    CHECK(lost.err == "equigrad: standard output: cannot be written\n");
  }
}

TEST_CASE("keygen writes a private key once and prints its fingerprint alone") {
  const TemporaryFolder folder;
  const std::string path = folder.path("a.key");
  const Outcome made = run_program({"keygen", "--out", path, "--json", "-"});
  INFO(made.err);
  CHECK(made.code == 0);
  const auto json = nlohmann::json::parse(made.out);
  CHECK(json.at("key") == path);
  CHECK(json.at("fingerprint").get<std::string>().size() == 16);
  CHECK(std::filesystem::status(path).permissions() ==
        (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
  const std::string before = read_text(path);
  check_refused({"keygen", "--out", path}, path);
  CHECK(read_text(path) == before);
  check_refused({"keygen", "--out", folder.path("b.key"), "--seed", "1"}, "--seed");
  check_refused({"keygen"}, "--out");
}

TEST_CASE("a report explains the rows that ran and no others") {
  const TemporaryFolder folder;
  const std::string path = folder.path("report.html");
  CHECK(run_program({"verify", "--quiet", "--filter", "eq4*", "--dtype", "f64", "--report", path}).code == 0);
  const std::string html = read_text(path);
  CHECK(html.find("<td>eq45</td>") != std::string::npos);
  CHECK(html.find("<td>alg1</td>") == std::string::npos);
}

TEST_CASE("bench lines have the agreed fields") {
  const Outcome got = run_program({"bench", "gemm", "--case", "1024x1024x1024-nn", "--seconds", "0.05", "--json", "-"});
  CHECK(got.code == 0);
  const auto line = nlohmann::json::parse(got.out.substr(0, got.out.find('\n')));
  for (const char* field :
       {"bench", "engine", "case", "threads", "batch", "ms", "ms_best", "per_s", "gflops", "rss_mb"})
    CHECK_MESSAGE(line.contains(field), field);
}
