#pragma once
// Declares the emulator for host code: schedules, device memory, streams, launches and what a kernel did wrong.

#include "core/base/error.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace eg::emulator {

/// What a kernel or a call did that a GPU would not forgive, or would answer with other numbers each time. what() names
/// the kernel, block and thread where there is one, and the file and line.
class Error : public eg::Error {
public:
  using eg::Error::Error;
};

/// A request beyond the memory of the emulated device.
class OutOfMemory : public Error {
public:
  using Error::Error;
};

/// A line of a source file. `what` is the function that is called there.
struct Place {
  const char* what = "";
  const char* file = "";
  unsigned line = 0;
};

// Parameters of a function that takes the place of its caller.
#define EG_EMULATOR_HERE const char *file = __builtin_FILE(), unsigned line = __builtin_LINE()

/// True in the build whose hooks see every access of a kernel (equigrad_emulator_checked).
bool checked();

// --- schedules ---

/// In which order threads of a block that can go on, and blocks, take their turn. `interleaved` takes a lane of each
/// warp in turn, and begins with another warp after each barrier.
enum class Order : std::uint8_t { ascending, descending, random, interleaved };

struct Schedule {
  Order order = Order::ascending;
  std::uint64_t seed = 1; ///< of Order::random
};

/// For the launches that follow. Right kernels give the same bits in all of them.
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

/// The largest static and dynamic shared memory of a block, in bytes. At first 99 KiB, what every GPU from sm_80 on
/// has.
void set_shared_limit(std::size_t bytes);

// --- device memory ---

/// Bytes at a multiple of 256. They begin as NaN, and end at a page that cannot be read. nullptr for no bytes. Throws
/// OutOfMemory.
void* device_malloc(std::size_t bytes, EG_EMULATOR_HERE);
/// Waits for all streams first. Throws Error for what is no block of device_malloc, or was given back.
void device_free(void* memory, EG_EMULATOR_HERE);
/// Makes a part of a block as if it had just been allocated: NaN, and not yet written. For an allocator that gives it
/// out again.
void device_renew(void* memory, std::size_t bytes, EG_EMULATOR_HERE);

// They wait for all streams, as CUDA's functions without a stream do. Throw Error for a range outside device memory.
void copy_to_device(void* to, const void* from, std::size_t bytes, EG_EMULATOR_HERE);
void copy_from_device(void* to, const void* from, std::size_t bytes, EG_EMULATOR_HERE);
void copy_on_device(void* to, const void* from, std::size_t bytes, EG_EMULATOR_HERE);
void device_memset(void* to, int value, std::size_t bytes, EG_EMULATOR_HERE);

/// Host memory that asynchronous copies use while the program runs on.
void* pinned_malloc(std::size_t bytes);
/// Throws Error where a queued copy still uses it.
void pinned_free(void* memory, EG_EMULATOR_HERE);

/// Throws Error for a range that is not in one block of device memory. Waits for nothing.
void check_device_range(const void* memory, std::size_t bytes, EG_EMULATOR_HERE);
/// Tells the checked build that work of a library, no kernel, has written the range.
void note_written(void* memory, std::size_t bytes);

struct MemoryUse {
  std::size_t live_bytes = 0, live_blocks = 0, peak_bytes = 0;
};
MemoryUse memory_use();
/// How many bytes may be allocated at once. At first 80 GiB.
void set_memory_limit(std::size_t bytes);
/// While true, host code that touches device memory dies by SIGSEGV; kernels and copies do not. Two system calls a
/// block and launch.
void lock_memory(bool locked);

// --- streams ---

/// A place in the queue of a stream.
struct Event {
  const void* stream = nullptr; ///< nullptr: nothing was recorded
  std::uint64_t position = 0;
};

/// Work in order. An eager stream runs it when it is asked for, a late one as late as CUDA may: when somebody waits.
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

  /// Pageable memory is read at the call, as CUDA does; pinned memory when the copy runs.
  void copy_to_device(void* to, const void* from, std::size_t bytes, EG_EMULATOR_HERE);
  /// Into pageable memory it waits, as CUDA does. A pinned destination is filled with NaN until the copy runs.
  void copy_from_device(void* to, const void* from, std::size_t bytes, EG_EMULATOR_HERE);
  void copy_on_device(void* to, const void* from, std::size_t bytes, EG_EMULATOR_HERE);
  void memset(void* to, int value, std::size_t bytes, EG_EMULATOR_HERE);
  /// Memory that work queued later may use, until a free_async queued later still.
  void* malloc_async(std::size_t bytes, EG_EMULATOR_HERE);
  void free_async(void* memory, EG_EMULATOR_HERE);

  /// What is queued so far.
  Event record();
  /// What is queued later waits for the event.
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

/// Waits on the host.
void synchronize(const Event& event);
/// Waits for all streams.
void synchronize_device();

/// Where a launch without a stream goes: waits for all streams, then runs.
void enqueue(Stream* stream, std::function<void()> work);

// --- counts ---

/// Since the last reset. The second group is counted by the checked build while count_traffic(true).
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
