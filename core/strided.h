#pragma once
// Visits the elements of strided tensors, and turns a dtype tag into a type.

#include "core/dtype.h"
#include "core/shape.h"

#include <array>
#include <cstdint>
#include <utility>

namespace eg {

/// Calls f.template operator()<T>() with the C++ type of the dtype.
template <class F> void visit_dtype(DType dtype, F&& f) {
  switch (dtype) {
  case DType::f32:
    return f.template operator()<float>();
  case DType::f64:
    return f.template operator()<double>();
  case DType::i64:
    return f.template operator()<std::int64_t>();
  case DType::u8:
    return f.template operator()<std::uint8_t>();
  case DType::boolean:
    return f.template operator()<bool>();
  case DType::bf16:
    return f.template operator()<BFloat16>();
  }
}

/// The same for f32 and f64 only; the caller has checked that the dtype is floating.
template <class F> void visit_floating(DType dtype, F&& f) {
  if (dtype == DType::f32)
    f.template operator()<float>();
  else
    f.template operator()<double>();
}

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
