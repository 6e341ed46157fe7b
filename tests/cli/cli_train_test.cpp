#include "cli/program.h"

#include <algorithm>
#include <csignal>
#include <doctest/doctest.h>
#include <filesystem>

using namespace eg::test;

namespace {

/// A small ViT on generated images.
std::vector<std::string> small(std::vector<std::string> more) {
  std::vector<std::string> args = {
      "train",   "vit", "--data",   "shapes", "--train-limit", "128",    "--test-limit", "64", "--size",  "16",
      "--dim",   "24",  "--layers", "2",      "--heads",       "2",      "--mlp",        "32", "--patch", "8",
      "--batch", "16",  "--warmup", "1",      "--schedule",    "cosine", "--augment"};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

nlohmann::json result_of(const Outcome& outcome) {
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  return nlohmann::json::parse(outcome.out);
}

std::string weights(const std::string& run) { return read_text(run + "/model.safetensors"); }

} // namespace

TEST_CASE("training writes its run folder and says what came out") {
  const TemporaryFolder folder;
  const auto json = result_of(run_program(small({"--steps", "12", "--json", "-", "--out", folder.path("run")})));
  for (const char* field : {"steps", "loss", "accuracy", "seconds", "images_per_s", "drift"})
    CHECK(json.contains(field));
  CHECK(json["steps"] == 12);
  CHECK(json["drift"].is_null());
  for (const char* file : {"config.json", "metrics.jsonl", "model.safetensors"})
    CHECK(std::filesystem::exists(folder.path("run/" + std::string(file))));
  const std::string metrics = read_text(folder.path("run/metrics.jsonl"));
  const auto line = nlohmann::json::parse(metrics.substr(0, metrics.find('\n')));
  for (const char* field : {"step", "epoch", "loss", "accuracy", "lr", "images_per_s"}) CHECK(line.contains(field));
}

TEST_CASE("a warm-up that was asked for ends within the run") {
  const TemporaryFolder folder;
  const Outcome refused =
      run_program({"train", "vit", "--data", "shapes", "--steps", "1", "--warmup", "3", "--out", folder.path("run")});
  CHECK(refused.code != 0);
  CHECK(refused.err.find("warmup is 3, and the run has 1 steps") != std::string::npos);
}

TEST_CASE("the same bits for 1, 2 and 3 threads") {
  const TemporaryFolder folder;
  for (const char* threads : {"1", "2", "3"})
    CHECK(run_program(small({"--steps", "8", "--dropout", "0.1", "--quiet", "--threads", threads, "--permute", "both",
                             "--out", folder.path(threads)}))
              .code == 0);
  CHECK(!weights(folder.path("1")).empty());
  CHECK(weights(folder.path("1")) == weights(folder.path("2")));
  CHECK(weights(folder.path("1")) == weights(folder.path("3")));
}

TEST_CASE("twins drift apart by rounding alone") {
  const TemporaryFolder folder;
  for (const char* mode : {"rows", "columns", "both"}) {
    const auto json = result_of(run_program(small(
        {"--steps", "10", "--dtype", "f64", "--permute", mode, "--twin", "--json", "-", "--out", folder.path(mode)})));
    CHECK(json["drift"].get<double>() < 1e-10);
  }
}

TEST_CASE("a run that was killed goes on bit for bit from its last checkpoint") {
  const TemporaryFolder folder;
  const auto args = [&](const char* run, std::vector<std::string> more = {}) {
    more.insert(more.end(), {"--steps", "600", "--quiet", "--dropout", "0.1", "--out", folder.path(run)});
    return small(more);
  };
  CHECK(run_program(args("whole")).code == 0);
  const std::string cut = folder.path("cut");
  RunningProgram program(args("cut", {"--checkpoint-every", "20"}), ".");
  REQUIRE(program.wait_until([&] { return std::filesystem::exists(cut + "/checkpoints/latest"); }));
  program.signal(SIGKILL);
  REQUIRE(program.wait().code == 128 + SIGKILL);
  CHECK(weights(cut).empty());
  const Outcome resumed = run_program({"train", "vit", "--quiet", "--resume", cut});
  INFO(resumed.err);
  CHECK(resumed.code == 0);
  CHECK(!weights(cut).empty());
  CHECK(weights(folder.path("whole")) == weights(cut));
  const std::string metrics = read_text(cut + "/metrics.jsonl");
  CHECK(std::count(metrics.begin(), metrics.end(), '\n') == 601); // every step once, and the test
}

TEST_CASE("Ctrl-C leaves a checkpoint from which the run goes on") {
  const TemporaryFolder folder;
  for (const int signal : {SIGINT, SIGTERM}) {
    const std::string run = folder.path("run" + std::to_string(signal));
    const auto metrics = [&] { return read_text(run + "/metrics.jsonl").size(); };
    RunningProgram program(small({"--steps", "1000000", "--quiet", "--out", run}), ".");
    CHECK(program.wait_until([&] { return metrics() > 0; }));
    program.signal(signal);
    const Outcome outcome = program.wait();
    INFO(outcome.err);
    CHECK(outcome.code == 130);
    CHECK(outcome.err.find("--resume " + run) != std::string::npos);
    CHECK(std::filesystem::exists(run + "/checkpoints/latest"));
    const std::size_t before = metrics();
    RunningProgram resumed({"train", "vit", "--quiet", "--resume", run}, ".");
    CHECK(resumed.wait_until([&] { return metrics() > before; }));
    resumed.signal(signal);
    CHECK(resumed.wait().code == 130);
  }
}

TEST_CASE("hints quote a folder whose name a shell would split") {
  const TemporaryFolder folder;
  const std::string run = "my run/it's";
  CHECK(run_program(small({"--steps", "1", "--quiet", "--out", run}), folder.path()).code == 0);
  const Outcome refused = run_program(small({"--steps", "1", "--out", run}), folder.path());
  INFO(refused.err);
  CHECK(refused.err.find(R"(--resume 'my run/it'\''s' to go on)") != std::string::npos);
}

TEST_CASE("every test of twins shows their drift, one plain line each in a pipe") {
  const TemporaryFolder folder;
  const Outcome got = run_program(small({"--steps", "5", "--evaluate-every", "2", "--drift-every", "0", "--permute",
                                         "both", "--twin", "--out", folder.path("run")}));
  CHECK(got.code == 0);
  CHECK(got.err.empty());
  CHECK(got.out.find('\r') == std::string::npos);
  std::size_t tests = 0;
  for (std::size_t at = got.out.find("test   step"); at != std::string::npos;
       at = got.out.find("test   step", at + 1), ++tests) {
    const std::string line = got.out.substr(at, got.out.find('\n', at) - at);
    CHECK(line.find("drift ") != std::string::npos);
  }
  CHECK(tests == 3);
}

TEST_CASE("the progress line drops whole fields on a narrow terminal") {
  const TemporaryFolder folder;
  for (const int columns : {200, 80, 30, 5}) {
    const std::string shown = run_program_on_terminal(
        small({"--steps", "4", "--permute", "both", "--twin", "--out", folder.path(std::to_string(columns))}), columns);
    const std::string begin = "\r\x1b[K";
    std::size_t lines = 0;
    for (std::size_t at = shown.find(begin); at != std::string::npos; at = shown.find(begin, at + 1)) {
      const std::string line = shown.substr(at + begin.size(), shown.find(begin, at + 1) - at - begin.size());
      if (line.find('%') == std::string::npos) continue;                       // the line was cleared
      if (line.find(" loss ") == std::string::npos && columns >= 80) continue; // reading or testing
      ++lines;
      INFO(line);
      CHECK(line.size() < static_cast<std::size_t>(columns));
      CHECK((line.find("[####") != std::string::npos) == (columns == 200));
      CHECK((line.find("step 4/4") != std::string::npos || line.find("step ") == std::string::npos ||
             line.find("/4") != std::string::npos));
      CHECK((line.find("[both] loss ") != std::string::npos) == (columns >= 80));
    }
    CHECK((lines > 0) == (columns > 5));
  }
}

TEST_CASE("a terminal that obeys no escape sequences gets no line of progress") {
  const TemporaryFolder folder;
  for (const char* term : {"dumb", ""}) {
    const std::string shown = run_program_on_terminal(
        small({"--steps", "4", "--out", folder.path(std::string("run-") + term)}), 80, OnTerminal::err, term);
    CHECK_MESSAGE(shown.empty(), shown);
  }
}

TEST_CASE("a run in bf16 says what it used, and goes on") {
  const TemporaryFolder folder;
  const std::string run = folder.path("run");
  const Outcome first = run_program(small({"--precision", "bf16", "--steps", "2", "--out", run}));
  REQUIRE_MESSAGE(first.code == 0, first.err);
  const bool used = first.err.find("products stay in f32") == std::string::npos;
  const auto config = nlohmann::json::parse(read_text(run + "/config.json"));
  CHECK(config["precision"] == (used ? "bf16" : "f32"));
  const Outcome more = run_program({"train", "vit", "--resume", run, "--steps", "3", "--precision", "f32"});
  CHECK_MESSAGE(more.code == 0, more.err);
}

TEST_CASE("training twice keeps both runs") {
  const TemporaryFolder folder;
  const auto args = small({"--steps", "1", "--quiet"});
  CHECK(run_program(args, folder.path()).code == 0);
  const std::string first = read_text(folder.path("out/vit/metrics.jsonl"));
  CHECK(run_program(args, folder.path()).code == 0);
  CHECK(std::filesystem::exists(folder.path("out/vit-2/model.safetensors")));
  CHECK(read_text(folder.path("out/vit/metrics.jsonl")) == first);
  const Outcome refused = run_program(small({"--steps", "1", "--out", "out/vit"}), folder.path());
  CHECK(refused.code == 2);
  CHECK(refused.err == "equigrad: train: out/vit already holds a run (step 1): give another --out, or --resume out/vit "
                       "to go on, or --overwrite\n");
  const Outcome over =
      run_program(small({"--steps", "2", "--overwrite", "--quiet", "--out", "out/vit"}), folder.path());
  CHECK(over.code == 0);
  CHECK(over.err == "equigrad: out/vit already holds a run (step 1), which is overwritten\n");
  CHECK(std::filesystem::exists(folder.path("out/vit/checkpoints/step-00000002")));
  CHECK_FALSE(std::filesystem::exists(folder.path("out/vit/checkpoints/step-00000001")));
}

TEST_CASE("damaged data and batches that cannot fit are refused before the first step") {
  const TemporaryFolder folder;
  write_text(folder.path("cifar10/cifar-10-batches-bin/data_batch_1.bin"), std::string(3073 * 2 + 5, 'x'));
  const Outcome damaged = run_program({"train", "vit", "--data", "cifar10-records", "--data-dir", folder.path(),
                                       "--steps", "1", "--out", folder.path("run")});
  CHECK(damaged.code == 2);
  CHECK(damaged.err.find("cifar-10-batches-bin") != std::string::npos);
  const Outcome large = run_program({"train",   "vit",     "--data", "shapes",   "--train-limit",
                                     "100000",  "--dim",   "2048",   "--layers", "12",
                                     "--heads", "16",      "--mlp",  "1024",     "--batch",
                                     "100000",  "--steps", "1",      "--out",    folder.path("large")});
  INFO(large.err);
  CHECK(large.code == 2);
  CHECK(large.err.find("--batch") != std::string::npos);
  write_text(folder.path("pictures/cat/1.png"), "not a picture");
  const Outcome folder_run =
      run_program({"train", "vit", "--data", folder.path("pictures"), "--steps", "1", "--out", folder.path("run2")});
  CHECK(folder_run.code == 2);
  CHECK(folder_run.err.find("1.png") != std::string::npos);
}
