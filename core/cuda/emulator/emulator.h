#pragma once
// Declares the emulator for host code: schedules, launches, device memory, streams, counts and errors.

#include "core/base/error.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace eg::emulator {

/// Reports an error of a kernel or of a call: what CUDA forbids, and what gives other results in each run on a GPU.
/// what() names the file and line, and the kernel, block and thread where there is one.
class Error : public eg::Error {
public:
  using eg::Error::Error;
};

/// Reports that the memory of the emulated device does not suffice.
class OutOfMemory : public Error {
public:
  using Error::Error;
};

/// Names a line of a source file. `what` is the function that is called there.
struct Place {
  const char* what = "";
  const char* file = "";
  unsigned line = 0;
};

// Ends the parameters of a function that needs the file and line of its caller.
#define EG_EMULATOR_HERE const char *file = __builtin_FILE(), unsigned line = __builtin_LINE()

/// Returns whether this is the checked build (equigrad_emulator_checked), whose hooks see every access of a kernel.
bool checked();

// --- schedules ---

/// Orders the blocks of a launch, and the threads of a block that do not wait. `interleaved` takes one lane of each
/// warp in turn, and begins with another warp after each barrier.
enum class Order : std::uint8_t { ascending, descending, random, interleaved };

struct Schedule {
  Order order = Order::ascending;
  std::uint64_t seed = 1; ///< of Order::random
};

/// Sets the order for the launches that follow. A correct kernel gives the same bits in every order.
void set_schedule(Schedule schedule);

// --- launches ---

struct Extent {
  unsigned x = 1, y = 1, z = 1;
  // NOLINTNEXTLINE(google-explicit-constructor): a number is an extent, as in CUDA
  constexpr Extent(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
  constexpr std::size_t count() const { return std::size_t{x} * y * z; }
};

struct Launch {
  Place place; ///< `what` is the kernel's name
  Extent grid, block;
  std::size_t dynamic_shared = 0;            ///< bytes
  void (*enter)(const void* call) = nullptr; ///< runs the kernel for one thread
  std::size_t call_bytes = 0;
};

/// Throws Error where CUDA refuses the launch: no threads, more than 1024, too large a grid, too many bytes.
void check(const Launch& launch);

/// Runs every thread of every block. Throws Error at the first thing that is wrong.
void run(const Launch& launch, const void* call);

/// Limits the static and dynamic shared memory of a block. Default: 99 KiB, which every GPU from sm_80 on has.
void set_shared_limit(std::size_t bytes);

// --- device memory ---

/// Allocates bytes at a multiple of 256. They are NaN at first, and the page behind them cannot be read. Returns
/// nullptr for 0 bytes. Throws OutOfMemory.
void* device_malloc(std::size_t bytes, EG_EMULATOR_HERE);
/// Waits for all streams, then frees a block of device_malloc. Throws Error for any other address.
void device_free(void* memory, EG_EMULATOR_HERE);
/// Makes a part of a block NaN and unwritten, as after its allocation. For allocators that give memory out again.
void device_renew(void* memory, std::size_t bytes, EG_EMULATOR_HERE);

// These four wait for all streams, as CUDA's functions without a stream do. They throw Error for a range that is not in
// device memory.
void copy_to_device(void* to, const void* from, std::size_t bytes, EG_EMULATOR_HERE);
void copy_from_device(void* to, const void* from, std::size_t bytes, EG_EMULATOR_HERE);
void copy_on_device(void* to, const void* from, std::size_t bytes, EG_EMULATOR_HERE);
void device_memset(void* to, int value, std::size_t bytes, EG_EMULATOR_HERE);

/// Allocates host memory that asynchronous copies read and write while the program runs on.
void* pinned_malloc(std::size_t bytes);
/// Frees memory of pinned_malloc. Throws Error where a queued copy still uses it.
void pinned_free(void* memory, EG_EMULATOR_HERE);

/// Throws Error unless the range is in one block of device memory. Does not wait.
void check_device_range(const void* memory, std::size_t bytes, EG_EMULATOR_HERE);
/// Tells the checked build that a library, which has no hooks, has written the range.
void note_written(void* memory, std::size_t bytes);

struct MemoryUse {
  std::size_t live_bytes = 0, live_blocks = 0, peak_bytes = 0;
};
MemoryUse memory_use();
/// Limits the bytes that are allocated at once. Default: 80 GiB.
void set_memory_limit(std::size_t bytes);
/// While true, host code that touches device memory ends by SIGSEGV; kernels and copies may touch it. Costs two system
/// calls for each block and launch.
void lock_memory(bool locked);

// --- streams ---

/// Marks a place in the queue of a stream.
struct Event {
  const void* stream = nullptr; ///< nullptr: nothing was recorded
  std::uint64_t position = 0;
};

/// Runs work in order. An eager stream runs it at the call, a late one as late as CUDA may: when somebody waits for it.
class Stream {
public:
  enum class Temper : std::uint8_t { eager, late };
  explicit Stream(Temper temper = Temper::eager);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  Stream(Stream&&) = delete;
  Stream& operator=(Stream&&) = delete;

  /// Runs what is queued. Throws the Error of the first that fails, and forgets the rest.
  void synchronize();

  /// Reads pageable memory at the call, as CUDA does, and pinned memory when the copy runs.
  void copy_to_device(void* to, const void* from, std::size_t bytes, EG_EMULATOR_HERE);
  /// Waits where the destination is pageable memory, as CUDA does. A pinned destination is NaN until the copy runs.
  void copy_from_device(void* to, const void* from, std::size_t bytes, EG_EMULATOR_HERE);
  void copy_on_device(void* to, const void* from, std::size_t bytes, EG_EMULATOR_HERE);
  void memset(void* to, int value, std::size_t bytes, EG_EMULATOR_HERE);
  /// Allocates memory for work that is queued later. free_async ends its use, in the order of the queue.
  void* malloc_async(std::size_t bytes, EG_EMULATOR_HERE);
  void free_async(void* memory, EG_EMULATOR_HERE);

  /// Returns the event that happens when what is queued so far is done.
  Event record();
  /// Lets what is queued later wait for the event.
  void wait(const Event& event);

  /// Runs `work` now, or queues it.
  void enqueue(std::function<void()> work);

private:
  friend void pinned_free(void* memory, const char* file, unsigned line);
  friend void synchronize(const Event& event);
  struct Queue;
  void run_to(std::uint64_t position);
  std::unique_ptr<Queue> queue_;
};

/// Waits on the host until the event has happened.
void synchronize(const Event& event);
/// Waits for all streams.
void synchronize_device();

/// Queues work on a stream. Without a stream it waits for all streams, then runs the work.
void enqueue(Stream* stream, std::function<void()> work);

// --- counts ---

/// Counts events since the last reset. The second group is counted in the checked build while count_traffic(true).
struct Counts {
  std::uint64_t launches = 0, blocks = 0, threads = 0, switches = 0;

  std::uint64_t reads = 0, writes = 0, read_bytes = 0, write_bytes = 0; ///< of device memory, by threads
  /// 32-byte sectors that the warps' accesses of device memory touch, and the fewest that their distinct bytes need.
  std::uint64_t sectors = 0, ideal_sectors = 0;
  /// Passes over the 32 banks of shared memory, and the fewest for the distinct words.
  std::uint64_t bank_passes = 0, ideal_bank_passes = 0;
};
Counts counts();
void reset_counts();
void count_traffic(bool yes);

} // namespace eg::emulator
