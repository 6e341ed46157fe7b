// Row of norm: L1, L2, the largest, and any p > 0.

#include "core/ops/list.h"
#include "core/ops/reduce/groups.h"

#include <fmt/format.h>
#include <limits>

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
  double largest = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    if (std::isnan(x[i])) return static_cast<double>(x[i]);
    largest = std::max(largest, std::abs(static_cast<double>(x[i])));
  }
  return largest;
}

template <class Adder, class T> double norm_of(const T* x, std::int64_t n, double p) {
  const auto size = [x](std::int64_t i) { return std::abs(static_cast<double>(x[i])); };
  if (p == 1.0) return Adder{}(n, size);
  if (p == 2.0) {
    const ScaledSquares squares = sum_of_squares<Adder>(n, size);
    return squares.scale * std::sqrt(squares.sum);
  }
  const double largest = largest_size(x, n);
  if (p == infinity || largest == 0 || !std::isfinite(largest)) return largest;
  const double sum = Adder{}(n, [&](std::int64_t i) { return std::pow(size(i) / largest, p); });
  return largest * std::pow(sum, 1.0 / p);
}

template <class Adder> void norm_cpu(const OpArgs& args, std::span<Tensor> out) {
  const Groups groups = groups_of(args.in[0], axes_attribute(args));
  const double p = args.attrs.real("p");
  visit_floating(out[0].dtype(), [&]<class T>() {
    T* y = out[0].mutable_data<T>();
    for_each_group<T>(groups,
                      [&](std::int64_t g, const T* x) { y[g] = static_cast<T>(norm_of<Adder>(x, groups.extent, p)); });
  });
}

/// f of every element, packed; no tape sees it.
template <class F> Tensor constant_map(const Tensor& x, F f) {
  const PauseRecording pause;
  Tensor y = x.clone();
  visit_floating(y.dtype(), [&]<class T>() {
    T* at = y.mutable_data<T>();
    for (std::int64_t i = 0; i < y.numel(); ++i) at[i] = f(at[i]);
  });
  return y;
}

Tensor signs(const Tensor& x) {
  return constant_map(x, [](auto v) { return v > 0 ? decltype(v)(1) : v < 0 ? decltype(v)(-1) : v; });
}
Tensor zeros_of(const Tensor& x) {
  return constant_map(x, [](auto v) { return v == 0 ? decltype(v)(1) : decltype(v)(0); });
}

/// dy/dx_i = sign(x_i) (|x_i| / y)^(p - 1); 0 where x_i or y is 0.
Tensor slopes(const VjpArgs& args, double p) {
  const Tensor& x = args.in[0];
  if (p == 1.0) return signs(x);
  const Tensor y = with_kept_axes(args, args.out[0]);
  if (p == infinity) return even_shares(x, y, args.attrs.integers("axes"), true);
  // x is 0 where y is; over infinity it stays 0 with all its derivatives.
  if (p == 2.0)
    return div(x, add(y, constant_map(y, [](auto v) { return v == 0 ? decltype(v)(infinity) : decltype(v)(0); })));
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

Tensor norm(const Tensor& x, double p, const std::vector<std::int64_t>& axes, bool keepdim) {
  return call1(norm_op, {x}, {{"p", p}, {"axes", axes}, {"keepdim", keepdim}});
}

} // namespace eg
