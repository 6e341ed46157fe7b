#pragma once
// Runs loops on the library's threads. One pool (oneTBB) runs everything; builds without threads have a serial
// implementation. Work is cut into chunks whose borders depend on the sizes alone, never on the number of threads, so
// that sums joined in chunk order give the same bits for any number of threads.

#include "core/base/function_ref.h"

#include <cstdint>
#include <string>

namespace eg::parallel {

/// Threads in use: EQUIGRAD_THREADS, else the least of affinity and cgroup quota; at least 1.
int threads();
/// Sets the number of threads; 0 restores the default. Throws ValueError when negative or above 256 (or the machine's
/// number of processors, where that is more), Error above 1 in a child of fork() whose parent had started workers.
void set_threads(int count);
/// Why threads() is what it is, in words: "2 (affinity 2, cgroup quota none)".
std::string threads_reason();
/// "oneTBB 2021.8" or "serial".
std::string backend();

/// Runs body(begin, end) over [0, count) in chunks of exactly `grain` (the last may be shorter), in any order and
/// possibly at the same time. The first exception thrown by a body is rethrown. Throws Error when the system does not
/// give as many threads as threads() returns (ulimit -u, a container's limit).
void for_each(std::int64_t count, std::int64_t grain, FunctionRef<void(std::int64_t begin, std::int64_t end)> body);

/// Number of chunks that for_each makes.
constexpr std::int64_t chunks(std::int64_t count, std::int64_t grain) {
  return grain > 0 ? (count + grain - 1) / grain : 0;
}

/// Grain for loops over rows so that a chunk touches about 64 KiB: bytes_per_row > 0.
constexpr std::int64_t grain_for_bytes(std::int64_t bytes_per_row, std::int64_t bytes = 65536) {
  const std::int64_t rows = bytes / (bytes_per_row > 0 ? bytes_per_row : 1);
  return rows > 0 ? rows : 1;
}

} // namespace eg::parallel
