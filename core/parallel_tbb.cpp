// The oneTBB twin: the only file that includes TBB.

#include "core/parallel.h"
#include "core/parallel_common.h"

#include <algorithm>
#include <fmt/format.h>
#include <memory>
#include <mutex>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#include <tbb/version.h>

#if defined(__SANITIZE_THREAD__)
#define EG_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define EG_TSAN 1
#endif
#endif
#ifdef EG_TSAN
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
#endif

namespace eg::parallel {
namespace {

/// Debian's libtbb is not instrumented, so ThreadSanitizer cannot see that starting and joining tasks orders memory.
/// These say so; they are nothing in other builds.
class TaskOrder {
public:
  void before_start() { release(&start_); }
  void task_begins() { acquire(&start_); }
  void task_ends() { release(&end_); }
  void after_join() { acquire(&end_); }

private:
#ifdef EG_TSAN
  static void acquire(char* address) { __tsan_acquire(address); }
  static void release(char* address) { __tsan_release(address); }
#else
  static void acquire(char*) {}
  static void release(char*) {}
#endif
  char start_ = 0;
  char end_ = 0;
};

struct Settings {
  ThreadChoice choice = default_threads();
  std::unique_ptr<tbb::task_arena> arena;
  std::unique_ptr<tbb::global_control> control;
  std::mutex mutex;

  Settings() { apply(); }

  void apply() {
    // An arena alone cannot have more workers than the processors TBB counts; the control lifts that.
    control = std::make_unique<tbb::global_control>(tbb::global_control::max_allowed_parallelism,
                                                    static_cast<std::size_t>(choice.count));
    arena = std::make_unique<tbb::task_arena>(choice.count);
  }
};

Settings& settings() {
  static Settings instance;
  return instance;
}

} // namespace

int threads() { return settings().choice.count; }

void set_threads(int count) {
  check_thread_count(count);
  Settings& s = settings();
  const std::scoped_lock lock(s.mutex);
  s.choice = count == 0 ? default_threads() : ThreadChoice{count, "set by the program"};
  s.control.reset();
  s.apply();
}

std::string threads_reason() {
  const Settings& s = settings();
  return fmt::format("{} ({})", s.choice.count, s.choice.reason);
}

std::string backend() { return fmt::format("oneTBB {}.{}", TBB_VERSION_MAJOR, TBB_VERSION_MINOR); }

void for_each(std::int64_t count, std::int64_t grain, FunctionRef<void(std::int64_t, std::int64_t)> body) {
  if (count <= 0) return;
  const std::int64_t total = chunks(count, grain);
  if (total == 1 || threads() == 1) {
    for (std::int64_t begin = 0; begin < count; begin += grain) body(begin, std::min(begin + grain, count));
    return;
  }
  TaskOrder order;
  order.before_start();
  settings().arena->execute([&] {
    tbb::parallel_for(
        std::int64_t{0}, total,
        [&](std::int64_t chunk) {
          order.task_begins();
          body(chunk * grain, std::min((chunk + 1) * grain, count));
          order.task_ends();
        },
        tbb::auto_partitioner());
  });
  order.after_join();
}

} // namespace eg::parallel
