// y = (x - mean) rstd gamma + beta over the last axis, rstd = 1 / sqrt(var + eps).

#include "core/call.h"
#include "core/ops.h"
#include "core/ops/layer_norm/kernels.h"
#include "core/ops/list.h"
#include "core/ops/norm_tools.h"
#include "core/threads/parallel.h"

#include <cmath>

namespace eg {
namespace {

std::vector<TensorSpec> infer(const OpArgs& args) {
  norm_tools::check_rows(args, {1, 2});
  return {{args.in[0].shape(), args.in[0].dtype()}};
}

template <class T> void forward_as(const OpArgs& args, Tensor& out) {
  const Tensor x = packed(args.in[0]);
  const Tensor gamma = args.given(1) ? packed(args.in[1]) : Tensor{};
  const Tensor beta = args.given(2) ? packed(args.in[2]) : Tensor{};
  if (x.numel() == 0) return;
  const std::int64_t n = x.shape()[-1];
  const T* from = x.data<T>();
  T* to = out.mutable_data<T>("layer_norm");
  const auto eps = static_cast<T>(args.attrs.real("eps"));
  const std::int64_t grain = parallel::grain_for_bytes(n * static_cast<std::int64_t>(sizeof(T)));
  parallel::for_each(x.numel() / n, grain, [&](std::int64_t begin, std::int64_t end) {
    layer_norm_kernels::run(norm_kernels::Forward<T>{from + begin * n, gamma.defined() ? gamma.data<T>() : nullptr,
                                                     beta.defined() ? beta.data<T>() : nullptr, to + begin * n,
                                                     end - begin, n, eps});
  });
}

void forward(const OpArgs& args, std::span<Tensor> out) {
  visit_floating(out[0].dtype(), [&]<class T>() { forward_as<T>(args, out[0]); });
}

/// The formula made of operations, whose means are exact.
void exact_forward(const OpArgs& args, std::span<Tensor> out) {
  const Tensor& x = args.in[0];
  if (x.numel() == 0) return;
  const Tensor centred = center(x, {-1});
  Tensor y = centred * norm_tools::reciprocal_deviation(centred, {-1}, args.attrs.real("eps"));
  if (args.given(1)) y = y * args.in[1];
  if (args.given(2)) y = y + args.in[2];
  assign(out[0], y);
}

Gradients rule(const VjpArgs& args) {
  const Tensor gamma = args.given(1) ? args.in[1] : Tensor{};
  const bool parameters = args.wants(1) || args.wants(2);
  const std::vector<Tensor> all = call(layer_norm_backward_op, {args.in[0], gamma, args.grad[0]},
                                       {{"eps", args.attrs.real("eps")}, {"parameters", parameters}});
  Gradients gradients(3);
  for (std::size_t i = 0; i < 3; ++i)
    if (args.wants(i)) gradients[i] = all[i];
  return gradients;
}

std::vector<Tensor> reference(const OpArgs& args) {
  Tensor result = reference_output(args.in[0].shape());
  const std::int64_t n = args.in[0].shape()[-1];
  const std::int64_t rows = n > 0 ? args.in[0].numel() / n : 0;
  const double* x = values(args.in[0]);
  double* y = values(result);
  for (std::int64_t r = 0; r < rows; ++r, x += n, y += n) {
    double mean = 0;
    for (std::int64_t j = 0; j < n; ++j) mean += x[j] / static_cast<double>(n);
    double variance = 0;
    for (std::int64_t j = 0; j < n; ++j) variance += (x[j] - mean) * (x[j] - mean) / static_cast<double>(n);
    const double rstd = 1.0 / std::sqrt(variance + args.attrs.real("eps"));
    for (std::int64_t j = 0; j < n; ++j) {
      const double gamma = args.given(1) ? values(args.in[1])[j] : 1.0;
      const double beta = args.given(2) ? values(args.in[2])[j] : 0.0;
      y[j] = (x[j] - mean) * rstd * gamma + beta;
    }
  }
  return {result};
}

std::vector<Sample> samples(DType dtype) {
  const auto x = [&](const Shape& shape, std::uint64_t tag) { return sample_normal(shape, dtype, tag, 2.0, 0.5); };
  const auto gamma = [&](std::int64_t n, std::uint64_t tag) { return sample_normal({n}, dtype, tag, 0.5, 1.5); };
  const auto beta = [&](std::int64_t n, std::uint64_t tag) { return sample_normal({n}, dtype, tag, 1.0, -0.3); };
  return {{{x({5, 7}, 1), gamma(7, 2), beta(7, 3)}, {}, "gamma and beta"},
          {{x({3, 65}, 4), gamma(65, 5), beta(65, 6)}, {{"eps", 0.1}}, "65 features, another eps"},
          {{x({2, 3, 33}, 7)}, {}, "neither gamma nor beta"},
          {{x({4, 6}, 8), gamma(6, 9)}, {}, "gamma alone"},
          {{x({4, 6}, 10), {}, beta(6, 11)}, {}, "beta alone"},
          {{scattered(x({4, 9}, 12)), scattered(gamma(9, 13)), scattered(beta(9, 14))}, {}, "strided views"},
          {{x({4, 1}, 15), gamma(1, 16), beta(1, 17)}, {}, "one feature"},
          {{x({0, 5}, 18), gamma(5, 19), beta(5, 20)}, {}, "no rows"},
          {{x({3, 0}, 21), gamma(0, 22), beta(0, 23)}, {}, "no features"}};
}

std::vector<Refusal> refuses() {
  const Tensor x = Tensor::ones({4, 3});
  return {{{x, Tensor::ones({4})}, {}, "layer_norm: gamma must be [3], it is [4]"},
          {{x, Tensor::ones({3}), Tensor::ones({1, 3})}, {}, "layer_norm: beta must be [3], it is [1, 3]"},
          {{Tensor::ones({})}, {}, "at least 1 axes"},
          {{Tensor::ones({4, 3}, DType::i64)}, {}, "must be f32 or f64"},
          {{x, Tensor::ones({3}, DType::f64)}, {}, "different types"},
          {{x}, {{"eps", -1.0}}, "eps must not be negative"}};
}

std::vector<Symmetry> symmetries(const Sample& sample) {
  return norm_tools::symmetries(sample, sample.in[0].rank() - 1, "rows, axis", {0}, "columns",
                                {in_leg(0, -1), in_leg(1, -1), in_leg(2, -1), out_leg(0, -1)},
                                norm_tools::Mixed::along);
}

} // namespace

constinit const OpDef layer_norm_op = row({
    .name = "layer_norm",
    .math = "y = (x - mean(x)) / sqrt(var(x) + eps) * gamma + beta over the last axis, var = mean((x - mean(x))^2)",
    .inputs = {{"x"}, {"gamma", true}, {"beta", true}},
    .attributes = {attr_real("eps", 1e-5, "added to the variance")},
    .infer = infer,
    .cpu = forward,
    .exact = exact_forward,
    .cuda =
        [](const OpArgs& args, std::span<Tensor> out) {
          norm_tools::forward_on_device(args, true, args.given(1) ? args.in[1] : Tensor{},
                                        args.given(2) ? args.in[2] : Tensor{}, out[0]);
        },
    .cuda_exact = exact_forward,
    .saves = saves::in(0) | saves::in(1),
    .vjp = rule,
    .rounding = {.mean = Rounding::Mean::in_type},
    .reference = reference,
    .samples = samples,
    .refuses = refuses,
    .symmetries = symmetries,
    .work = elementwise_work<8>,
});

Tensor layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double eps) {
  return call1(layer_norm_op, {x, gamma, beta}, {{"eps", eps}});
}

} // namespace eg
