#include "core/memory/allocator.h"
#include "core/memory/scratch_pool.h"
#include "core/threads/parallel.h"

#include <atomic>
#include <cstring>
#include <doctest/doctest.h>
#include <optional>
#include <set>
#include <vector>

using namespace eg;

TEST_CASE("as many rooms as tasks can run at once are there before the loop, and the allocator is not asked again") {
  parallel::set_threads(3);
  const std::size_t live = allocator::stats().live_bytes;
  {
    ScratchPool pool(100, 5000);
    const AllocatorStats before = allocator::stats();
    CHECK(before.live_bytes - live >= 3 * 5000);
    parallel::for_each(100, 1, [&](std::int64_t, std::int64_t) {
      const ScratchPool::Buffer buffer = pool.take();
      std::memset(buffer.data(), 1, 5000);
    });
    CHECK(allocator::stats().live_bytes == before.live_bytes);
    CHECK(allocator::stats().reuses + allocator::stats().system_calls == before.reuses + before.system_calls);
  }
  CHECK(allocator::stats().live_bytes == live);
  parallel::set_threads(0);
}

TEST_CASE("no two tasks have the same room, and more of them than foreseen get one each") {
  parallel::set_threads(2);
  ScratchPool pool(2, 100);
  {
    const ScratchPool::Buffer a = pool.take(), b = pool.take(), c = pool.take(), d = pool.take();
    const std::set<std::byte*> apart = {a.data(), b.data(), c.data(), d.data()};
    CHECK(apart.size() == 4);
    for (std::byte* buffer : apart) {
      CHECK(reinterpret_cast<std::uintptr_t>(buffer) % allocator::alignment == 0);
      std::memset(buffer, 7, 100);
    }
  }
  const AllocatorStats before = allocator::stats();
  const ScratchPool::Buffer a = pool.take(), b = pool.take(), c = pool.take(), d = pool.take(); // the same four again
  CHECK(allocator::stats().reuses + allocator::stats().system_calls == before.reuses + before.system_calls);
  parallel::set_threads(0);
}

TEST_CASE("rooms without bytes, and for no task at all") {
  const std::size_t live = allocator::stats().live_bytes;
  ScratchPool nothing(8, 0), none(0, 64);
  CHECK(allocator::stats().live_bytes == live);
  CHECK(nothing.take().data() == nullptr);
  CHECK(none.take().data() != nullptr);
}
