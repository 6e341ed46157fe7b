#pragma once
// Reduces over any axes, a group of elements at a time; shared by the kernels and op definitions of reductions.

#include "core/exact/exact.h"
#include "core/ops/reduce/axes.h"
#include "core/ops/reduce/chains.h"
#include "core/ops/row_tools.h"
#include "core/threads/parallel.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <vector>

namespace eg::reduce {

inline constexpr AttrSpec axes_spec = attr_ints("axes", "axes to reduce, negative ones count from the end; empty: all");
inline constexpr AttrSpec keepdim_spec = attr_bool("keepdim", false, "reduced axes stay, with extent 1");

/// The flags that the attribute `axes` sets for input 0.
Reduced axes_attribute(const OpArgs& args);
/// Input 0's shape after the reduction that the attributes `axes` and `keepdim` ask for.
Shape result_shape(const OpArgs& args);
/// The same with the reduced axes kept as 1.
Shape kept_shape(const OpArgs& args);
/// Shape rule of a reduction: x floating, one output of its type.
std::vector<TensorSpec> infer_floating(const OpArgs& args);
/// A reduced tensor with its reduced axes as 1, so that it broadcasts against input 0. Recorded.
Tensor with_kept_axes(const OpArgs& args, const Tensor& reduced);

/// 1/m at each of the m elements of x (signed: |x|, with x's sign) that equal y, else 0. y keeps its reduced axes as 1.
/// A constant while x changes a little: no tape sees it.
Tensor even_shares(const Tensor& x, const Tensor& y, const std::vector<std::int64_t>& axes, bool is_signed);

/// The elements that go into each element of the result, packed, one group after another in the result's order.
struct Groups {
  Tensor x;
  std::int64_t count = 1;  ///< groups
  std::int64_t extent = 1; ///< elements of each
};
/// Not recorded; copies unless the reduced axes are the last ones of a packed tensor.
Groups groups_of(const Tensor& x, const Reduced& reduced);

/// Where the reduced axes are neighbours: x as [outer, reduced, inner], the result as [outer, inner].
std::optional<AxisSplit> split_of(const Shape& x, const Reduced& reduced);

/// f(outer, first column, columns) on all threads, for blocks of at most `width` of the columns of a split with inner
/// axes. Blocks are narrower, but not below 64, where a thread would have none.
template <class F> void for_each_block(const AxisSplit& s, std::int64_t width, std::size_t element, const F& f) {
  while (width > 64 && s.outer * parallel::chunks(s.inner, width) < parallel::threads()) width /= 2;
  const std::int64_t blocks = parallel::chunks(s.inner, width);
  const std::int64_t bytes =
      std::max<std::int64_t>(1, s.extent * std::min(s.inner, width)) * static_cast<std::int64_t>(element);
  parallel::for_each(s.outer * blocks, parallel::grain_for_bytes(bytes), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t column = task % blocks * width;
      f(task / blocks, column, std::min(width, s.inner - column));
    }
  });
}

/// f(group, its first element) on all threads.
template <class T, class F> void for_each_group(const Groups& groups, const F& f) {
  if (groups.count == 0) return;
  const T* first = groups.extent > 0 ? groups.x.template data<T>() : nullptr;
  const std::int64_t bytes = std::max<std::int64_t>(1, groups.extent) * static_cast<std::int64_t>(sizeof(T));
  parallel::for_each(groups.count, parallel::grain_for_bytes(bytes), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t g = begin; g < end; ++g) f(g, first + g * groups.extent);
  });
}

/// Elements of a long group that one task reduces.
inline constexpr std::int64_t group_piece = 65536;

/// f(x, n). A long group is cut into pieces, which run on all threads: join(results of the pieces, their number).
template <class T, class F, class Join> auto of_pieces(const T* x, std::int64_t n, const F& f, const Join& join) {
  if (n <= group_piece) return f(x, n);
  const std::int64_t pieces = parallel::chunks(n, group_piece);
  const auto results = std::make_unique<decltype(f(x, n))[]>(static_cast<std::size_t>(pieces));
  parallel::for_each(n, group_piece, [&](std::int64_t begin, std::int64_t end) {
    results[static_cast<std::size_t>(begin / group_piece)] = f(x + begin, end - begin);
  });
  return join(results.get(), pieces);
}
/// A `join` that adds.
inline constexpr auto added = [](const auto* results, std::int64_t n) {
  auto sum = results[0];
  for (std::int64_t i = 1; i < n; ++i) sum += results[i];
  return sum;
};

/// Sum of term(begin) ... term(end - 1): blocks of 128 joined as a tree, so that the error grows with the logarithm.
/// Large branches run in parallel.
template <class Term> double tree_sum(std::int64_t begin, std::int64_t end, const Term& term) {
  constexpr std::int64_t block = 128;
  if (end - begin <= block) return chains_sum(begin, end, term);
  const std::int64_t middle = begin + parallel::chunks((end - begin) / 2, block) * block;
  if (end - begin <= group_piece) return tree_sum(begin, middle, term) + tree_sum(middle, end, term);
  double halves[2];
  parallel::for_each(2, 1, [&](std::int64_t half, std::int64_t) {
    halves[half] = half == 0 ? tree_sum(begin, middle, term) : tree_sum(middle, end, term);
  });
  return halves[0] + halves[1];
}

/// How a kernel adds up term(0) ... term(n - 1).
struct TreeAdder {
  template <class Term> double operator()(std::int64_t n, const Term& term) const { return tree_sum(0, n, term); }
};

/// The same with the order of the terms of no account, for exact kernels.
struct ExactAdder {
  template <class Term> double operator()(std::int64_t n, const Term& term) const {
    std::vector<double> terms(static_cast<std::size_t>(n));
    for (std::int64_t i = 0; i < n; ++i) terms[static_cast<std::size_t>(i)] = term(i);
    return exact::sum(terms);
  }
};

/// scale^2 * sum = sum of term(i)^2 without overflow and without losing small terms: scale is a power of two, 1 unless
/// the squares leave the range of double.
struct ScaledSquares {
  double scale = 1;
  double sum = 0;
};
template <class Adder, class Term> ScaledSquares sum_of_squares(std::int64_t n, const Term& term) {
  const double plain = Adder{}(n, [&](std::int64_t i) { return term(i) * term(i); });
  if ((plain > 1e-280 && plain < 1e300) || std::isnan(plain)) return {1, plain};
  double largest = 0;
  for (std::int64_t i = 0; i < n; ++i) largest = std::max(largest, std::abs(term(i)));
  if (largest == 0 || !std::isfinite(largest)) return {1, plain};
  const int exponent = std::ilogb(largest);
  const auto scaled = [&](std::int64_t i) { return std::ldexp(term(i), -exponent); };
  return {std::ldexp(1.0, exponent), Adder{}(n, [&](std::int64_t i) { return scaled(i) * scaled(i); })};
}

/// f(group, elements) of the naive kind: for every group a packed copy of its elements, in f64.
template <class F> void for_each_naive_group(const OpArgs& args, F f) {
  const Reduced reduced = axes_attribute(args);
  const Tensor& x = args.in[0];
  const Shape kept = reduced_shape(x.shape(), reduced, true);
  Shape strides = contiguous_strides(kept);
  for (int axis = 0; axis < x.rank(); ++axis)
    if (reduced[static_cast<std::size_t>(axis)]) strides[axis] = 0;
  std::vector<std::vector<double>> groups(static_cast<std::size_t>(kept.numel()));
  visit_dtype(x.dtype(), [&]<class T>() {
    for_each_offset2(x.shape(), x.strides(), strides, [&](std::int64_t i, std::int64_t j) {
      groups[static_cast<std::size_t>(j)].push_back(static_cast<double>(x.data<T>()[i]));
    });
  });
  for (std::size_t g = 0; g < groups.size(); ++g) f(static_cast<std::int64_t>(g), groups[g]);
}

/// Samples over axes of all kinds with `extra` attributes. `off_zero`: away from the kink at 0. Values are normal with
/// the given scale and mean otherwise.
struct SampleKind {
  double scale = 1.2;
  double mean = 0.3;
  bool off_zero = false;
};
std::vector<Sample> axes_samples(DType dtype, std::uint64_t tag, const SampleKind& kind = {}, const Attrs& extra = {});
/// Calls that a floating reduction with `axes` refuses.
std::vector<Refusal> axes_refusals();
/// The same for one that takes whole numbers, too.
std::vector<Refusal> axes_number_refusals();
/// Calls that a reduction of any type with `axes` refuses.
std::vector<Refusal> axes_only_refusals();
/// Kept axes move with the output's; permuting a reduced axis changes nothing.
std::vector<Symmetry> axes_symmetries(const Sample& sample);

/// `flops` for every element of input 0.
template <int flops> Work group_work(const OpArgs& args, std::span<const TensorSpec> out) {
  return {static_cast<double>(flops) * static_cast<double>(args.in[0].numel()), bytes_moved(args, out)};
}

} // namespace eg::reduce
