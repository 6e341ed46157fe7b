#pragma once
// Gathers lines along one axis, and sorts them as sort, argsort and topk do: equals keep their order.

#include "core/ops/reduce/groups.h"
#include "core/ops/sort/key.h"

#include <vector>

namespace eg::sorting {

/// Sorts the items of a line. `spare` is scratch memory; on return `items` holds the result.
template <class Item> void sort_items(std::vector<Item>& items, std::vector<Item>& spare, int key_bytes);
extern template void sort_items(std::vector<ShortItem>&, std::vector<ShortItem>&, int);
extern template void sort_items(std::vector<LongItem>&, std::vector<LongItem>&, int);

/// f(line, its first element in the packed x, its items, scratch memory for sort_items) for every line along the axis,
/// on all threads. The elements of a line are `split.inner` apart.
template <class Item, class T, class F>
void for_each_line_of(const T* values, const AxisSplit& split, bool descending, const F& f) {
  const std::int64_t grain = parallel::grain_for_bytes(split.extent * static_cast<std::int64_t>(sizeof(Item)));
  parallel::for_each(split.outer * split.inner, grain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<Item> items(static_cast<std::size_t>(split.extent)), spare;
    for (std::int64_t l = begin; l < end; ++l) {
      const T* first = values + l / split.inner * split.extent * split.inner + l % split.inner;
      for (std::int64_t e = 0; e < split.extent; ++e)
        items[static_cast<std::size_t>(e)] = Item::of(key_of(first[e * split.inner], descending), e);
      f(l, first, items, spare);
    }
  });
}

template <class T, class F> void for_each_line(const Tensor& x, const AxisSplit& split, bool descending, const F& f) {
  if (x.numel() == 0) return;
  const Tensor data = packed(x);
  const bool is_short = sizeof(T) == 4 && split.extent <= std::int64_t{1} << 32;
  if constexpr (sizeof(T) == 4)
    if (is_short) return for_each_line_of<ShortItem>(data.data<T>(), split, descending, f);
  for_each_line_of<LongItem>(data.data<T>(), split, descending, f);
}

/// Starts the kernel of core/ops/sort/sort.cu: the first k of each line along the axis, values unless undefined.
void sort_on_device(const OpArgs& args, std::int64_t k, bool descending, bool by_place, Tensor values, Tensor places);

/// dx: the cotangent of each value at the place that it came from.
Gradients scattered_back(const VjpArgs& args);

/// Lines are independent of each other: every axis but the sorted one, for this many outputs. Along the axis itself
/// the indices change.
std::vector<Symmetry> line_symmetries(const Sample& sample, int outputs);

} // namespace eg::sorting
