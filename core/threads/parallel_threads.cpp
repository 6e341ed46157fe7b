// The implementation on the standard library's threads, started for every loop: slow, but ThreadSanitizer sees all that
// happens in it, which it does not inside oneTBB (Debian's is not instrumented). For the tsan preset.

#include "core/base/context.h"
#include "core/base/interrupt.h"
#include "core/threads/at_fork.h"
#include "core/threads/parallel.h"
#include "core/threads/parallel_common.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <fmt/format.h>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace eg::parallel {
namespace {

class Settings;
Settings& settings();

/// What set_threads changes.
class Settings {
public:
  Settings() {
    at_fork([] { settings().mutex_.lock(); }, [] { settings().mutex_.unlock(); }, [] { settings().forked(); });
  }
  int count() const { return count_.load(std::memory_order_relaxed); }
  void set(ThreadChoice choice) {
    const std::scoped_lock lock(mutex_);
    count_ = choice.count;
    choice_ = std::move(choice);
  }
  ThreadChoice choice() const {
    const std::scoped_lock lock(mutex_);
    return choice_;
  }

private:
  /// In the child, with the lock that was taken before the fork.
  void forked() {
    choice_ = choice_after_fork();
    count_ = choice_.count;
    mutex_.unlock();
  }

  mutable std::mutex mutex_;
  ThreadChoice choice_ = default_threads();
  std::atomic<int> count_ = choice_.count;
};

Settings& settings() {
  static Settings instance;
  return instance;
}

/// Takes chunks until there are none left or one has thrown.
class Loop {
public:
  Loop(std::int64_t chunks, FunctionRef<void(std::int64_t)> body) : chunks_(chunks), body_(body) {}

  void work() {
    try {
      for (std::int64_t chunk = next_++; chunk < chunks_; chunk = next_++) body_(chunk);
    } catch (...) {
      const std::scoped_lock lock(mutex_);
      if (!first_) first_ = std::current_exception();
      next_ = chunks_;
    }
  }
  void rethrow() const {
    if (first_) std::rethrow_exception(first_);
  }

private:
  std::int64_t chunks_;
  FunctionRef<void(std::int64_t)> body_;
  std::atomic<std::int64_t> next_ = 0;
  std::mutex mutex_;
  std::exception_ptr first_;
};

} // namespace

int threads() { return settings().count(); }

void set_threads(int count) {
  check_thread_count(count);
  settings().set(count == 0 ? default_threads() : ThreadChoice{count, "set by the program"});
}

std::string threads_reason() {
  const ThreadChoice choice = settings().choice();
  return fmt::format("{} ({})", choice.count, choice.reason);
}

std::string backend() { return "threads of the standard library"; }

void for_each(std::int64_t count, std::int64_t grain, FunctionRef<void(std::int64_t, std::int64_t)> body) {
  const std::int64_t total = chunks(count, grain);
  const ChunkPoll poll;
  const auto run = [&](std::int64_t chunk) {
    if (chunk > 0) poll();
    body(chunk * grain, std::min((chunk + 1) * grain, count));
  };
  Loop loop(total, run);
  {
    std::vector<std::jthread> helpers;
    for (std::int64_t i = 1; i < std::min<std::int64_t>(threads(), total); ++i)
      helpers.emplace_back([&loop, callers = execution_context().settings] {
        const ContextScope carried(callers);
        loop.work();
      });
    loop.work();
  } // joined here
  loop.rethrow();
}

} // namespace eg::parallel
