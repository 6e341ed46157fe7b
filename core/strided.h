#pragma once
// Visits the elements of strided tensors.

#include "core/shape.h"
#include "core/visit_dtype.h" // IWYU pragma: export

#include <array>
#include <cstdint>
#include <utility>

namespace eg {

/// f(offset_a, offset_b, ...) for every element in row-major order; offsets are in elements.
template <std::size_t N, class F>
void for_each_offsets(const Shape& shape, const std::array<Shape, N>& strides, F&& f) {
  const int rank = shape.rank();
  for (const std::int64_t extent : shape)
    if (extent == 0) return;
  std::array<std::int64_t, N> offsets{};
  std::array<std::int64_t, max_rank> index{};
  while (true) {
    [&]<std::size_t... I>(std::index_sequence<I...>) { f(offsets[I]...); }
    (std::make_index_sequence<N>{});
    int axis = rank - 1;
    for (; axis >= 0; --axis) {
      const auto a = static_cast<std::size_t>(axis);
      if (++index[a] < shape[axis]) {
        for (std::size_t i = 0; i < N; ++i) offsets[i] += strides[i][axis];
        break;
      }
      for (std::size_t i = 0; i < N; ++i) offsets[i] -= strides[i][axis] * (shape[axis] - 1);
      index[a] = 0;
    }
    if (axis < 0) return;
  }
}

template <class F> void for_each_offset(const Shape& shape, const Shape& strides, F&& f) {
  for_each_offsets<1>(shape, {strides}, std::forward<F>(f));
}
template <class F> void for_each_offset2(const Shape& shape, const Shape& a, const Shape& b, F&& f) {
  for_each_offsets<2>(shape, {a, b}, std::forward<F>(f));
}

} // namespace eg
