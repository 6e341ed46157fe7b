#pragma once
// Holds everything that the emulator knows, in one object: the schedule, the block that runs, memory and streams.

#include "core/cuda/emulator/device_memory.h"
#include "core/cuda/emulator/faults.h"
#include "core/cuda/emulator/fibers.h"
#include "core/cuda/emulator/report.h"
#include "core/cuda/emulator/running.h"
#include "core/cuda/emulator/shadow.h"
#include "core/cuda/emulator/shared_memory.h"

#include <array>
#include <mutex>
#include <pthread.h>
#include <random>
#include <vector>

namespace eg::emulator {

enum class State : std::uint8_t { fresh, ready, waits_at_barrier, waits_in_warp, done };

/// A meeting of lanes that is not complete.
struct OpenMeeting {
  unsigned mask = 0, arrived = 0;
  Place place;
  std::array<const std::byte*, 32> deposits{};
  std::array<std::byte*, 32> results{};
};

/// One at a time uses it: the holder of the mutex.
struct Emulator : Running {
  static constexpr std::size_t most_threads = 1024;

  Emulator();

  std::recursive_mutex mutex;
  Counts counts;
  Schedule schedule;
  std::mt19937_64 generator{1};
  std::vector<Stream*> streams;
  std::map<std::byte*, std::size_t> pinned;

  DeviceMemory memory;
  SharedMemory shared;
  Shadow shadow;
  Reporter reporter;

  // The launch.
  const Launch* launch = nullptr;
  const void* call = nullptr;
  std::size_t block_number = 0, thread_count = 0;
  pthread_t host{}; ///< the host thread that runs it
  Finding finding;  ///< what went wrong; the launch ends
  std::array<struct sigaction, FaultHandlers::signals.size()> handlers_before{};
  std::vector<std::byte> signal_stack;

  // The block.
  Fibers fibers;
  std::array<Thread, most_threads> threads;
  std::array<State, most_threads> states{};
  std::array<std::vector<OpenMeeting>, most_threads / 32> meetings;
  std::vector<unsigned> order;
  std::size_t turn = 0; ///< position in `order`
  std::size_t done = 0, at_barrier = 0;
  unsigned first_warp = 0; ///< of Order::interleaved
  std::uint32_t barriers = 0;

  // They wait for nothing.
  void copy_to_device(void* to, const void* from, std::size_t bytes, const Place& place);
  void copy_from_device(void* to, const void* from, std::size_t bytes, const Place& place);
  void copy_on_device(void* to, const void* from, std::size_t bytes, const Place& place);
  void memset(void* to, int value, std::size_t bytes, const Place& place);
  bool is_pinned(const void* at, std::size_t bytes) const;

  void run(const Launch& what, const void* arguments);
  void run_block();
  void make_order();
  std::vector<std::size_t> block_order(std::size_t blocks);
  /// The next thread of this round that can go on, or nullptr.
  Thread* next_thread();
  Fiber& fiber_of(Thread& thread);
  /// The thread that runs waits: others go on, until it is ready again.
  void wait();
  void finish_barrier();
  [[noreturn]] void stuck();
  [[noreturn]] void fiber_loop();
  /// Leaves the kernel; the launch ends with the finding that `make` gives. On the host it throws at once. Whatever
  /// lives on the fiber is forgotten without destructors, so callers hold nothing that owns memory.
  template <class Make> [[noreturn]] void fail(Make make) {
    accuse(make());
    leave_kernel();
  }
  void accuse(Finding what);
  [[noreturn]] void leave_kernel();
  bool in_kernel() const { return launch != nullptr && fibers.current() != nullptr; }
};

/// The one emulator of the program.
Emulator& machine();

/// While it lives, the hooks look away.
class Unseen {
public:
  explicit Unseen(Running& by) : by_(by), before_(by.seeing) { by.seeing = false; }
  ~Unseen() { by_.seeing = before_; }
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;

private:
  Running& by_;
  bool before_;
};

} // namespace eg::emulator
