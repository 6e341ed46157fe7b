// sort, argsort and topk on a device.

#include "core/cuda/kernels.h"
#include "core/cuda/launch.h"

#include "core/ops/sort/network.h"

namespace eg::cuda {
namespace {

/// Items of all lines, each filled up to `room` with items that stand last.
template <class Item, class T> __global__ void line_items_kernel(device::SortJob job, std::int64_t room) {
  const T* const x = static_cast<const T*>(job.x);
  Item* const items = static_cast<Item*>(job.items);
  const std::int64_t total = job.outer * job.inner * room;
  for (std::int64_t i = first_element(); i < total; i += element_step()) {
    const std::int64_t line = i / room, e = i % room;
    const std::int64_t first = line / job.inner * job.extent * job.inner + line % job.inner;
    items[i] = e < job.extent ? Item::of(sorting::key_of(x[first + e * job.inner], job.descending), e) : Item::last();
  }
}

/// Gives the first k items of each line their places as keys, so that another sort puts them in the order of places.
template <class Item> __global__ void by_place_kernel(device::SortJob job, std::int64_t room) {
  Item* const items = static_cast<Item*>(job.items);
  const std::int64_t total = job.outer * job.inner * room;
  for (std::int64_t i = first_element(); i < total; i += element_step()) {
    const std::int64_t place = items[i].place();
    items[i] = i % room < job.k ? Item::of(static_cast<std::uint64_t>(place), place) : Item::last();
  }
}

template <class Item, class T> __global__ void sorted_elements_kernel(device::SortJob job, std::int64_t room) {
  const T* const x = static_cast<const T*>(job.x);
  const Item* const items = static_cast<const Item*>(job.items);
  T* const values = static_cast<T*>(job.values);
  const std::int64_t total = job.outer * job.k * job.inner;
  for (std::int64_t i = first_element(); i < total; i += element_step()) {
    const std::int64_t inside = i % job.inner, rank = i / job.inner % job.k, o = i / job.inner / job.k;
    const std::int64_t place = items[(o * job.inner + inside) * room + rank].place();
    if (values != nullptr) values[i] = x[(o * job.extent + place) * job.inner + inside];
    job.places[i] = place;
  }
}

} // namespace

Failure sort(Queue queue, const device::SortJob& job) {
  return visit_floating_type(job.type, [&]<class T>() -> Failure {
    return visit_item(job.item_bytes, [&]<class Item>() -> Failure {
      const std::int64_t room = device::sorted_line(job.extent), lines = job.outer * job.inner;
      Item* const items = static_cast<Item*>(job.items);
      GPU_LAUNCH((line_items_kernel<Item, T>), elements_grid(lines * room), elements_block, 0, queue.stream, job, room);
      sort_lines(queue, items, lines, room);
      if (job.by_place) {
        GPU_LAUNCH(by_place_kernel<Item>, elements_grid(lines * room), elements_block, 0, queue.stream, job, room);
        sort_lines(queue, items, lines, room);
      }
      GPU_LAUNCH((sorted_elements_kernel<Item, T>), elements_grid(job.outer * job.k * job.inner), elements_block, 0,
                 queue.stream, job, room);
      return nullptr;
    });
  });
}

} // namespace eg::cuda
