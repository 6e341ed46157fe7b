// Row of norm: L1, L2, the largest, and any p > 0.

#include "core/exact/elementary.h"
#include "core/ops/list.h"
#include "core/ops/reduce/groups.h"
#include "core/ops/reduce/on_device.h"
#include "core/ops/reduce/row_norm.h"
#include "core/ops/reduce/rows.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <limits>
#include <optional>
#include <type_traits>
#include <vector>

namespace eg {
namespace {

using namespace reduce;

constexpr double infinity = std::numeric_limits<double>::infinity();

std::vector<TensorSpec> infer(const OpArgs& args) {
  const double p = args.attrs.real("p");
  if (!(p > 0)) throw ValueError(fmt::format("norm: p is {}; it must be positive", p));
  return infer_floating(args);
}

/// Largest |x|; NaN where there is one.
template <class T> double largest_size(const T* x, std::int64_t n) {
  if (n < 16) { // which a loop has done before vectors are chosen
    double largest = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      if (std::isnan(x[i])) return static_cast<double>(x[i]);
      largest = std::max(largest, std::abs(static_cast<double>(x[i])));
    }
    return largest;
  }
  const auto largest = [](const T* from, std::int64_t count) { return row_extreme(from, count, true); };
  const auto smallest = [](const T* from, std::int64_t count) { return row_extreme(from, count, false); };
  const double most = static_cast<double>(of_pieces(x, n, largest, largest)),
               least = static_cast<double>(of_pieces(x, n, smallest, smallest));
  return std::isnan(most) ? most : std::max(std::abs(most), std::abs(least));
}

/// Whether `sum`, of squares of numbers of type T, has lost nothing on the way.
template <class T> bool is_of_plain_squares(double sum) { return sizeof(T) == 4 || (sum > 1e-280 && sum < 1e300); }

template <class Adder, class T> double norm_of(const T* x, std::int64_t n, double p) {
  const auto size = [x](std::int64_t i) { return std::abs(static_cast<double>(x[i])); };
  if (p == 1.0) return Adder{}(n, size);
  if (p == 2.0) {
    if constexpr (std::is_same_v<Adder, TreeAdder>)
      if (const double plain = of_pieces(x, n, row_squares<T>, added); is_of_plain_squares<T>(plain))
        return std::sqrt(plain);
    const ScaledSquares squares = sum_of_squares<Adder>(n, size);
    return squares.scale * std::sqrt(squares.sum);
  }
  const double largest = largest_size(x, n);
  if (p == infinity || largest == 0 || !std::isfinite(largest)) return largest;
  constexpr auto power =
      std::is_same_v<Adder, ExactAdder> ? &exact::pow : static_cast<double (*)(double, double)>(&std::pow);
  const double sum = Adder{}(n, [&](std::int64_t i) { return power(size(i) / largest, p); });
  return largest * power(sum, 1.0 / p);
}

constexpr std::int64_t columns_at_once = 256;

/// y[c] = largest |x| of column c of a block.
template <class T> void largest_of_columns(const T* x, const AxisSplit& s, std::int64_t columns, T* y) {
  std::array<T, columns_at_once> least;
  column_extremes(x, s.extent, s.inner, columns, true, y);
  column_extremes(x, s.extent, s.inner, columns, false, least.data());
  for (std::int64_t c = 0; c < columns; ++c)
    if (!std::isnan(y[c])) y[c] = std::max(std::abs(y[c]), std::abs(least[static_cast<std::size_t>(c)]));
}

/// y[c] = root of the sum of squares of column c of a block.
template <class T> void lengths_of_columns(const T* x, const AxisSplit& s, std::int64_t columns, T* y) {
  constexpr std::int64_t rows_at_once = 256; // so that the error grows with 256 and with the number of such blocks
  std::array<double, columns_at_once> sums{}, some;
  for (std::int64_t first = 0; first < s.extent; first += rows_at_once) {
    some.fill(0.0);
    for (std::int64_t r = first; r < std::min(first + rows_at_once, s.extent); ++r)
      for (std::int64_t c = 0; c < columns; ++c) {
        const auto v = static_cast<double>(x[r * s.inner + c]);
        some[static_cast<std::size_t>(c)] += v * v;
      }
    for (std::size_t c = 0; c < sums.size(); ++c) sums[c] += some[c];
  }
  for (std::int64_t c = 0; c < columns; ++c) {
    const double sum = sums[static_cast<std::size_t>(c)];
    if (is_of_plain_squares<T>(sum)) {
      y[c] = static_cast<T>(std::sqrt(sum));
      continue;
    }
    std::vector<T> column(static_cast<std::size_t>(s.extent));
    for (std::int64_t r = 0; r < s.extent; ++r) column[static_cast<std::size_t>(r)] = x[r * s.inner + c];
    y[c] = static_cast<T>(norm_of<TreeAdder>(column.data(), s.extent, 2.0));
  }
}

/// Whether the columns of a split are read row by row: where there are many of them, or they are short.
bool read_by_rows(const AxisSplit& s) { return s.inner > 1 && s.extent > 0 && (s.inner >= 16 || s.extent <= 64); }

template <class Adder> void norm_cpu(const OpArgs& args, std::span<Tensor> out) {
  const double p = args.attrs.real("p");
  if constexpr (std::is_same_v<Adder, TreeAdder>) {
    const std::optional<AxisSplit> split = split_of(args.in[0].shape(), axes_attribute(args));
    if ((p == 2.0 || p == infinity) && split && read_by_rows(*split) && out[0].numel() > 0) {
      const Tensor x = packed(args.in[0]);
      return visit_floating(x.dtype(), [&]<class T>() {
        const T* const from = x.data<T>();
        T* const to = out[0].mutable_data<T>();
        for_each_block(*split, columns_at_once, sizeof(T),
                       [&](std::int64_t o, std::int64_t column, std::int64_t columns) {
                         (p == 2.0 ? lengths_of_columns<T>
                                   : largest_of_columns<T>)(from + o * split->extent * split->inner + column, *split,
                                                            columns, to + o * split->inner + column);
                       });
      });
    }
  }
  const Groups groups = groups_of(args.in[0], axes_attribute(args));
  visit_floating(out[0].dtype(), [&]<class T>() {
    T* y = out[0].mutable_data<T>();
    for_each_group<T>(groups,
                      [&](std::int64_t g, const T* x) { y[g] = static_cast<T>(norm_of<Adder>(x, groups.extent, p)); });
  });
}

void norm_on_device(const OpArgs& args, std::span<Tensor> out) {
  using Kind = device::ReduceKind;
  const Reduced reduced = axes_attribute(args);
  const Tensor& x = args.in[0];
  const double p = args.attrs.real("p");
  if (p == 1.0 || p == 2.0 || p == infinity) {
    const Kind kind = p == 1.0 ? Kind::size_sum : p == 2.0 ? Kind::root_squares : Kind::largest_size;
    return run_on_device("norm", kind, x, reduced, {out[0], {}, {}});
  }
  const Tensor largest = Tensor::empty(kept_shape(args), DType::f64);
  run_on_device("norm", Kind::largest_size, x, reduced, {{}, {}, largest});
  run_on_device("norm", Kind::power_norm, x, reduced, {out[0], {}, {}}, {.p = p}, largest);
}

/// 1 where x is 0, else 0; no tape sees it.
Tensor zeros_of(const Tensor& x) {
  const PauseRecording pause;
  return cast(eq(x, 0.0), x.dtype());
}
/// -1, 0 or 1; no tape sees it.
Tensor signs(const Tensor& x) {
  const PauseRecording pause;
  return sign(x);
}
/// y where it is not 0, else infinity: a constant is added, which no tape sees.
Tensor infinite_where_zero(const Tensor& y) {
  Tensor added;
  {
    const PauseRecording pause;
    added = where(eq(y, 0.0), Tensor::full({}, infinity, y.dtype()), Tensor::zeros({}, y.dtype()));
  }
  return add(y, added);
}

/// dy/dx_i = sign(x_i) (|x_i| / y)^(p - 1); 0 where x_i or y is 0.
Tensor slopes(const VjpArgs& args, double p) {
  const Tensor& x = args.in[0];
  if (p == 1.0) return signs(x);
  const Tensor y = with_kept_axes(args, args.out[0]);
  if (p == infinity) return even_shares(x, y, args.attrs.integers("axes"), true);
  // x is 0 where y is; over infinity it stays 0 with all its derivatives.
  if (p == 2.0) return div(x, infinite_where_zero(y));
  const Tensor safe = add(y, zeros_of(y));
  const Tensor sign = signs(x);
  const Tensor ratio = add(div(mul(x, sign), safe), zeros_of(x));
  return mul(sign, exp(affine(log(ratio), p - 1.0, 0.0)));
}

std::vector<Sample> samples(DType dtype) {
  std::vector<Sample> list = axes_samples(dtype, 1500, {1.0, 0.0, true});
  for (const double p : {1.0, 3.0, 1.5, infinity}) {
    const auto tag = 1520 + static_cast<std::uint64_t>(std::min(p, 9.0) * 20);
    const std::vector<Sample> more = axes_samples(dtype, tag, {1.0, 0.0, true}, {{"p", p}});
    list.insert(list.end(), more.begin(), more.begin() + 5);
  }
  return list;
}

std::vector<Refusal> refuses() {
  std::vector<Refusal> list = axes_refusals();
  list.push_back({{Tensor::zeros({2, 3})}, {{"p", 0.0}}, "p is 0; it must be positive"});
  list.push_back({{Tensor::zeros({2, 3})}, {{"p", std::nan("")}}, "it must be positive"});
  return list;
}

} // namespace

constinit const OpDef norm_op = row({
    .name = "norm",
    .math = "y = (sum of |x|^p over the axes)^(1/p); p = inf: the largest |x|",
    .inputs = {{"x"}},
    .attributes = {attr_real("p", 2.0, "which norm: p > 0, also infinity"), axes_spec, keepdim_spec},
    .infer = infer,
    .cpu = norm_cpu<TreeAdder>,
    .exact = norm_cpu<ExactAdder>,
    .cuda = norm_on_device,
    .saves = saves::in(0) | saves::out(0),
    .vjp = [](const VjpArgs& args) -> Gradients {
      if (!args.wants(0)) return {Tensor()};
      return {mul(with_kept_axes(args, args.grad[0]), slopes(args, args.attrs.real("p")))};
    },
    .reference = [](const OpArgs& args) -> std::vector<Tensor> {
      const double p = args.attrs.real("p");
      Tensor y = reference_output(result_shape(args));
      for_each_naive_group(args, [&](std::int64_t g, const std::vector<double>& x) {
        double total = 0;
        for (const double v : x)
          total = p == infinity ? std::max(total, std::abs(v)) : total + std::pow(std::abs(v), p);
        values(y)[g] = p == infinity ? total : std::pow(total, 1.0 / p);
      });
      return {y};
    },
    .samples = samples,
    .refuses = refuses,
    .symmetries = axes_symmetries,
    .work = group_work<2>,
});

namespace reduce {

template <class T> T row_length(const T* x, std::int64_t n) { return static_cast<T>(norm_of<TreeAdder>(x, n, 2.0)); }
template <class T> T row_largest(const T* x, std::int64_t n) { return static_cast<T>(largest_size(x, n)); }
template float row_length(const float*, std::int64_t);
template double row_length(const double*, std::int64_t);
template float row_largest(const float*, std::int64_t);
template double row_largest(const double*, std::int64_t);

} // namespace reduce

Tensor norm(const Tensor& x, double p, const std::vector<std::int64_t>& axes, bool keepdim) {
  return call1(norm_op, {x}, {{"p", p}, {"axes", axes}, {"keepdim", keepdim}});
}

} // namespace eg
