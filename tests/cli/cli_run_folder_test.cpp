// The program and its run folders: locks, interruptions, broken pipes, targets that cannot be written.

#include "cli/program.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <filesystem>
#include <memory>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace eg::test;

namespace {

/// A tiny ViT on generated images.
std::vector<std::string> tiny(std::vector<std::string> more) {
  std::vector<std::string> args = {"train",  "vit", "--data",  "shapes", "--train-limit", "64", "--test-limit", "32",
                                   "--size", "16",  "--dim",   "8",      "--layers",      "1",  "--heads",      "2",
                                   "--mlp",  "8",   "--patch", "8",      "--batch",       "16"};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

/// One line on stderr that holds `words`, exit code 2.
void check_refused(const Outcome& got, const std::string& words) {
  INFO(got.err);
  CHECK(got.code == 2);
  CHECK(std::count(got.err.begin(), got.err.end(), '\n') == 1);
  CHECK(got.err.find(words) != std::string::npos);
}

} // namespace

TEST_CASE("two trainings do not share a run folder") {
  const TemporaryFolder folder;
  const std::string run = folder.path("run");
  RunningProgram first(tiny({"--steps", "1000000", "--quiet", "--out", run}), ".");
  REQUIRE(first.wait_until([&] { return !read_text(run + "/metrics.jsonl").empty(); }));
  for (const auto& args : {tiny({"--steps", "3", "--out", run}), tiny({"--steps", "3", "--overwrite", "--out", run})})
    check_refused(run_program(args), run + ": another training is using this run folder (process ");
  CHECK(first.running());
  first.signal(SIGKILL);
  first.wait();
  CHECK(run_program(tiny({"--steps", "3", "--quiet", "--out", run})).code == 0); // the lock died with its holder
}

TEST_CASE("trainings that begin at once without --out take a folder each") {
  const TemporaryFolder folder;
  std::vector<std::unique_ptr<RunningProgram>> all;
  const auto args = tiny({"--steps", "20", "--quiet", "--threads", "1"});
  for (int i = 0; i < 8; ++i) all.push_back(std::make_unique<RunningProgram>(args, folder.path()));
  for (const auto& one : all) {
    const Outcome got = one->wait();
    CHECK_MESSAGE(got.code == 0, got.err);
  }
  for (const char* name : {"vit", "vit-2", "vit-3", "vit-4", "vit-5", "vit-6", "vit-7", "vit-8"})
    CHECK_MESSAGE(std::filesystem::exists(folder.path("out/" + std::string(name) + "/model.safetensors")), name);
}

TEST_CASE("a folder in the way of a training that was told it, and other trouble, are not tried again") {
  const TemporaryFolder folder;
  REQUIRE(run_program(tiny({"--steps", "1", "--quiet"}), folder.path()).code == 0);
  check_refused(run_program(tiny({"--steps", "1", "--out", "out/vit"}), folder.path()), "out/vit already holds a run");
  check_refused(run_program({"train", "gpt2", "--data", "no-such-text", "--steps", "1"}, folder.path()),
                "no-such-text");
  CHECK_FALSE(std::filesystem::exists(folder.path("out/gpt2")));
}

TEST_CASE("Ctrl-C at any moment is 130, also before the work has begun") {
  const TemporaryFolder folder;
  for (int delay_ms = 30; delay_ms <= 150; delay_ms += 40) {
    RunningProgram program({"train", "vit", "--data", "shapes", "--size", "64", "--train-limit", "200000", "--quiet",
                            "--steps", "1", "--out", folder.path("run")},
                           ".");
    std::this_thread::sleep_for(std::chrono::milliseconds(delay_ms));
    program.signal(SIGINT);
    const Outcome outcome = program.wait();
    INFO(outcome.err);
    CHECK(outcome.code == 130);
  }
  CHECK_FALSE(std::filesystem::exists(folder.path("run")));
}

TEST_CASE("a reader of stdout that goes away does not cost the run") {
  const TemporaryFolder folder;
  const std::string pipe = folder.path("pipe"), run = folder.path("run");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  REQUIRE(reader >= 0);
  RunningProgram program(tiny({"--steps", "300", "--checkpoint-every", "20", "--out", run}), ".", pipe);
  std::array<char, 16> text{};
  CHECK(program.wait_until([&] { return ::read(reader, text.data(), text.size()) > 0; }));
  ::close(reader);
  const Outcome outcome = program.wait();
  CHECK(outcome.code == 2);
  CHECK(outcome.err == "equigrad: standard output: cannot be written; the run is complete, in " + run + "\n");
  CHECK(std::filesystem::exists(run + "/checkpoints/step-00000300/state.json"));
  CHECK(std::filesystem::exists(run + "/model.safetensors"));
}

TEST_CASE("resuming a finished run says that it is complete") {
  const TemporaryFolder folder;
  CHECK(run_program(tiny({"--steps", "3", "--quiet", "--out", folder.path("run")})).code == 0);
  const Outcome again = run_program({"train", "vit", "--resume", folder.path("run")});
  CHECK(again.code == 0);
  CHECK(again.err.find("training is already complete (step 3 of 3)") != std::string::npos);
  CHECK(again.out.find("tested; training was already complete") != std::string::npos);
  CHECK(again.out.find("0 images/s") == std::string::npos);
}

TEST_CASE("targets that cannot be written are refused before the work, and what is there stays") {
  const TemporaryFolder folder;
  const std::string lost = folder.path("no/such/file"), run = folder.path("run");
  check_refused(run_program(tiny({"--steps", "3", "--quiet", "--out", run, "--json", lost})),
                lost + ": cannot be written: No such file or directory");
  CHECK_FALSE(std::filesystem::exists(run));
  check_refused(run_program({"keygen", "--out", folder.path("key"), "--json", lost}), lost);
  CHECK_FALSE(std::filesystem::exists(folder.path("key")));
  for (const std::string& report : {lost, folder.path()}) {
    const Outcome got = run_program({"verify", "--filter", "eq45", "--dtype", "f64", "--report", report});
    check_refused(got, report + ": cannot be written: ");
    CHECK(got.out.empty()); // no row was checked
  }
  write_text(folder.path("file"), "mine");
  check_refused(run_program(tiny({"--steps", "3", "--out", folder.path("file/run")})), folder.path("file/run"));
  std::filesystem::create_directory(folder.path("out"));
  std::filesystem::create_directory(folder.path("out/report.html"));
  check_refused(
      run_program({"run", "--quiet", "--steps", "1", "--data-dir", folder.path(), "--out", folder.path("out")}),
      "report.html: cannot be written: it is a folder");
  write_text(folder.path("result.json"), "mine");
  check_refused(run_program({"verify", "--filter", "nothing-*", "--json", folder.path("result.json")}), "nothing-*");
  CHECK(read_text(folder.path("result.json")) == "mine");
  std::filesystem::create_symlink("loop", folder.path("loop"));
  check_refused(run_program({"train", "vit", "--resume", folder.path("loop")}), "Too many levels of symbolic links");
  check_refused(run_program({"doctor", "--json", folder.path("loop")}), "Too many levels of symbolic links");
}

TEST_CASE("a run whose files can grow no more says how to go on") {
  const TemporaryFolder folder;
  const std::string run = folder.path("run");
  RunningProgram training(tiny({"--steps", "1000000", "--checkpoint-every", "20", "--quiet", "--out", run}), ".");
  REQUIRE(training.wait_until([&] { return std::filesystem::exists(run + "/checkpoints/step-00000020"); }));
  const rlimit limit{.rlim_cur = 512, .rlim_max = 512};
  REQUIRE(::prlimit(training.pid(), RLIMIT_FSIZE, &limit, nullptr) == 0);
  const Outcome got = training.wait();
  check_refused(got, "File too large");
  CHECK(got.err.find("the last checkpoint is kept, go on with: equigrad train vit --resume " + run) !=
        std::string::npos);
}
