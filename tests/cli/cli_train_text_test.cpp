// equigrad train gpt2 and train llama.

#include "cli/program.h"

#include <algorithm>
#include <csignal>
#include <doctest/doctest.h>
#include <filesystem>

using namespace eg::test;

namespace {

std::string story() {
  std::string text;
  for (int i = 0; i < 40; ++i) text += std::to_string(i * i) + " sheep went to the fair, and none came home.\n";
  return text;
}

/// A small model of a text that lies in `folder`.
std::vector<std::string> small(const TemporaryFolder& folder, const std::string& model, std::vector<std::string> more) {
  if (!std::filesystem::exists(folder.path("story.txt"))) write_text(folder.path("story.txt"), story());
  std::vector<std::string> args = {"train",     model, "--data",   folder.path("story.txt"),
                                   "--context", "16",  "--dim",    "16",
                                   "--heads",   "2",   "--layers", "1",
                                   "--warmup",  "1",   "--batch",  "4"};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

std::string weights(const std::string& run) { return read_text(run + "/model/model.safetensors"); }

} // namespace

TEST_CASE("a language model is trained, and its run folder generates text") {
  const TemporaryFolder folder;
  for (const char* model : {"gpt2", "llama"}) {
    const std::string run = folder.path(model);
    const Outcome got = run_program(small(folder, model, {"--steps", "30", "--json", "-", "--out", run}));
    REQUIRE_MESSAGE(got.code == 0, got.err);
    const auto json = nlohmann::json::parse(got.out);
    for (const char* field : {"steps", "loss", "train_loss", "seconds", "tokens_per_s"}) CHECK(json.contains(field));
    const std::string metrics = read_text(run + "/metrics.jsonl");
    const auto line = nlohmann::json::parse(metrics.substr(0, metrics.find('\n')));
    for (const char* field : {"step", "epoch", "loss", "lr", "tokens_per_s"}) CHECK(line.contains(field));
    CHECK(nlohmann::json::parse(read_text(run + "/config.json"))["model"] == model);

    const Outcome text =
        run_program({"generate", "--model", run, "--prompt", "9 sh", "--max-new-tokens", "8", "--json", "-"});
    REQUIRE_MESSAGE(text.code == 0, text.err);
    CHECK(nlohmann::json::parse(text.out)["ids"].size() == 8);
    CHECK(run_program({"inspect", run + "/model"}).code == 0);
  }
}

TEST_CASE("a language model that was killed goes on bit for bit") {
  const TemporaryFolder folder;
  const auto args = [&](const char* run, std::vector<std::string> more = {}) {
    more.insert(more.end(), {"--steps", "600", "--quiet", "--dropout", "0.1", "--out", folder.path(run)});
    return small(folder, "gpt2", more);
  };
  REQUIRE(run_program(args("whole", {"--threads", "1"})).code == 0);
  const std::string cut = folder.path("cut");
  RunningProgram program(args("cut", {"--checkpoint-every", "15"}), ".");
  REQUIRE(program.wait_until([&] { return std::filesystem::exists(cut + "/checkpoints/latest"); }));
  program.signal(SIGKILL);
  REQUIRE(program.wait().code == 128 + SIGKILL);
  CHECK_FALSE(std::filesystem::exists(cut + "/model"));
  // Killed again, then interrupted politely, then to the end.
  RunningProgram second({"train", "gpt2", "--quiet", "--resume", cut, "--threads", "2"}, ".");
  const std::string before = read_text(cut + "/checkpoints/latest");
  REQUIRE(second.wait_until([&] { return read_text(cut + "/checkpoints/latest") != before; }));
  second.signal(SIGINT);
  const Outcome polite = second.wait();
  CHECK(polite.code == 130);
  CHECK(polite.err.find("go on with: equigrad train gpt2 --resume " + cut) != std::string::npos);
  const Outcome resumed = run_program({"train", "gpt2", "--quiet", "--resume", cut, "--threads", "3"});
  REQUIRE_MESSAGE(resumed.code == 0, resumed.err);
  CHECK(weights(folder.path("whole")) == weights(cut));
  const std::string metrics = read_text(cut + "/metrics.jsonl");
  CHECK(std::count(metrics.begin(), metrics.end(), '\n') == 601); // every step once, and the test
}

TEST_CASE("a terminal sees that text is read and how far training is, a pipe does not") {
  const TemporaryFolder folder;
  const std::string shown =
      run_program_on_terminal(small(folder, "gpt2", {"--steps", "3", "--out", folder.path("run")}), 120);
  CHECK(shown.find("reading " + folder.path("story.txt")) != std::string::npos);
  CHECK(shown.find("step 3/3") != std::string::npos);
  CHECK(shown.find("tokens/s") != std::string::npos);
  CHECK(shown.find(" MB") != std::string::npos); // memory
  const Outcome piped = run_program(small(folder, "gpt2", {"--steps", "3", "--out", folder.path("piped")}));
  CHECK(piped.err.empty());
  CHECK(piped.out.find('\r') == std::string::npos);
}

TEST_CASE("a run whose data has moved goes on when its place is named") {
  const TemporaryFolder folder;
  const std::string run = folder.path("run");
  REQUIRE(run_program(small(folder, "gpt2", {"--steps", "3", "--out", run})).code == 0);
  std::filesystem::rename(folder.path("story.txt"), folder.path("moved.txt"));
  const std::vector<std::string> go_on = {"train", "gpt2", "--quiet", "--resume", run, "--steps", "4"};
  const Outcome lost = run_program(go_on);
  CHECK(lost.code == 2);
  CHECK_MESSAGE(lost.err.ends_with("; if it has moved since the run began, name its place with --data\n"), lost.err);
  std::vector<std::string> named = go_on;
  named.insert(named.end(), {"--data", folder.path("moved.txt")});
  const Outcome found = run_program(named);
  CHECK_MESSAGE(found.code == 0, found.err);

  std::filesystem::rename(folder.path("moved.txt"), folder.path("story.txt"));
  REQUIRE(run_program({"train", "gpt2", "--quiet", "--data", folder.path("story.txt"), "--from", run, "--tokenizer",
                       run + "/model", "--context", "8", "--steps", "2", "--out", folder.path("tuned")})
              .code == 0);
  std::filesystem::rename(run, folder.path("moved"));
  const std::vector<std::string> tune_on = {"train",   "gpt2", "--quiet", "--resume", folder.path("tuned"),
                                            "--steps", "3"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), tune_on.begin(), tune_on.end());
    return run_program(more);
  };
  const std::string from = folder.path("moved"), tokenizer = folder.path("moved/model");
  const Outcome no_model = with({"--tokenizer", tokenizer}), no_tokenizer = with({"--from", from});
  CHECK_MESSAGE(no_model.err.ends_with("name its place with --from\n"), no_model.err);
  CHECK_MESSAGE(no_tokenizer.err.ends_with("name its place with --tokenizer\n"), no_tokenizer.err);
  const Outcome both = with({"--from", from, "--tokenizer", tokenizer});
  CHECK_MESSAGE(both.code == 0, both.err);
}

TEST_CASE("a file inside a run folder that is not a checkpoint is refused, and the run folder named") {
  const TemporaryFolder folder;
  const std::string run = folder.path("run");
  REQUIRE(run_program(small(folder, "gpt2", {"--steps", "2", "--out", run})).code == 0);
  for (const char* inside : {"/checkpoints", "/checkpoints/", "/config.json", "/model"}) {
    CAPTURE(inside);
    const Outcome refused = run_program({"train", "gpt2", "--resume", run + inside});
    CHECK(refused.code == 2);
    CHECK_MESSAGE(
        refused.err.ends_with("is inside a run folder but is not a checkpoint; give the run folder: " + run + "\n"),
        refused.err);
  }
}

TEST_CASE("steps that are skipped and the best checkpoint are told") {
  const TemporaryFolder folder;
  const std::string run = folder.path("run");
  const Outcome got = run_program(small(folder, "gpt2",
                                        {"--steps", "80", "--schedule", "constant", "--lr", "3", "--spike-guard",
                                         "1.05", "--skip-limit", "80", "--evaluate-every", "5", "--out", run}));
  REQUIRE_MESSAGE(got.code == 0, got.err);
  CHECK(got.out.find("skip   step ") != std::string::npos);
  CHECK(got.out.find(" times the usual ") != std::string::npos);
  const auto mark = nlohmann::json::parse(read_text(run + "/checkpoints/best.json"));
  const auto json = nlohmann::json::parse(run_program({"train", "gpt2", "--resume", run, "--json", "-"}).out);
  CHECK(json["skipped_steps"] > 0);
  CHECK(json["best"]["step"] == mark["step"]);
  CHECK(std::filesystem::exists(json["best"]["checkpoint"].get<std::string>() + "/state.json"));
  const Outcome stopped =
      run_program(small(folder, "gpt2",
                        {"--steps", "80", "--optimizer", "sgd", "--lr", "1e12", "--clip", "0", "--on-divergence",
                         "skip", "--skip-limit", "4", "--out", folder.path("broken")}));
  CHECK(stopped.code == 2);
  CHECK(stopped.err.find("4 steps in a row were skipped") != std::string::npos);
}

TEST_CASE("options of other models, and of none, are refused by name") {
  const TemporaryFolder folder;
  const auto refused = [&](std::vector<std::string> args, const std::string& words) {
    const Outcome got = run_program(args, folder.path());
    CHECK(got.code == 2);
    CHECK_MESSAGE(got.err.find(words) != std::string::npos, got.err);
  };
  refused(small(folder, "gpt2", {"--steps", "1", "--patch", "4"}),
          "--patch is an option of `train vit` and `train deit`, not of `train gpt2` (see equigrad train gpt2 --help)");
  refused(small(folder, "llama", {"--steps", "1", "--mask-share", "0.2"}), "--mask-share is an option of `train bert`");
  refused(small(folder, "gpt2", {"--steps", "1", "--twin"}), "twin needs a permutation to compare with");
  refused(small(folder, "llama", {"--steps", "1", "--permute", "rows"}), "behind a causal mask");
  refused(small(folder, "gpt2", {"--steps", "1", "--drift-every", "3"}), "there is no twin to drift from (--twin)");
  refused({"train", "vit", "--data", "shapes", "--steps", "1", "--context", "3"},
          "--context is an option of `train bert` and `train gpt2` and `train llama`, not of `train vit`");
  refused({"train", "gtp2", "--steps", "1"}, "'gtp2' is not one of vit, deit, bert, gpt2, llama, difm");
  refused({"train", "--steps", "1"}, "model is missing: What to train: vit, deit, bert, gpt2, llama, difm");
  refused({"train", "gpt2", "--data", "no/such.txt", "--steps", "1"}, "no/such.txt: no such text");
  refused({"train", "gpt2", "--steps", "1", "--data-dir", folder.path("nothing")}, "looked for");
  write_text(folder.path("c.json"), R"({"steps": 1, "dimm": 8})");
  refused({"train", "gpt2", "--config", folder.path("c.json")}, "unknown option 'dimm'; did you mean dim?");
  write_text(folder.path("c.json"), R"({"steps": 1, "patch": 8})");
  refused({"train", "gpt2", "--config", folder.path("c.json")},
          "c.json: 'patch' is an option of `train vit` and `train deit`, not of `train gpt2`");
  CHECK(run_program({"train", "vit", "--help"}).out.find("--context") == std::string::npos);
  CHECK(run_program({"train", "gpt2", "--help"}).out.find("--patch") == std::string::npos);
  CHECK(run_program({"train", "--help"}).out.find("train MODEL --help") != std::string::npos);
}

TEST_CASE("a config file holds what the flags hold, and a run goes on under it alone") {
  const TemporaryFolder folder;
  REQUIRE(run_program(small(folder, "gpt2", {"--steps", "4", "--quiet", "--out", folder.path("a")})).code == 0);
  const Outcome again =
      run_program({"train", "gpt2", "--quiet", "--config", folder.path("a/config.json"), "--out", folder.path("b")});
  REQUIRE_MESSAGE(again.code == 0, again.err);
  CHECK(weights(folder.path("a")) == weights(folder.path("b")));
  const Outcome wrong = run_program({"train", "llama", "--resume", folder.path("a")});
  CHECK(wrong.code == 2);
  CHECK(wrong.err.find("is a run of `train gpt2`, not of `train llama`") != std::string::npos);
  const Outcome vit = run_program({"train", "vit", "--resume", folder.path("a")});
  CHECK(vit.err.find("is a run of `train gpt2`, not of `train vit`") != std::string::npos);
}

TEST_CASE("a text classifier is trained from a file of rows") {
  const TemporaryFolder folder;
  std::string rows = "label\ttext\n";
  for (int i = 0; i < 40; ++i) rows += i % 2 == 0 ? "0\ta dull film\n" : "1\ta fine film\n";
  write_text(folder.path("films.tsv"), rows);
  const std::vector<std::string> args = {"train",      "bert",
                                         "--data",     folder.path("films.tsv"),
                                         "--dim",      "16",
                                         "--mlp",      "16",
                                         "--heads",    "2",
                                         "--layers",   "1",
                                         "--lr",       "1e-2",
                                         "--warmup",   "2",
                                         "--batch",    "6",
                                         "--dropout",  "0",
                                         "--steps",    "120",
                                         "--held-out", "0.3",
                                         "--out",      folder.path("run"),
                                         "--json",     "-"};
  const Outcome got = run_program(args);
  REQUIRE_MESSAGE(got.code == 0, got.err);
  const auto json = nlohmann::json::parse(got.out);
  CHECK(json["accuracy"] == 1.0);
  CHECK(json.contains("texts_per_s"));
  const std::string metrics = read_text(folder.path("run/metrics.jsonl"));
  CHECK(nlohmann::json::parse(metrics.substr(0, metrics.find('\n'))).contains("accuracy"));
  CHECK(run_program({"inspect", folder.path("run/model")}).code == 0);

  write_text(folder.path("bad.csv"), "label,text\n1,a\n1,b,c\n");
  const Outcome bad = run_program({"train", "bert", "--data", folder.path("bad.csv"), "--steps", "1"}, folder.path());
  CHECK(bad.code == 2);
  CHECK(bad.err.find("bad.csv: line 3 has 3 columns, the first line has 2") != std::string::npos);
  const Outcome idle = run_program({"train", "bert", "--data", "imdb", "--held-out", "0.2", "--steps", "1"});
  CHECK(idle.err.find("--held-out has no effect: imdb has a test part of its own") != std::string::npos);
}

TEST_CASE("a language model and its plain twin train side by side, and the key makes the permuted one plain") {
  const TemporaryFolder folder;
  REQUIRE(run_program({"keygen", "--out", folder.path("a.key")}).code == 0);
  for (const std::string model : {"gpt2", "llama"}) {
    CAPTURE(model);
    const std::string run = folder.path(model);
    const Outcome got = run_program(small(folder, model.c_str(),
                                          {"--steps", "3", "--permute", "columns", "--twin", "--key",
                                           folder.path("a.key"), "--json", "-", "--out", run}));
    REQUIRE_MESSAGE(got.code == 0, got.err);
    const auto json = nlohmann::json::parse(got.out);
    REQUIRE(json["variants"].size() == 2);
    CHECK(json["variants"][0]["permute"] == "none");
    CHECK(json["drift"] < 1e-3);
    CHECK(run_program({"inspect", run + "/model"}).out.find("the blocks carry the permutations of key ") !=
          std::string::npos);
    CHECK(run_program({"inspect", run + "/model-none"}).out.find("permutations") == std::string::npos);
    const std::string plain = folder.path(model + "-plain");
    CHECK(run_program({"permute", "--model", run, "--key", folder.path("a.key"), "--inverse", "--out", plain}).code ==
          0);
    CHECK(run_program({"inspect", plain}).out.find("permutations") == std::string::npos);
    CHECK(run_program({"report", run, "--key", folder.path("a.key"), "--out", folder.path(model + ".html")}).code == 0);
  }
}
