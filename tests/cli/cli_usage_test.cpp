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
  for (const char* verb : {"doctor", "run", "verify", "train", "keygen", "tokenize", "bench"}) {
    const Outcome help = run_program({verb, "--help"});
    CHECK(help.code == 0);
    for (const char* option : {"--json", "--threads", "--seed", "--quiet"})
      CHECK(help.out.find(option) != std::string::npos);
  }
}

TEST_CASE("wrong usage is one line and exit code 2") {
  check_refused({}, "no verb was given; there are doctor, run, verify");
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

TEST_CASE("a mistake names the option, the reason, the nearest name and the verb's help") {
  const auto refused_exactly = [](const std::vector<std::string>& args, const std::string& message) {
    const Outcome got = run_program(args);
    CHECK(got.code == 2);
    CHECK(got.err == "equigrad: " + message + "\n");
  };
  refused_exactly({"train", "vit", "--dim=", "--steps", "1"},
                  "--dim needs a value after '=' (see equigrad train vit --help)");
  refused_exactly({"train", "vit", "--dim", "3", "--dim", "4"}, "--dim is given twice (see equigrad train vit --help)");
  refused_exactly({"train", "vit", "--augment", "--augment"},
                  "--augment is given twice (see equigrad train vit --help)");
  refused_exactly({"train", "vit", "--dmi", "3"},
                  "train: there is no option '--dmi'; did you mean --dim? (see equigrad train vit --help)");
  refused_exactly({"train", "vit", "--data", "shapes", "--steps", "1", "--permute", "bth"},
                  "--permute: 'bth' is not one of none, rows, columns, both (see equigrad train vit --help)");
  check_refused({"doctr"}, "there is no verb 'doctr'; did you mean doctor? there are doctor, run, verify, train, ");
  refused_exactly({"verify", "--filter", "--quiet"},
                  "--filter needs a value before '--quiet' (if that is the value: --filter=--quiet) (see equigrad "
                  "verify --help)");
  refused_exactly({"doctor", "extra"}, "doctor: 'extra' is a word too many (see equigrad doctor --help)");
  check_refused({"doctor", "--threads", "-1"}, "--threads: '-1' is not a whole number from 0 to ");
  refused_exactly({"keygen", "--out", "a\xff"}, R"('a\xff' is not UTF-8 text (see equigrad keygen --help))");
  refused_exactly({"train", "vit", "--steps", "1", "--data", "x\x1b[31m"},
                  R"(x\x1b[31m: neither a dataset (cifar10, cifar10-jpeg, cifar10-records, cifar100, )"
                  "cifar100-coarse, celeba, mnist, fashion-mnist, shapes, digits, faces) nor a folder of images");
  refused_exactly({"--versoin"}, "'--versoin' stands before any verb; did you mean --version? (see equigrad --help)");
}

TEST_CASE("options that would change nothing are refused with the reason") {
  const auto train = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"train", "vit", "--steps", "1"});
    return more;
  };
  check_refused(train({"--data", "cifar10", "--size", "8"}), "--size has no effect: the images of cifar10");
  check_refused(train({"--data", "shapes", "--data-dir", "."}), "--data-dir has no effect: shapes are generated");
  check_refused(train({"--data", "shapes", "--key-form", "tied"}), "--key-form has no effect");
  check_refused(train({"--data", "shapes", "--key-form", "tied", "--permute", "rows"}), "--key-form has no effect");
  check_refused(train({"--data", "shapes", "--drift-every", "3", "--permute", "rows"}), "--drift-every has no effect");
  check_refused(train({"--data", "shapes", "--eps", "1e-6", "--optimizer", "sgd"}), "--eps has no effect");
  check_refused(train({"--data", "shapes", "--final-fraction", "0.5", "--schedule", "constant"}),
                "--final-fraction has no effect");
  check_refused({"bench", "gemm", "--batch", "3"}, "--batch has no effect on bench gemm");
  check_refused({"bench", "ops", "--dtype", "bf16"}, "--dtype bf16 is for bench step and bench gemm");
  check_refused({"bench", "step", "--dtype", "bf16", "--exact"}, "--dtype bf16 has no effect on exact");
  check_refused(train({"--data", "shapes", "--dtype", "f64", "--precision", "bf16"}), "precision bf16 needs dtype f32");
  check_refused(train({"--data", "shapes", "--precision", "f16"}), "'f16' is not one of f32, bf16");
  check_refused({"bench", "ops", "--batch", "3"}, "--batch has no effect on bench ops");
  check_refused({"verify", "--filter", "eq45", "--steps", "3"}, "--steps has no effect");
}

TEST_CASE("a config with a NUL in a name is refused") {
  const TemporaryFolder folder;
  write_text(folder.path("c.json"), R"({"data": "sha\u0000pes", "steps": 1})");
  check_refused({"train", "vit", "--config", folder.path("c.json")}, "'data' must be a text without NUL");
}

TEST_CASE("help by word and by option") {
  CHECK(run_program({"help"}).out == run_program({"--help"}).out);
  const Outcome train = run_program({"help", "train", "vit"});
  CHECK(train.code == 0);
  CHECK(train.out.find("Usage: equigrad train") != std::string::npos);
  CHECK(train.out == run_program({"train", "vit", "--help"}).out);
  check_refused({"help", "fly"}, "there is no verb 'fly'");
}

TEST_CASE("the table of verify keeps its columns and whole titles in a pipe") {
  const Outcome got = run_program({"verify", "--filter", "cor4*", "--dtype", "f64"});
  CHECK(got.code == 0);
  const std::size_t pass = got.out.find("pass") - got.out.find("cor4.3 ");
  std::size_t rows = 0;
  for (std::size_t at = got.out.find("\ncor"); at != std::string::npos; at = got.out.find("\ncor", at + 1)) {
    CHECK(got.out.substr(at + 1 + pass, 5) == "pass\n");
    ++rows;
  }
  CHECK(rows >= 8);
  CHECK(got.out.find("training with permuted rows and columns, momentum ") != std::string::npos);
}

TEST_CASE("a filter that fits nothing names the ids near it") {
  check_refused({"verify", "--filter", "cor43"}, "no identity fits the filter 'cor43'; ids near it: cor4.3");
  check_refused({"verify", "--filter", "momentum"}, "cor4.3-momentum, cor4.6-momentum");
}

TEST_CASE("doctor says what it runs on") {
  const Outcome got = run_program({"doctor", "--json", "-", "--threads", "2"});
  CHECK(got.code == 0);
  const auto json = nlohmann::json::parse(got.out);
  CHECK(json["threads"] == 2);
  CHECK(json["blas"].get<std::string>().find("OpenBLAS") != std::string::npos);
  CHECK(json["products"] == "own kernel");
  CHECK(json["bf16"].is_boolean());
}

TEST_CASE("verify gives the fields that others rely on") {
  const Outcome got = run_program({"verify", "--filter", "eq4*", "--json", "-", "--dtype", "both"});
  INFO(got.err);
  CHECK(got.code == 0);
  const auto json = nlohmann::json::parse(got.out);
  CHECK(json["summary"]["fail"] == 0);
  CHECK(json["summary"]["pass"] == json["results"].size());
  CHECK(json["results"].size() >= 6);
  CHECK(json["summary"]["papers"]["CVPR"] == json["results"].size() / 2); // f64 and f32 of a row are one entry
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
    CHECK(lost.err == "equigrad: standard output: cannot be written: No space left on device\n");
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
  CHECK(html.find(" id=\"eq45\"") != std::string::npos);
  CHECK(html.find(" id=\"alg1\"") == std::string::npos);
}
