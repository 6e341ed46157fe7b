// scatter_add and the adjoints of embedding and index_select on a device: places are sorted by their index, and one
// thread adds what goes to one element, in the order of the places.

#include "core/cuda/kernels.h"
#include "core/cuda/launch.h"
#include "core/cuda/report.h"
#include "core/cuda/runtime.h"

#include "core/ops/sort/network.h"

namespace eg::cuda {
namespace {

/// Items (index, place) of all lines, filled up to `room` with items that stand last.
template <class Item>
__global__ void index_items_kernel(device::ScatterJob job, std::int64_t lines, std::int64_t room,
                                   device::KernelError* error) {
  Item* const items = static_cast<Item*>(job.items);
  for (std::int64_t i = first_element(); i < lines * room; i += element_step()) {
    const std::int64_t line = i / room, k = i % room;
    items[i] = Item::last();
    if (k >= job.count) continue;
    const std::int64_t position = job.shared ? k : (line / job.inner * job.count + k) * job.inner + line % job.inner;
    const std::int64_t at = job.index[position];
    if (is_inside(at, job.extent, position, device::Refused::index, job.row, error))
      items[i] = Item::of(static_cast<std::uint64_t>(at), k);
  }
}

/// The thread of the first place of an index adds them all.
template <class Item, class T> __global__ void add_places_kernel(device::ScatterJob job, std::int64_t room) {
  const T* const source = static_cast<const T*>(job.source);
  T* const y = static_cast<T*>(job.y);
  const std::int64_t total = job.outer * job.count * job.inner;
  for (std::int64_t i = first_element(); i < total; i += element_step()) {
    const std::int64_t j = i % job.inner, s = i / job.inner % job.count, o = i / job.inner / job.count;
    const Item* const items = static_cast<const Item*>(job.items) + (job.shared ? 0 : (o * job.inner + j) * room);
    const Item first = items[s];
    if (!first.before(Item::last()) || (s > 0 && items[s - 1].key() == first.key())) continue;
    T& to = y[(o * job.extent + static_cast<std::int64_t>(first.key())) * job.inner + j];
    T sum = to;
    for (std::int64_t next = s; next < job.count; ++next) {
      const Item item = items[next];
      if (item.key() != first.key()) break;
      sum += source[(o * job.count + item.place()) * job.inner + j];
    }
    to = sum;
  }
}

template <class Item, class T> Failure start_scatter(Queue queue, const device::ScatterJob& job) {
  const std::int64_t room = device::sorted_line(job.count), lines = job.shared ? 1 : job.outer * job.inner;
  GPU_LAUNCH(index_items_kernel<Item>, elements_grid(lines * room), elements_block, 0, queue.stream, job, lines, room,
             kernel_error(queue.device));
  sort_lines(queue, static_cast<Item*>(job.items), lines, room);
  GPU_LAUNCH((add_places_kernel<Item, T>), elements_grid(job.outer * job.count * job.inner), elements_block, 0,
             queue.stream, job, room);
  return nullptr;
}

} // namespace

Failure scatter(Queue queue, const device::ScatterJob& job) {
  return visit_item(job.item_bytes, [&]<class Item>() -> Failure {
    if (job.type == DType::i64) return start_scatter<Item, std::int64_t>(queue, job);
    return visit_floating_type(job.type, [&]<class T>() -> Failure { return start_scatter<Item, T>(queue, job); });
  });
}

} // namespace eg::cuda
