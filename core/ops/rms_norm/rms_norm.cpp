// y = x r gamma over the last axis, r = 1 / sqrt(mean(x^2) + eps) (Zhang, Sennrich, "Root mean square layer
// normalization", 2019), and its backward op, which computes r again for each row.

#include "core/call.h"
#include "core/exact/exact.h"
#include "core/memory/allocator.h"
#include "core/ops.h"
#include "core/ops/layer_norm/kernels.h"
#include "core/ops/list.h"
#include "core/ops/norm_tools.h"
#include "core/threads/parallel.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

namespace eg {
namespace {

std::vector<TensorSpec> infer(const OpArgs& args) {
  norm_tools::check_rows(args, {1});
  return {{args.in[0].shape(), args.in[0].dtype()}};
}

template <class T> void forward_as(const OpArgs& args, Tensor& out) {
  const Tensor x = packed(args.in[0]);
  const Tensor gamma = args.given(1) ? packed(args.in[1]) : Tensor{};
  if (x.numel() == 0) return;
  const std::int64_t n = x.shape()[-1];
  const T* from = x.data<T>();
  T* to = out.mutable_data<T>("rms_norm");
  const auto eps = static_cast<T>(args.attrs.real("eps"));
  const std::int64_t grain = parallel::grain_for_bytes(n * static_cast<std::int64_t>(sizeof(T)));
  parallel::for_each(x.numel() / n, grain, [&](std::int64_t begin, std::int64_t end) {
    rms_norm_kernels::run(norm_kernels::Forward<T>{from + begin * n, gamma.defined() ? gamma.data<T>() : nullptr,
                                                   nullptr, to + begin * n, end - begin, n, eps});
  });
}

void forward(const OpArgs& args, std::span<Tensor> out) {
  visit_floating(out[0].dtype(), [&]<class T>() { forward_as<T>(args, out[0]); });
}

/// 1 / sqrt(mean(x^2) + eps) of one row, its mean an exact sum. Where the largest square would leave the range of
/// double, all x are divided by a power of two near the largest first, and the root is taken in long double.
double exact_rstd_of(std::span<const double> x, double eps, std::vector<double>& terms) {
  double largest = 0;
  for (const double v : x) largest = std::max(largest, std::abs(v)); // a NaN is passed over: its square is not
  constexpr double most = 0x1p500;
  const bool extreme = std::isfinite(largest) && largest > 0 && (largest > most || largest < 1.0 / most);
  const int exponent = extreme ? std::ilogb(largest) : 0;
  terms.assign(x.begin(), x.end());
  for (double& t : terms) {
    t = std::ldexp(t, -exponent);
    t *= t;
  }
  const double square = exact::sum(terms) / static_cast<double>(x.size());
  if (exponent == 0) return 1.0 / std::sqrt(square + eps);
  const long double whole = std::ldexp(static_cast<long double>(square), 2 * exponent);
  return static_cast<double>(1.0L / std::sqrt(whole + static_cast<long double>(eps)));
}

/// Of every row of x [..., n], n > 0, in f64: [..., 1].
Tensor exact_rstd(const Tensor& x, double eps) {
  const std::int64_t n = x.shape()[-1];
  Shape rows = x.shape();
  rows[-1] = 1;
  Tensor rstd = Tensor::empty(rows, DType::f64);
  const Tensor from = packed(x);
  const double* const data = from.data<double>();
  double* const to = rstd.mutable_data<double>("rms_norm");
  parallel::for_each(rstd.numel(), parallel::grain_for_bytes(n * 32), [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> terms;
    for (std::int64_t r = begin; r < end; ++r)
      to[r] = exact_rstd_of({data + r * n, static_cast<std::size_t>(n)}, eps, terms);
  });
  return rstd;
}

/// Everything in f64, rounded once.
void exact_forward(const OpArgs& args, std::span<Tensor> out) {
  if (args.in[0].numel() == 0) return;
  const Tensor x = args.in[0].to(DType::f64);
  const Tensor y = x * exact_rstd(x, args.attrs.real("eps"));
  assign(out[0], (args.given(1) ? y * args.in[1].to(DType::f64) : y).to(out[0].dtype()));
}

std::vector<Tensor> backward_call(const Tensor& x, const Tensor& gamma, const Tensor& g, double eps, bool parameters) {
  return call(rms_norm_backward_op, {x, gamma, g}, {{"eps", eps}, {"parameters", parameters}});
}

Gradients rule(const VjpArgs& args) {
  const Tensor gamma = args.given(1) ? args.in[1] : Tensor{};
  const std::vector<Tensor> all = backward_call(args.in[0], gamma, args.grad[0], args.attrs.real("eps"), args.wants(1));
  return {args.wants(0) ? all[0] : Tensor{}, args.wants(1) ? all[1] : Tensor{}};
}

double reciprocal_rms(const double* x, std::int64_t n, double eps) {
  double square = 0;
  for (std::int64_t j = 0; j < n; ++j) square += x[j] * x[j] / static_cast<double>(n);
  return 1.0 / std::sqrt(square + eps);
}

std::vector<Tensor> reference(const OpArgs& args) {
  Tensor result = reference_output(args.in[0].shape());
  const std::int64_t n = args.in[0].shape()[-1];
  const double* x = values(args.in[0]);
  for (std::int64_t i = 0; i < result.numel(); ++i) {
    const double r = reciprocal_rms(x + i / n * n, n, args.attrs.real("eps"));
    values(result)[i] = x[i] * r * (args.given(1) ? values(args.in[1])[i % n] : 1.0);
  }
  return {result};
}

std::vector<Sample> samples(DType dtype) {
  const auto x = [&](const Shape& shape, std::uint64_t tag) { return sample_normal(shape, dtype, tag, 2.0, 0.5); };
  const auto gamma = [&](std::int64_t n, std::uint64_t tag) { return sample_normal({n}, dtype, tag, 0.5, 1.5); };
  // The derivative of one feature is a difference of order eps, so no sample has a tiny one.
  return {{{x({5, 7}, 1001), gamma(7, 1002)}, {{"eps", 0.2}}, "gamma"},
          {{x({3, 65}, 1003), gamma(65, 1004)}, {{"eps", 0.1}}, "65 features, another eps"},
          {{x({2, 3, 33}, 1005)}, {{"eps", 0.3}}, "no gamma"},
          {{scattered(x({4, 9}, 1006)), scattered(gamma(9, 1007))}, {{"eps", 0.5}}, "strided views"},
          {{x({4, 1}, 1008), gamma(1, 1009)}, {{"eps", 1.0}}, "one feature"},
          {{x({0, 5}, 1010), gamma(5, 1011)}, {}, "no rows"},
          {{x({3, 0}, 1012), gamma(0, 1013)}, {}, "no features"}};
}

std::vector<Refusal> refuses() {
  const Tensor x = Tensor::ones({4, 3});
  return {{{x, Tensor::ones({4})}, {}, "rms_norm: gamma must be [3], it is [4]"},
          {{Tensor::ones({})}, {}, "at least 1 axes"},
          {{Tensor::ones({4, 3}, DType::i64)}, {}, "must be f32 or f64"},
          {{x, Tensor::ones({3}, DType::f64)}, {}, "different types"},
          {{x}, {{"eps", -1.0}}, "eps must not be negative"}};
}

std::vector<Symmetry> symmetries(const Sample& sample) {
  return norm_tools::symmetries(sample, sample.in[0].rank() - 1, "rows, axis", {0}, "columns",
                                {in_leg(0, -1), in_leg(1, -1), out_leg(0, -1)}, norm_tools::Mixed::along);
}

// --- backward: dx = r (gh - xh mean(gh xh)), dgamma = sum over rows of g xh, with xh = x r, gh = g gamma ---

std::vector<TensorSpec> backward_infer(const OpArgs& args) {
  norm_tools::check_rows(args, {1});
  const Shape& shape = args.in[0].shape();
  check_shape(args, 2, shape);
  const DType dtype = args.in[0].dtype();
  return {{shape, dtype}, {Shape{args.attrs.flag("parameters") ? shape[-1] : 0}, dtype}};
}

template <class T> void backward_as(const OpArgs& args, std::span<Tensor> out) {
  const Tensor x = packed(args.in[0]), g = packed(args.in[2]);
  const Tensor gamma = args.given(1) ? packed(args.in[1]) : Tensor{};
  const bool parameters = args.attrs.flag("parameters");
  if (x.numel() == 0) {
    for (Tensor& t : out) t.fill(0.0);
    return;
  }
  const std::int64_t n = x.shape()[-1], rows = x.numel() / n;
  const std::int64_t grain = norm_tools::rows_per_chunk(rows, n * static_cast<std::int64_t>(sizeof(T)));
  const std::int64_t chunks = parallel::chunks(rows, grain);
  const auto scratch = parameters ? allocator::allocate(static_cast<std::size_t>(chunks * n) * sizeof(T)) : nullptr;
  T* const partial = reinterpret_cast<T*>(scratch.get());
  const T *from = x.data<T>(), *cotangent = g.data<T>();
  T* const to = out[0].mutable_data<T>("rms_norm_backward");
  const auto eps = static_cast<T>(args.attrs.real("eps"));
  parallel::for_each(rows, grain, [&](std::int64_t begin, std::int64_t end) {
    T* const sums = parameters ? partial + begin / grain * n : nullptr;
    if (sums != nullptr) std::fill_n(sums, n, T{0});
    rms_norm_kernels::run(norm_kernels::Backward<T>{from + begin * n, gamma.defined() ? gamma.data<T>() : nullptr,
                                                    cotangent + begin * n, to + begin * n, sums, nullptr, end - begin,
                                                    n, eps});
  });
  if (!parameters) return;
  norm_tools::join(partial, chunks, n, n, out[1].mutable_data<T>("rms_norm_backward"));
}

void backward(const OpArgs& args, std::span<Tensor> out) {
  visit_floating(out[0].dtype(), [&]<class T>() { backward_as<T>(args, out); });
}

void exact_backward(const OpArgs& args, std::span<Tensor> out) {
  if (args.in[0].numel() == 0) return backward(args, out);
  const DType dtype = out[0].dtype();
  const Tensor x = args.in[0].to(DType::f64), g = args.in[2].to(DType::f64);
  const Tensor rstd = exact_rstd(x, args.attrs.real("eps"));
  const Tensor xh = x * rstd;
  const Tensor gh = args.given(1) ? g * args.in[1].to(DType::f64) : g;
  assign(out[0], (rstd * (gh - xh * mean(gh * xh, {-1}, true))).to(dtype));
  if (args.attrs.flag("parameters")) assign(out[1], sum_to(g * xh, {x.shape()[-1]}).to(dtype));
}

// With J u = r (u - xh mean(u xh)), the symmetric Jacobian of x r, and cotangents a of dx, b of dgamma:
//   gbar = gamma J a + b xh,   gammabar = sum over rows of g J a,
//   xbar = J (b g) - (xh (mean(ra rgh) - 3 p q) + ra q + rgh p)   with   p = mean(ra xh), q = mean(rgh xh),
// ra = r a, rgh = r gh: r^2 alone would leave the type of large and of small rows.
Gradients backward_rule(const VjpArgs& args) {
  const Tensor &x = args.in[0], &g = args.in[2], &a = args.grad[0];
  const Tensor gamma = args.given(1) ? args.in[1] : Tensor{};
  const double eps = args.attrs.real("eps");
  const Tensor b = args.attrs.flag("parameters") ? args.grad[1] : Tensor{};
  const auto jacobian = [&](const Tensor& u) { return backward_call(x, {}, u, eps, false)[0]; };
  const auto row_mean = [](const Tensor& u) { return mean(u, {-1}, true); };
  const Tensor ja = a.defined() && (args.wants(1) || args.wants(2)) ? jacobian(a) : Tensor{};
  const Tensor xh = rms_norm(x, {}, eps);
  Gradients gradients(3);
  if (args.wants(0)) {
    if (b.defined()) gradients[0] = jacobian(b * g);
    if (a.defined()) {
      const Tensor r = norm_tools::reciprocal_deviation(x, {-1}, eps);
      const Tensor ra = r * a, rgh = r * (gamma.defined() ? g * gamma : g);
      const Tensor p = row_mean(ra * xh), q = row_mean(rgh * xh);
      add_term(gradients[0], -(xh * (row_mean(ra * rgh) - 3.0 * p * q) + ra * q + rgh * p));
    }
  }
  if (args.wants(1) && ja.defined()) gradients[1] = sum_to(g * ja, {x.shape()[-1]});
  if (args.wants(2)) {
    if (ja.defined()) gradients[2] = gamma.defined() ? gamma * ja : ja;
    if (b.defined()) add_term(gradients[2], b * xh);
  }
  return gradients;
}

std::vector<Tensor> backward_reference(const OpArgs& args) {
  const std::int64_t n = args.in[0].shape()[-1];
  const std::int64_t rows = n > 0 ? args.in[0].numel() / n : 0;
  const bool parameters = args.attrs.flag("parameters");
  Tensor dx = reference_output(args.in[0].shape());
  Tensor dgamma = reference_output({parameters ? n : 0});
  for (std::int64_t row = 0; row < rows; ++row) {
    const double* x = values(args.in[0]) + row * n;
    const double* g = values(args.in[2]) + row * n;
    const auto gamma = [&](std::int64_t j) { return args.given(1) ? values(args.in[1])[j] : 1.0; };
    const double r = reciprocal_rms(x, n, args.attrs.real("eps"));
    double mean = 0;
    for (std::int64_t j = 0; j < n; ++j) mean += g[j] * gamma(j) * x[j] * r / static_cast<double>(n);
    for (std::int64_t j = 0; j < n; ++j) {
      values(dx)[row * n + j] = r * (g[j] * gamma(j) - x[j] * r * mean);
      if (parameters) values(dgamma)[j] += g[j] * x[j] * r;
    }
  }
  return {dx, dgamma};
}

std::vector<Sample> backward_samples(DType dtype) {
  return norm_tools::backward_samples(samples(dtype), dtype, 1020, 3, 0);
}

std::vector<Refusal> backward_refuses() {
  const Tensor x = Tensor::ones({4, 3});
  return {{{x, {}, Tensor::ones({3, 4})}, {}, "rms_norm_backward: g must be [4, 3], it is [3, 4]"},
          {{x, Tensor::ones({4}), x}, {}, "gamma must be [3], it is [4]"},
          {{x, {}, x}, {{"eps", -1.0}}, "eps must not be negative"},
          {{Tensor::ones({4, 3}, DType::i64), {}, x}, {}, "must be f32 or f64"}};
}

std::vector<Symmetry> backward_symmetries(const Sample& sample) {
  std::vector<Leg> columns = {in_leg(0, -1), in_leg(1, -1), in_leg(2, -1), out_leg(0, -1)};
  if (norm_tools::gives_parameters(sample)) columns.push_back(out_leg(1, -1));
  return norm_tools::symmetries(sample, sample.in[0].rank() - 1, "rows, axis", {0, 2}, "columns", std::move(columns),
                                norm_tools::Mixed::along);
}

} // namespace

constinit const OpDef rms_norm_op = row({
    .name = "rms_norm",
    .math = "y = x / sqrt(mean(x^2) + eps) * gamma over the last axis",
    .inputs = {{"x"}, {"gamma", true}},
    .attributes = {attr_real("eps", 1e-6, "added to the mean square")},
    .infer = infer,
    .cpu = forward,
    .exact = exact_forward,
    .cuda =
        [](const OpArgs& args, std::span<Tensor> out) {
          norm_tools::forward_on_device(args, false, args.given(1) ? args.in[1] : Tensor{}, {}, out[0]);
        },
    .saves = saves::in(0) | saves::in(1),
    .vjp = rule,
    .reference = reference,
    .samples = samples,
    .refuses = refuses,
    .symmetries = symmetries,
    .work = elementwise_work<5>,
});

constinit const OpDef rms_norm_backward_op = row({
    .name = "rms_norm_backward",
    .math =
        "dx = r (gh - xh mean(gh xh)), dgamma = sum_rows g xh; gh = g gamma, xh = x r, r = (mean(x^2) + eps)^(-1/2)",
    .inputs = {{"x"}, {"gamma", true}, {"g"}},
    .outputs = {"dx", "dgamma"},
    .attributes = {attr_real("eps", 1e-6, "added to the mean square"),
                   attr_bool("parameters", true, "give dgamma; otherwise it is empty")},
    .infer = backward_infer,
    .cpu = backward,
    .exact = exact_backward,
    .cuda = [](const OpArgs& args, std::span<Tensor> out) { norm_tools::backward_on_device(args, false, out); },
    .saves = saves::in(0) | saves::in(1) | saves::in(2),
    .vjp = backward_rule,
    .reference = backward_reference,
    .samples = backward_samples,
    .refuses = backward_refuses,
    .symmetries = backward_symmetries,
    .work = elementwise_work<12>,
});

Tensor rms_norm(const Tensor& x, const Tensor& gamma, double eps) {
  return call1(rms_norm_op, {x, gamma}, {{"eps", eps}});
}

} // namespace eg
