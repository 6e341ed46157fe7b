// equigrad report.

#include "cli/program.h"

#include <cmath>
#include <doctest/doctest.h>
#include <filesystem>

using namespace eg::test;

namespace {

void train_vit(const std::string& out, const std::string& lr) {
  const Outcome got = run_program(
      {"train",   "vit", "--data",   "shapes", "--train-limit", "64", "--test-limit", "20",    "--size",  "16",
       "--dim",   "8",   "--layers", "1",      "--heads",       "2",  "--mlp",        "8",     "--patch", "8",
       "--batch", "16",  "--steps",  "6",      "--lr",          lr,   "--quiet",      "--out", out});
  REQUIRE_MESSAGE(got.code == 0, got.err);
}

void train_text(const TemporaryFolder& folder, const std::string& model, const std::string& data) {
  std::vector<std::string> args = {"train",    model, "--data",  data,    "--dim",           "8",
                                   "--layers", "1",   "--heads", "2",     "--steps",         "6",
                                   "--warmup", "1",   "--quiet", "--out", folder.path(model)};
  if (model == "bert") args.insert(args.end(), {"--batch", "4", "--held-out", "0.3"});
  if (model != "bert") args.insert(args.end(), {"--context", "16", "--batch", "2"});
  const Outcome got = run_program(args);
  REQUIRE_MESSAGE(got.code == 0, got.err);
}

void check_refused(const Outcome& got, const std::string& words) {
  CHECK(got.code == 2);
  CHECK_MESSAGE(got.err.find(words) != std::string::npos, got.err);
  CHECK(got.out.empty());
}

} // namespace

TEST_CASE("report compares runs of several models on one page") {
  const TemporaryFolder folder;
  train_vit(folder.path("vit"), "1e-3");
  train_vit(folder.path("vit-2"), "2e-3");
  std::string story, films = "label\ttext\n";
  for (int i = 0; i < 40; ++i) {
    story += std::to_string(i * i) + " sheep went to the <fair> & home.\n";
    films += i % 2 == 0 ? "bad\ta dull & <i>long</i> film\n" : "good\ta fine film\n";
  }
  write_text(folder.path("story.txt"), story);
  write_text(folder.path("films.tsv"), films);
  train_text(folder, "gpt2", folder.path("story.txt"));
  train_text(folder, "bert", folder.path("films.tsv"));
  const std::string page = folder.path("page.html");
  const Outcome got = run_program({"report", folder.path("vit"), folder.path("vit-2"), folder.path("gpt2"),
                                   folder.path("bert"), "--out", page, "--json", "-"});
  REQUIRE_MESSAGE(got.code == 0, got.err);
  CHECK(got.err.empty());
  const auto json = nlohmann::json::parse(got.out);
  REQUIRE(json["runs"].size() == 4);
  CHECK(json["runs"][1]["name"] == "vit-2");
  CHECK(json["runs"][2]["model"] == "gpt2");
  CHECK(json["runs"][3].contains("accuracy"));
  CHECK(json["notes"].empty());
  const std::string html = read_text(page);
  for (const char* part : {"4 runs side by side", "What the model does: vit", "What the model does: bert", "rollout",
                           "<small>the model</small>", "a dull &amp; &lt;i&gt;long&lt;/i&gt; film"})
    CHECK_MESSAGE(html.find(part) != std::string::npos, part);
  CHECK(html.find("<i>long") == std::string::npos);
}

TEST_CASE("report says what is missing, and refuses what is no run") {
  const TemporaryFolder folder;
  train_vit(folder.path("run"), "1e-3");
  const std::string page = folder.path("page.html");
  check_refused(run_program({"report"}), "runs is missing");
  check_refused(run_program({"report", folder.path("none"), "--out", page}), folder.path("none") + ": no such folder");
  check_refused(run_program({"report", folder.path(), "--out", page}), "holds no run: there is no metrics.jsonl");
  check_refused(run_program({"report", folder.path("run"), folder.path("run"), "--out", page}), "is given twice");
  check_refused(run_program({"report", folder.path("run"), "--out", folder.path("run/config.json")}), "config.json");
  check_refused(run_program({"report", folder.path("run"), "--out", folder.path("no/such/page.html")}),
                "page.html: cannot be written");
  CHECK_FALSE(std::filesystem::exists(page));

  write_text(folder.path("run/checkpoints/best.json"), "{");
  const Outcome unmarked = run_program({"report", folder.path("run"), "--out", page});
  CHECK_MESSAGE(unmarked.code == 0, unmarked.err);
  CHECK(unmarked.err.find("checkpoints/best.json: damaged, or its checkpoint is gone; ") != std::string::npos);
  CHECK(read_text(page).find("best.json: damaged") != std::string::npos);

  // A run without its checkpoints still has curves.
  std::filesystem::remove_all(folder.path("run/checkpoints"));
  const Outcome bare = run_program({"report", folder.path("run"), "--out", page});
  CHECK(bare.code == 0);
  CHECK(bare.err.find("no figures of the model of " + folder.path("run")) != std::string::npos);
  CHECK(read_text(page).find("<svg") != std::string::npos);

  const std::string metrics = read_text(folder.path("run/metrics.jsonl"));
  write_text(folder.path("run/metrics.jsonl"), metrics + "{\"split\":\"tra"); // a killed run
  CHECK(run_program({"report", folder.path("run"), "--out", page, "--quiet"}).code == 0);
  write_text(folder.path("run/metrics.jsonl"), "what is this?\n" + metrics);
  check_refused(run_program({"report", folder.path("run"), "--out", page}),
                "metrics.jsonl: line 1 is no record of training");
}

TEST_CASE("a permuted run with dropout says, at its start and in the report, that it does not follow the plain one") {
  const TemporaryFolder folder;
  std::string films = "label\ttext\n";
  for (int i = 0; i < 40; ++i) films += i % 2 == 0 ? "bad\ta dull and long film\n" : "good\ta fine film\n";
  write_text(folder.path("films.tsv"), films);
  const std::string words = "are drawn by place";
  const auto train = [&](const std::string& name, const std::vector<std::string>& more, bool said) {
    std::vector<std::string> args = {"train",      "bert",    "--data", "films.tsv", "--dim",   "8",       "--layers",
                                     "1",          "--heads", "2",      "--steps",   "4",       "--batch", "4",
                                     "--held-out", "0.3",     "--out",  name,        "--dtype", "f64"};
    args.insert(args.end(), more.begin(), more.end());
    const Outcome got = run_program(args, folder.path());
    REQUIRE_MESSAGE(got.code == 0, got.err);
    CHECK_MESSAGE((got.out.find(words) != std::string::npos) == said, got.out);
    const std::string metrics = read_text(folder.path(name + "/metrics.jsonl"));
    return nlohmann::json::parse(metrics.substr(0, metrics.find('\n')))["loss"].get<double>(); // of the first step
  };
  const double plain = train("plain", {}, false), permuted = train("permuted", {"--permute", "columns"}, true);
  CHECK(std::abs(plain - permuted) > 1e-8);
  const double still = train("still", {"--dropout", "0"}, false);
  CHECK(train("twin", {"--dropout", "0", "--permute", "columns"}, false) == doctest::Approx(still).epsilon(1e-12));
  const Outcome got =
      run_program({"report", "plain", "permuted", "still", "twin", "--out", "page.html"}, folder.path());
  REQUIRE_MESSAGE(got.code == 0, got.err);
  const std::string page = read_text(folder.path("page.html"));
  const std::size_t at = page.find(words);
  CHECK(page.find("permuted: masks of dropout 0.1 are drawn by place") != std::string::npos);
  CHECK(page.find(words, at + 1) == std::string::npos); // of that run alone
}
