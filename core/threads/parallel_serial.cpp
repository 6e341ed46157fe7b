// The serial implementation: the same chunks, one after another.

#include "core/base/interrupt.h"
#include "core/threads/parallel.h"
#include "core/threads/parallel_common.h"

#include <algorithm>

namespace eg::parallel {

int threads() { return 1; }
void set_threads(int count) { check_thread_count(count); }
std::string threads_reason() { return "1 (built without threads)"; }
std::string backend() { return "serial"; }

void for_each(std::int64_t count, std::int64_t grain, FunctionRef<void(std::int64_t, std::int64_t)> body) {
  const ChunkPoll poll;
  for (std::int64_t begin = 0; begin < count; begin += grain) {
    if (begin > 0) poll();
    body(begin, std::min(begin + grain, count));
  }
}

} // namespace eg::parallel
