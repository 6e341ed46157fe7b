// The oneTBB implementation: the only file that includes TBB.

#include "core/base/context.h"
#include "core/base/error.h"
#include "core/base/interrupt.h"
#include "core/threads/at_fork.h"
#include "core/threads/parallel.h"
#include "core/threads/parallel_common.h"

#include <algorithm>
#include <atomic>
#include <fmt/format.h>
#include <latch>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#include <tbb/version.h>
#include <thread>
#include <utility>
#include <vector>

namespace eg::parallel {
namespace {

/// Starts `count` threads at once and ends them. oneTBB starts its workers from one another, where the exception that a
/// refusal throws cannot be caught, so the system is tested first.
void require_threads(int count) {
  std::vector<std::thread> started;
  started.reserve(static_cast<std::size_t>(count));
  std::latch all_asked(1);
  std::string refusal;
  try {
    while (started.size() < static_cast<std::size_t>(count)) started.emplace_back([&] { all_asked.wait(); });
  } catch (const std::system_error& error) {
    refusal = error.what();
  }
  all_asked.count_down();
  for (std::thread& thread : started) thread.join();
  if (!refusal.empty())
    throw Error(fmt::format("threads: the system gives {} of {} threads ({}); use fewer, or {}", started.size() + 1,
                            count + 1, refusal, more_threads));
}

/// The workers. Whoever runs a loop holds it, so set_threads never takes it away from under one.
struct Pool {
  // An arena alone cannot have more workers than the processors TBB counts; the control lifts that.
  tbb::global_control control;
  tbb::task_arena arena;

  explicit Pool(int count)
      : control(tbb::global_control::max_allowed_parallelism, static_cast<std::size_t>(count)), arena(count) {}
};

class Settings;
Settings& settings();

/// How many threads there are, and their pool. A child of fork() has none of its parent's workers: it computes on one
/// thread, and oneTBB, whose locks they may hold, is not used again.
class Settings {
public:
  Settings() {
    at_fork([] { settings().mutex_.lock(); }, [] { settings().mutex_.unlock(); }, [] { settings().forked(); });
  }
  int count() const { return count_.load(std::memory_order_relaxed); }

  /// 0: the default.
  void set(int count) {
    const std::scoped_lock lock(mutex_);
    if (count > 1 && workers_lost_)
      throw Error("threads: a child of fork() has one, because its parent's workers are not in it; start it with exec "
                  "(Python: multiprocessing's 'spawn') for more, or fork before anything is computed");
    choice_ = count > 0 ? ThreadChoice{count, "set by the program"} : default_threads();
    count_ = choice_.count;
    pool_.reset();
  }
  ThreadChoice choice() const {
    const std::scoped_lock lock(mutex_);
    return choice_;
  }
  /// Made at the first use.
  std::shared_ptr<Pool> pool() {
    const std::scoped_lock lock(mutex_);
    if (pool_ == nullptr) {
      if (choice_.count > granted_) require_threads(choice_.count - 1);
      granted_ = std::max(granted_, choice_.count);
      pool_ = std::make_shared<Pool>(choice_.count);
    }
    return pool_;
  }

private:
  /// In the child, with the lock that was taken before the fork.
  void forked() {
    std::construct_at(&pool_); // forgotten, not ended: that would wait for its workers
    workers_lost_ = workers_lost_ || granted_ > 1;
    choice_ = choice_after_fork();
    count_ = choice_.count;
    mutex_.unlock();
  }

  mutable std::mutex mutex_;
  ThreadChoice choice_ = default_threads();
  std::atomic<int> count_ = choice_.count;
  std::shared_ptr<Pool> pool_;
  int granted_ = 1; // threads that the system has given once
  bool workers_lost_ = false;
};

Settings& settings() {
  static Settings instance;
  return instance;
}

} // namespace

int threads() { return settings().count(); }

void set_threads(int count) {
  check_thread_count(count);
  settings().set(count);
}

std::string threads_reason() {
  const ThreadChoice choice = settings().choice();
  return fmt::format("{} ({})", choice.count, choice.reason);
}

std::string backend() { return fmt::format("oneTBB {}.{}", TBB_VERSION_MAJOR, TBB_VERSION_MINOR); }

void for_each(std::int64_t count, std::int64_t grain, FunctionRef<void(std::int64_t, std::int64_t)> body) {
  if (count <= 0) return;
  const std::int64_t total = chunks(count, grain);
  const ChunkPoll poll;
  if (total == 1 || threads() == 1) {
    for (std::int64_t begin = 0; begin < count; begin += grain) {
      if (begin > 0) poll();
      body(begin, std::min(begin + grain, count));
    }
    return;
  }
  const std::shared_ptr<Pool> pool = settings().pool();
  const ContextSettings callers = execution_context().settings;
  pool->arena.execute([&] {
    tbb::parallel_for(
        std::int64_t{0}, total,
        [&](std::int64_t chunk) {
          const ContextScope carried(callers); // a thread that waits for a loop of its own may take this chunk
          poll();
          body(chunk * grain, std::min((chunk + 1) * grain, count));
        },
        tbb::auto_partitioner());
  });
}

} // namespace eg::parallel
