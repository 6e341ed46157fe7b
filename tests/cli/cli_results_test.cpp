// How results are written: whole or not at all, through links, into pipes and devices, on full disks.

#include "cli/program.h"
#include "core/ops.h"
#include "data/safetensors.h"
#include "nn/hub/folder.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/resource.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

using namespace eg;
using namespace eg::test;

namespace {

using Words = std::vector<std::string>;

/// A GPT-2 of 8 features and its inputs, and an option that names each kind of result.
struct Scene {
  Scene() {
    const auto model = hub::make_model({{"model_type", "gpt2"},
                                        {"architectures", {"GPT2Model"}},
                                        {"vocab_size", 40},
                                        {"n_embd", 8},
                                        {"n_layer", 1},
                                        {"n_head", 2},
                                        {"n_positions", 32}},
                                       {1, 0});
    hub::save_model(*model, folder.path("model"));
    data::save_safetensors(folder.path("in.st"), {{"input_ids", Tensor::arange(3).reshape({1, 3})},
                                                  {"cotangent.last_hidden_state", Tensor::ones({1, 3, 8})}});
  }
  /// A command that writes its result, as this option has it, to `target`.
  static Words writing(const std::string& option, const std::string& target) {
    Words words = {"infer", "--model", "model", "--inputs", "in.st", "--quiet"};
    if (option != "--outputs") words.insert(words.end(), {"--outputs", "/dev/null"});
    words.insert(words.end(), {option, target});
    return words;
  }
  Outcome run(const Words& words) const { return run_program(words, folder.path()); }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder.path()), {}));
  }

  TemporaryFolder folder;
};

/// Waits until the program has its handlers: before, a signal would end it as it ends any process.
void wait_for_handlers(const RunningProgram& program) {
  const std::string path = "/proc/" + std::to_string(program.pid());
  REQUIRE(program.wait_until([&] {
    std::error_code ended;
    const auto file = std::filesystem::read_symlink(path + "/exe", ended);
    if (ended || file == std::filesystem::read_symlink("/proc/self/exe")) return false; // not yet by exec: our handlers
    const std::string status = read_text(path + "/status");
    const std::size_t caught = status.find("SigCgt:");
    return caught != std::string::npos &&
           (std::stoull(status.substr(caught + 7), nullptr, 16) & (1ULL << (SIGTERM - 1))) != 0;
  }));
}

const Words result_options = {"--json", "--outputs", "--gradients", "--profile"};

/// A soft limit on the size of files, of the programs that are started while it lives.
class FileSizeLimit {
public:
  explicit FileSizeLimit(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    before_action_ = std::signal(SIGXFSZ, SIG_DFL);
    const rlimit lower{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &lower);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, before_action_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

private:
  rlimit before_{};
  void (*before_action_)(int) = SIG_DFL;
};

} // namespace

TEST_CASE("a result goes through a link, also one that dangles, and under the longest name") {
  const Scene scene;
  for (const std::string& option : result_options) {
    INFO(option);
    std::filesystem::create_directory(scene.folder.path("far"));
    std::filesystem::create_symlink("far/result", scene.folder.path("link"));
    for (int again = 0; again < 2; ++again) {
      const Outcome got = scene.run(Scene::writing(option, "link"));
      CHECK_MESSAGE(got.code == 0, got.err);
      CHECK(std::filesystem::is_symlink(scene.folder.path("link")));
      CHECK(std::filesystem::file_size(scene.folder.path("far/result")) > 0);
    }
    const std::string longest(255, 'n');
    const Outcome named = scene.run(Scene::writing(option, longest));
    CHECK_MESSAGE(named.code == 0, named.err);
    CHECK(std::filesystem::exists(scene.folder.path(longest)));
    CHECK(scene.run(Scene::writing(option, std::string(256, 'n'))).err.find("File name too long") != std::string::npos);
    std::filesystem::remove_all(scene.folder.path("far"));
    std::filesystem::remove(scene.folder.path("link"));
    std::filesystem::remove(scene.folder.path(longest));
  }
  CHECK(scene.files() == 2);
}

TEST_CASE("a result goes into a pipe or a device, and Ctrl-C ends the wait for a reader at the first") {
  const Scene scene;
  const std::string pipe = scene.folder.path("pipe");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  for (const std::string& option : result_options) {
    INFO(option);
    CHECK(scene.run(Scene::writing(option, "/dev/null")).code == 0);
    const Outcome full = scene.run(Scene::writing(option, "/dev/full"));
    CHECK(full.code == 2);
    CHECK_MESSAGE(full.err == "equigrad: /dev/full: cannot write: No space left on device\n", full.err);
    REQUIRE(scene.run(Scene::writing(option, "plain")).code == 0);
    std::string seen;
    std::thread reader([&] { seen = read_text(pipe); });
    const Outcome got = scene.run(Scene::writing(option, "pipe"));
    reader.join();
    CHECK_MESSAGE(got.code == 0, got.err);
    if (option == "--outputs" || option == "--gradients") CHECK(seen == read_text(scene.folder.path("plain")));
    CHECK(!seen.empty());
    CHECK(std::filesystem::is_fifo(pipe));

    RunningProgram waiting(Scene::writing(option, "pipe"), scene.folder.path());
    wait_for_handlers(waiting);
    std::this_thread::sleep_for(std::chrono::milliseconds(200)); // it stands in the pipe, or comes there later
    waiting.signal(SIGINT);
    const Outcome stopped = waiting.wait();
    CHECK(stopped.code == 130);
    CHECK(stopped.err == "equigrad: interrupted\n");
  }
  CHECK(scene.files() == 4);
}

TEST_CASE("a result goes to /dev/stdout also where stdout goes to a file, behind what was printed") {
  const Outcome got = run_program({"doctor", "--json", "/dev/stdout"});
  CHECK_MESSAGE(got.code == 0, got.err);
  const std::string printed = run_program({"doctor"}).out;
  CHECK(got.out.starts_with(printed.substr(0, printed.find('\n') + 1)));
  const std::size_t json = got.out.find("\n{");
  REQUIRE(json != std::string::npos);
  CHECK(nlohmann::json::parse(got.out.substr(json)).is_object());
}

TEST_CASE("a disk that takes no more leaves an earlier result as it was, and says why") {
  const Scene scene;
  for (const std::string& option : result_options) {
    INFO(option);
    REQUIRE(scene.run(Scene::writing(option, "r")).code == 0);
    const std::string before = read_text(scene.folder.path("r"));
    const Outcome got = [&] {
      const FileSizeLimit limit(100);
      return scene.run(Scene::writing(option, "r"));
    }();
    CHECK(got.code == 2);
    CHECK_MESSAGE(got.err.find("r: cannot write: File too large") != std::string::npos, got.err);
    CHECK(read_text(scene.folder.path("r")) == before);
    CHECK(scene.files() == 3); // nothing temporary stays
    std::filesystem::remove(scene.folder.path("r"));
  }
}

TEST_CASE("Ctrl-C and SIGTERM end a wait for standard input at the first") {
  const TemporaryFolder folder;
  write_text(folder.path("vocab.txt"), "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n");
  write_text(folder.path("stdin"), "");
  std::filesystem::remove(folder.path("stdin"));
  REQUIRE(::mkfifo(folder.path("stdin").c_str(), 0600) == 0);
  const int writer = ::open(folder.path("stdin").c_str(), O_RDWR | O_CLOEXEC); // keeps the pipe quiet and open
  REQUIRE(writer >= 0);
  const int reader = ::open(folder.path("stdin").c_str(), O_RDONLY | O_CLOEXEC);
  const int before = ::dup(STDIN_FILENO);
  REQUIRE(::dup2(reader, STDIN_FILENO) == STDIN_FILENO);
  for (const int signal : {SIGINT, SIGTERM}) {
    RunningProgram tokenize({"tokenize", "--tokenizer", "vocab.txt", "--file", "-"}, folder.path());
    wait_for_handlers(tokenize);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    CHECK(tokenize.running());
    const auto start = std::chrono::steady_clock::now();
    tokenize.signal(signal);
    CHECK(tokenize.wait().code == 130);
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20)); // a slow machine; without, for ever
  }
  ::dup2(before, STDIN_FILENO);
  for (const int descriptor : {before, reader, writer}) ::close(descriptor);
}

TEST_CASE("a reader of stdout that has gone away is an error with words, not a death by SIGPIPE") {
  const TemporaryFolder folder;
  const std::string pipe = folder.path("pipe");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  for (const Words& words :
       {Words{"doctor"}, Words{"download", "--list"}, Words{"attack", "--list"}, Words{"--help"}}) {
    RunningProgram program(words, folder.path(), pipe);
    ::close(::open(pipe.c_str(), O_RDONLY | O_CLOEXEC)); // comes and goes before the program begins
    const Outcome got = program.wait();
    INFO(words.front());
    CHECK(got.code == 2);
    CHECK(got.err == "equigrad: standard output: cannot be written: Broken pipe\n");
  }
}
