#include "data/decode.h"

#include "core/base/error.h"
#include "core/threads/parallel.h"

#include <atomic>
#include <exception>
#include <mutex>

namespace eg::data {

void transpose_bytes(ByteView from, std::size_t rows, std::size_t columns, std::uint8_t* to) {
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < columns; ++c) to[c * rows + r] = from[r * columns + c];
}

void throw_if(StopFlag stop) {
  if (stop != nullptr && stop->load()) throw Interrupted("interrupted while reading the data");
}

void decode_each(std::size_t count, std::int64_t grain, StopFlag stop, FunctionRef<void(std::size_t)> decode) {
  std::atomic<std::size_t> failed{count};
  std::mutex mutex;
  std::exception_ptr error;
  parallel::for_each(static_cast<std::int64_t>(count), grain, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end) && i < failed; ++i) try {
        if (stop != nullptr && stop->load()) return;
        decode(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (i >= failed) return;
        failed = i;
        error = std::current_exception();
      }
  });
  throw_if(stop);
  if (error) std::rethrow_exception(error);
}

} // namespace eg::data
