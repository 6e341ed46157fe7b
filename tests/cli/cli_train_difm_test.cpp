// equigrad train difm.

#include "cli/program.h"

#include <doctest/doctest.h>

using namespace eg::test;

namespace {

std::string clicks() {
  std::string text = "label,age,shop\n";
  for (int i = 0; i < 60; ++i)
    text += std::to_string(i % 2) + "," + std::to_string(i) + "," + (i % 2 == 0 ? "corner" : "mall") + "\n";
  return text;
}

std::vector<std::string> small(const TemporaryFolder& folder, std::vector<std::string> more) {
  write_text(folder.path("clicks.csv"), clicks());
  std::vector<std::string> args = {
      "train", "difm", "--data", folder.path("clicks.csv"), "--steps", "60", "--batch", "8", "--hidden", "8", "--dim",
      "4",     "--lr", "1e-2"};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

} // namespace

TEST_CASE("a factorization machine is trained on a table, its fields permuted, and tells its AUC") {
  const TemporaryFolder folder;
  const std::string run = folder.path("run");
  const Outcome got = run_program(small(folder, {"--permute", "rows", "--json", "-", "--out", run}));
  REQUIRE_MESSAGE(got.code == 0, got.err);
  const auto json = nlohmann::json::parse(got.out);
  CHECK(json["auc"] == 1.0);
  CHECK(json["accuracy"] == 1.0);
  CHECK(json.contains("rows_per_s"));
  CHECK(nlohmann::json::parse(read_text(run + "/table.json"))["categorical"][0]["column"] == "shop");
  const Outcome again = run_program({"train", "difm", "--resume", run});
  CHECK(again.code == 0);
  CHECK(again.out.find("AUC 1.0000") != std::string::npos);
  CHECK(again.err.find("already complete") != std::string::npos);
}

TEST_CASE("tables that cannot be learnt from are refused in one line") {
  const TemporaryFolder folder;
  const auto refused = [&](std::vector<std::string> args, const std::string& words) {
    const Outcome got = run_program(args, folder.path());
    CHECK(got.code == 2);
    CHECK_MESSAGE(got.err.find(words) != std::string::npos, got.err);
  };
  refused(small(folder, {"--label", "lable"}), "did you mean label?");
  refused(small(folder, {"--permute", "both"}), "permute must be none or rows, not both");
  refused(small(folder, {"--context", "3"}), "--context is an option of");
  refused(small(folder, {"--data-dir", "x"}), "--data-dir has no effect: --data names the file");
  std::vector<std::string> torn = small(folder, {});
  write_text(folder.path("clicks.csv"), clicks() + "1,2\n");
  refused(torn, "clicks.csv: line 62 has 2 columns, the header has 3");
}
