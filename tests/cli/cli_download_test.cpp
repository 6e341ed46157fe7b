// equigrad download: from a server on loopback in place of the set's own.

#include "cli/program.h"
#include "support/http_server.h"
#include "support/skip.h"

#include <doctest/doctest.h>
#include <filesystem>

using namespace eg::test;

TEST_CASE("download: the sets are listed, and what there is not is refused with the nearest name") {
  const Outcome list = run_program({"download", "--list", "--json", "-"});
  REQUIRE(list.code == 0);
  CHECK(nlohmann::json::parse(list.out)["sets"].size() >= 6);
  const Outcome wrong = run_program({"download", "minst", "--data-dir", "."});
  CHECK(wrong.code == 2);
  CHECK(wrong.err.find("did you mean mnist?") != std::string::npos);
  CHECK(run_program({"download"}).code == 2);
}

TEST_CASE("--list stands alone: what it would ignore is refused") {
  const auto refused = [](const std::vector<std::string>& args, const std::string& words) {
    const Outcome got = run_program(args);
    CHECK(got.code == 2);
    CHECK(got.out.empty());
    CHECK_MESSAGE(got.err.find(words) != std::string::npos, got.err);
  };
  refused({"download", "mnist", "--list"}, "'mnist' has no effect beside --list");
  refused({"download", "--list", "--data-dir", "."}, "--data-dir has no effect beside --list");
  refused({"reproduce", "cvpr-F8", "--list"}, "'cvpr-F8' has no effect beside --list");
  refused({"reproduce", "--list", "--scale", "full"}, "--scale has no effect beside --list");
  refused({"attack", "weights", "--list"}, "'weights' has no effect beside --list");
  for (const char* verb : {"download", "reproduce", "attack"}) {
    const Outcome list = run_program({verb, "--list", "--threads", "1", "--seed", "1", "--json", "/dev/null"});
    CHECK_MESSAGE(list.code == 0, list.err);
  }
}

TEST_CASE("download: what failed names the file that keeps some bytes, and none where none came") {
  const TemporaryFolder folder;
  const auto failed = [&](const std::string& mirror) {
    const Outcome got = run_program({"download", "tinyshakespeare", "--data-dir", folder.path(), "--mirror", mirror});
    CHECK(got.code == 2);
    return got.err;
  };
  const std::string none = failed("http://127.0.0.1:9/"); // nobody listens there
  CHECK_MESSAGE(none.ends_with("; 0 of 1115394 bytes came in 3 tries\n"), none);
  const HttpServer server("the beginning", {});
  const std::string some = failed(server.url());
  const std::string part = folder.path("tinyshakespeare/input.txt.part");
  CHECK_MESSAGE(some.ends_with("; 13 of 1115394 bytes came in 3 tries and are kept in " + part + "\n"), some);
  CHECK(read_text(part) == "the beginning");
}

TEST_CASE("download: bytes that are not the set's are refused, and nothing is left under its name") {
  const TemporaryFolder folder;
  const HttpServer server("no play of Shakespeare's", {});
  const Outcome got =
      run_program({"download", "tinyshakespeare", "--data-dir", folder.path(), "--mirror", server.url()});
  CHECK(got.code == 2);
  CHECK(got.err.find(server.url() + "input.txt") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(folder.path("tinyshakespeare/input.txt")));
}

TEST_CASE("download: a set comes whole, also from a server that stops half-way, and is what training reads") {
  const char* name = "download: a set comes whole, also from a server that stops half-way, and is what training reads";
  const std::filesystem::path source = data_or_skip(name, "tinyshakespeare");
  if (source.empty()) return;
  const TemporaryFolder folder;
  const HttpServer server(read_text((source / "input.txt").string()), {.cut_after = 400'000, .cut_times = 1});
  const std::vector<std::string> args = {"download", "tinyshakespeare", "--data-dir", folder.path(),
                                         "--mirror", server.url(),      "--json",     "-"};
  const Outcome got = run_program(args);
  REQUIRE_MESSAGE(got.code == 0, got.err);
  CHECK(nlohmann::json::parse(got.out)["folder"] == folder.path("tinyshakespeare"));
  CHECK(server.connections() == 2); // the second one sent the rest
  CHECK(run_program(args).code == 0);
  CHECK(server.connections() == 2);
  const Outcome trained = run_program(
      {"train",      "gpt2",    "--data", "tinyshakespeare", "--data-dir", folder.path(), "--steps", "1",       "--dim",
       "8",          "--heads", "1",      "--layers",        "1",          "--context",   "8",       "--batch", "2",
       "--held-out", "0.001",   "--out",  folder.path("run")});
  CHECK_MESSAGE(trained.code == 0, trained.err);
}
