// Mistakes in the file that --config names.

#include "cli/program.h"

#include <algorithm>
#include <doctest/doctest.h>

using namespace eg::test;

namespace {

/// Exit code 2, and one line that begins with `words`.
void check_refused(const TemporaryFolder& folder, const std::string& config, const std::vector<std::string>& more,
                   const std::string& words) {
  write_text(folder.path("c.json"), config);
  std::vector<std::string> args = {"train", "vit", "--config", "c.json", "--out", "R"};
  args.insert(args.end(), more.begin(), more.end());
  const Outcome got = run_program(args, folder.path());
  INFO(config, " ", got.err);
  CHECK(got.code == 2);
  CHECK(std::count(got.err.begin(), got.err.end(), '\n') == 1);
  CHECK(got.err.starts_with("equigrad: " + words));
}

} // namespace

TEST_CASE("a wrong value in a config is refused with the file's name") {
  const TemporaryFolder folder;
  const std::vector<std::string> data = {"--data", "shapes", "--steps", "1"};
  check_refused(folder, R"({"optimizer": "x"})", data, "c.json: optimizer: 'x' is not one of sgd, ");
  check_refused(folder, R"({"lr": -1})", data, "c.json: lr must be positive, not -1");
  check_refused(folder, R"({"lr": "x"})", data, "c.json: 'lr' must be a number");
  check_refused(folder, R"({"patch": 5})", data, "c.json: vit: patch 5 does not divide image 32");
  check_refused(folder, R"({"heads": 3, "dim": 64})", data, "c.json: ");
  check_refused(folder, R"({"data": "no/such/folder", "steps": 1})", {}, "no/such/folder: ");
}

TEST_CASE("a flag that overrides a config is what is named") {
  const TemporaryFolder folder;
  check_refused(folder, R"({"optimizer": "x", "lr": 1})", {"--data", "shapes", "--steps", "1", "--optimizer", "y"},
                "optimizer: 'y' is not one of ");
  check_refused(folder, R"({"lr": 0.1})", {"--data", "shapes", "--steps", "1", "--lr", "-1"},
                "train: lr must be positive, not -1 (see ");
}

TEST_CASE("options of the command line alone are not taken from a config") {
  const TemporaryFolder folder;
  for (const char* key : {"threads", "quiet", "json", "profile", "config"})
    check_refused(folder, R"({")" + std::string(key) + R"(": 2})", {"--data", "shapes", "--steps", "1"},
                  "c.json: '" + std::string(key) + "' is not taken from a config; give --" + key +
                      " on the command line");
  check_refused(folder, R"({"headz": 2})", {"--data", "shapes", "--steps", "1"}, "c.json: unknown option 'headz'");
}
