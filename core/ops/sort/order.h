#pragma once
// The order of sort, argsort and topk, and lines along one axis.

#include "core/ops/reduce/groups.h"

#include <cmath>
#include <numeric>
#include <vector>

namespace eg::sorting {

/// a before b in the wanted direction: a NaN is larger than everything and equal to another NaN.
template <class T> bool precedes(T a, T b, bool descending) {
  if (std::isnan(a) || std::isnan(b)) return descending ? std::isnan(a) && !std::isnan(b) : !std::isnan(a);
  return descending ? a > b : a < b;
}

/// An element and its place, so that equals can keep their order.
template <class T> struct Placed {
  T value;
  std::int64_t place;
};

/// Wanted order; equals in the order of their places.
template <class T> struct InOrder {
  bool descending;
  bool operator()(const Placed<T>& a, const Placed<T>& b) const {
    if (precedes(a.value, b.value, descending)) return true;
    if (precedes(b.value, a.value, descending)) return false;
    return a.place < b.place;
  }
};

/// The attribute `axis`.
int axis_of(const OpArgs& args);

/// f(first place in the packed x, elements of the line with their places) for every line along the axis, on all
/// threads. The elements of a line lie `split.inner` apart.
template <class T, class F> void for_each_line(const Tensor& x, const AxisSplit& split, const F& f) {
  if (x.numel() == 0) return;
  const Tensor data = packed(x);
  const T* values = data.data<T>();
  const std::int64_t bytes = split.extent * static_cast<std::int64_t>(sizeof(Placed<T>));
  parallel::for_each(split.outer * split.inner, parallel::grain_for_bytes(bytes),
                     [&](std::int64_t begin, std::int64_t end) {
                       std::vector<Placed<T>> line(static_cast<std::size_t>(split.extent));
                       for (std::int64_t l = begin; l < end; ++l) {
                         const T* first = values + l / split.inner * split.extent * split.inner + l % split.inner;
                         for (std::int64_t e = 0; e < split.extent; ++e)
                           line[static_cast<std::size_t>(e)] = {first[e * split.inner], e};
                         f(l, line);
                       }
                     });
}

/// dx: the cotangent of each value at the place that it came from.
Gradients scattered_back(const VjpArgs& args);

/// Lines are independent of each other: every axis but the sorted one, for this many outputs. Along the axis itself
/// the indices change.
std::vector<Symmetry> line_symmetries(const Sample& sample, int outputs);

} // namespace eg::sorting
