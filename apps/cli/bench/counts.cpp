#include "apps/cli/bench/counts.h"

#include "apps/cli/bench/bench.h"
#include "apps/cli/shell/arguments.h"
#include "apps/cli/shell/output.h"
#include "apps/cli/shell/verb.h"

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/ops.h"
#include "core/ops/list.h"
#include "core/simd/simd.h"
#include "core/threads/parallel.h"
#include "optim/optimizer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <spawn.h>
#include <string>
#include <string_view>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#if defined(__linux__)
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#endif

extern char** environ;

extern "C" {
/// What callgrind counts: a function by name, called once a call.
__attribute__((noinline)) void equigrad_counted_call(const std::function<void()>* call) {
  (*call)();
  asm volatile(""); // or the call would be a jump, after which this function is left
}
}

namespace eg::cli::bench {
namespace {

struct Counted {
  std::string_view name;
  std::function<void()> call;
};

Tensor drawn(const Shape& shape, std::uint64_t stream) { return random_normal(shape, {20261127, stream}); }

/// What models spend their time in, small enough for valgrind. Only calls of that name are made, or all.
std::vector<Counted> calls_named(const std::string& name) {
  struct Name {
    std::string_view name;
  };
  std::vector<Name> names;
  std::vector<Counted> calls;
  const auto add = [&](std::string_view call, auto&& make) {
    names.push_back({call});
    if (name.empty() || name == call) calls.push_back({call, make()});
  };
  add(matmul_op.name, [] { return [a = drawn({192, 256}, 1), b = drawn({256, 192}, 2)] { matmul(a, b); }; });
  add(linear_op.name, [] {
    return [x = drawn({260, 192}, 3), w = drawn({256, 192}, 4), b = drawn({256}, 5)] { linear(x, w, b); };
  });
  add(linear_gelu_op.name, [] {
    return [x = drawn({260, 64}, 6), w = drawn({256, 64}, 7), b = drawn({256}, 8)] { linear_gelu(x, w, b); };
  });
  add(gelu_op.name, [] { return [x = drawn({64, 1024}, 9)] { gelu(x); }; });
  add(softmax_op.name, [] { return [x = drawn({512, 130}, 10)] { softmax(x); }; });
  add(layer_norm_op.name, [] {
    return [x = drawn({260, 192}, 11), g = drawn({192}, 12), b = drawn({192}, 13)] { layer_norm(x, g, b); };
  });
  add(attention_qkv_op.name, [] { return [x = drawn({4, 65, 576}, 14)] { attention_qkv(x, 3); }; });
  add(conv2d_op.name, [] { return [x = drawn({2, 16, 28, 28}, 15), w = drawn({32, 16, 3, 3}, 16)] { conv2d(x, w); }; });
  add(sum_op.name, [] { return [x = drawn({256, 256}, 17)] { sum(x, {0}); }; });
  add("adam_step", [] {
    const std::shared_ptr<optim::Optimizer> optimizer = optim::adam({drawn({256, 256}, 18)});
    return [optimizer, gradients = std::vector<Tensor>{drawn({256, 256}, 19)}] { optimizer->step(gradients, 1e-3); };
  });
  if (calls.empty()) throw no_such_case("ops --against", name, names);
  return calls;
}

// --- the processor's counter ---

/// User-space instructions of this thread.
class ProcessorCounter {
public:
  ProcessorCounter() {
#if defined(__linux__)
    perf_event_attr wanted{};
    wanted.type = PERF_TYPE_HARDWARE;
    wanted.size = sizeof wanted;
    wanted.config = PERF_COUNT_HW_INSTRUCTIONS;
    wanted.disabled = 1;
    wanted.exclude_kernel = 1;
    wanted.exclude_hv = 1;
    file_ = static_cast<int>(syscall(SYS_perf_event_open, &wanted, 0, -1, -1, 0));
    if (file_ < 0) why_ = std::strerror(errno);
#endif
  }
  ~ProcessorCounter() {
    if (file_ >= 0) close(file_);
  }
  ProcessorCounter(const ProcessorCounter&) = delete;
  ProcessorCounter& operator=(const ProcessorCounter&) = delete;

  /// Why it cannot count; empty where it can.
  const std::string& refusal() const { return why_; }

  std::uint64_t count(const std::function<void()>& call) const {
    std::uint64_t found = 0;
#if defined(__linux__)
    ioctl(file_, PERF_EVENT_IOC_RESET, 0);
    ioctl(file_, PERF_EVENT_IOC_ENABLE, 0);
    equigrad_counted_call(&call);
    ioctl(file_, PERF_EVENT_IOC_DISABLE, 0);
    if (read(file_, &found, sizeof found) != static_cast<ssize_t>(sizeof found))
      throw Error("bench ops: the processor's counter cannot be read");
#else
    (void)call;
#endif
    return found;
  }

private:
  int file_ = -1;
  std::string why_ = file_ < 0 ? "it is for Linux" : "";
};

// --- valgrind ---

/// A folder that is removed at the end.
class Folder {
public:
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "equigrad-counts-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw FileError(fmt::format("{}: {}", pattern, std::strerror(errno)));
    path_ = pattern;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::filesystem::path& path() const { return path_; }

private:
  std::filesystem::path path_;
};

/// Runs a program found on PATH with its output in `log`; its exit status, or -1 where it could not be started.
int run_program(std::vector<std::string> words, const std::filesystem::path& log) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child = 0;
  const int failed = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return -1;
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string last_line(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string line, last;
  while (std::getline(in, line))
    if (!line.empty()) last = line;
  return last;
}

/// The cost that a callgrind file sums up in its line "totals: N".
std::uint64_t total_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("totals: ")) return std::strtoull(line.c_str() + 8, nullptr, 10);
  throw Error(fmt::format("bench ops: callgrind left no total in {}", file.filename().string()));
}

/// Callgrind counts within the function and writes a file each time that it is left.
std::vector<std::uint64_t> counted_by_valgrind(const std::vector<Counted>& calls, const std::string& name) {
  const Folder folder;
  const std::filesystem::path out = folder.path() / "out", log = folder.path() / "log";
  std::vector<std::string> words = {"valgrind",
                                    "--tool=callgrind",
                                    "--toggle-collect=equigrad_counted_call",
                                    "--dump-after=equigrad_counted_call",
                                    fmt::format("--callgrind-out-file={}", out.string()),
                                    std::filesystem::read_symlink("/proc/self/exe").string(),
                                    "bench",
                                    "ops",
                                    "--counted",
                                    "--threads",
                                    "1"};
  if (!name.empty()) words.insert(words.end(), {"--case", name});
  const int code = run_program(words, log);
  if (code == -1) throw UsageError("instructions are counted by valgrind here, and it is not installed");
  if (code != 0) throw Error(fmt::format("bench ops: valgrind ended with {}: {}", code, last_line(log)));
  std::vector<std::uint64_t> found;
  for (std::size_t i = 1; i <= calls.size(); ++i) found.push_back(total_of(folder.path() / fmt::format("out.{}", i)));
  return found;
}

/// Kernels are those for AVX2 everywhere: one file of counts serves all x86 machines that have it.
void require_avx2() {
  if (!simd::target().starts_with("AVX2"))
    throw UsageError(
        fmt::format("instructions are counted with AVX2 alone, and this processor has {}", simd::target()));
}

struct Counts {
  std::string counter;
  std::vector<std::pair<std::string, std::uint64_t>> of;
};

Counts counted(const CountOptions& options, const std::string& wished, bool talks) {
  std::string counter = wished;
  const ProcessorCounter processor;
  if (counter == "processor" && !processor.refusal().empty())
    throw UsageError(fmt::format("the processor's counter of instructions cannot be used: {}", processor.refusal()));
  if (counter.empty()) {
    counter = processor.refusal().empty() ? "processor" : "valgrind";
    if (counter == "valgrind" && talks)
      std::fputs(fmt::format("equigrad: valgrind counts, since the processor's counter cannot be used: {}\n",
                             processor.refusal())
                     .c_str(),
                 stderr);
  }
  const std::vector<Counted> calls = calls_named(options.name);
  Counts found{counter, {}};
  if (counter == "valgrind") {
    const std::vector<std::uint64_t> numbers = counted_by_valgrind(calls, options.name);
    for (std::size_t i = 0; i < calls.size(); ++i) found.of.emplace_back(calls[i].name, numbers[i]);
    return found;
  }
  simd::limit_to_avx2();
  require_avx2();
  if (parallel::threads() != 1) throw UsageError("the processor counts one thread's instructions; give --threads 1");
  for (const Counted& c : calls) {
    c.call(); // the first finds no memory in the cache, and chooses kernels
    found.of.emplace_back(c.name, processor.count(c.call));
  }
  return found;
}

void store(const CountOptions& options, bool talks) {
  const Counts found = counted(options, options.counter, talks);
  nlohmann::ordered_json json{
      {"made_by", fmt::format("equigrad bench ops --store FILE --counter {} --threads 1", found.counter)},
      {"counter", found.counter},
      {"instructions", nlohmann::ordered_json::object()}};
  for (const auto& [name, count] : found.of) json["instructions"][name] = count;
  write_file(options.store, json.dump(1) + "\n");
}

int compare(const CountOptions& options, bool talks) {
  const nlohmann::json stored = read_json(options.against);
  std::string counter;
  std::vector<std::pair<std::string, std::uint64_t>> before;
  try {
    counter = stored.at("counter").get<std::string>();
    for (const auto& [name, count] : stored.at("instructions").items())
      before.emplace_back(name, count.get<std::uint64_t>());
  } catch (const nlohmann::json::exception&) {
    throw FileError(fmt::format("{}: not a file of bench ops --store", options.against));
  }
  if (!options.counter.empty() && options.counter != counter)
    throw UsageError(fmt::format("{} was counted by {}; store another one", options.against, counter));
  const Counts now = counted(options, counter, talks);
  int code = done;
  if (talks) say(fmt::format("{:<16} {:>14} {:>14} {:>9}\n", "call", "stored", "now", "change"));
  for (const auto& [name, count] : now.of) {
    const auto found = std::find_if(before.begin(), before.end(), [&](const auto& b) { return b.first == name; });
    if (found == before.end())
      throw UsageError(fmt::format("{} has no count of {}; store it again", options.against, name));
    const double change = 100.0 * (static_cast<double>(count) / static_cast<double>(found->second) - 1.0);
    const bool slower = !(change <= options.tolerance);
    if (slower) code = check_failed;
    if (talks || slower)
      say(fmt::format("{:<16} {:>14} {:>14} {:>+8.2f}%{}\n", name, found->second, count, change,
                      slower ? "  SLOWER" : ""));
  }
  return code;
}

} // namespace

void counted_calls(const std::string& name) {
  simd::limit_to_avx2();
  require_avx2();
  for (const Counted& c : calls_named(name)) {
    c.call();
    equigrad_counted_call(&c.call);
  }
}

int counts(const CountOptions& options, bool talks) {
  if (options.against.empty()) {
    store(options, talks);
    return done;
  }
  return compare(options, talks);
}

} // namespace eg::cli::bench
