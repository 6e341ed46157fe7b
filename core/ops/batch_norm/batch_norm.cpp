// Batch normalisation (Ioffe, Szegedy, 2015) by the statistics of the batch, and by given ones.

#include "core/call.h"
#include "core/device/module.h"
#include "core/ops.h"
#include "core/ops/batch_norm/channels.h"
#include "core/ops/list.h"
#include "core/ops/norm_tools.h"
#include "core/ops/pointwise/kernels.h"
#include "core/ops/pointwise/ternary.h"

#include <cmath>
#include <fmt/format.h>

namespace eg {
namespace batch_norm_parts {

void check(const OpArgs& args, std::initializer_list<std::size_t> parameters) {
  check_all_floating(args);
  check_rank_at_least(args, 0, 2);
  const Shape& shape = args.in[0].shape();
  for (const std::size_t i : parameters)
    if (args.given(i)) check_shape(args, i, {shape[1]});
  norm_tools::check_eps(args);
}

device::BatchNormJob device_job(const OpArgs& args) {
  const Channels extents(args.in[0].shape());
  device::BatchNormJob job{};
  job.type = args.in[0].dtype();
  job.samples = extents.samples;
  job.channels = extents.channels;
  job.inner = extents.inner;
  job.eps = args.attrs.real("eps");
  return job;
}

} // namespace batch_norm_parts

namespace {

using namespace batch_norm_parts;
using norm_tools::beside;
using norm_tools::other_axes;

std::vector<TensorSpec> infer(const OpArgs& args) {
  check(args, {1, 2});
  const Shape& shape = args.in[0].shape();
  if (shape[1] > 0 && shape.numel() == 0)
    throw ShapeError(fmt::format("batch_norm: there are no values to take statistics of: x is {}", shape.str()));
  const DType dtype = args.in[0].dtype();
  return {{shape, dtype}, {Shape{shape[1]}, dtype}, {Shape{shape[1]}, dtype}};
}

template <class T> void forward_as(const OpArgs& args, std::span<Tensor> out, bool exact) {
  const Tensor x = packed(args.in[0]);
  const Tensor gamma = args.given(1) ? packed(args.in[1]) : Tensor{};
  const Tensor beta = args.given(2) ? packed(args.in[2]) : Tensor{};
  const Channels extents(x.shape());
  const T* const from = x.data<T>();
  T* const y = out[0].mutable_data<T>("batch_norm");
  T* const mean = out[1].mutable_data<T>("batch_norm");
  T* const variance = out[2].mutable_data<T>("batch_norm");
  const double eps = args.attrs.real("eps");
  for_each_block(extents, [&](std::int64_t first, std::int64_t last) {
    const ChannelSums sums(extents, first, last, exact);
    const Statistics<T> s(extents, sums, from, first, eps);
    std::vector<double> factor(s.mean.size()), shift(s.mean.size());
    for (std::int64_t c = first; c < last; ++c) {
      mean[c] = static_cast<T>(s.mean[s.at(c)]);
      variance[c] = static_cast<T>(s.variance[s.at(c)]);
      factor[s.at(c)] = (gamma.defined() ? static_cast<double>(gamma.data<T>()[c]) : 1.0) / s.deviation[s.at(c)];
      shift[s.at(c)] = beta.defined() ? static_cast<double>(beta.data<T>()[c]) : 0.0;
    }
    for_each_run(extents, first, last, [&](std::int64_t c, std::int64_t begin) {
      const double middle = s.mean[s.at(c)], times = factor[s.at(c)], plus = shift[s.at(c)];
      for (std::int64_t i = begin; i < begin + extents.inner; ++i)
        y[i] = static_cast<T>((static_cast<double>(from[i]) - middle) * times + plus);
    });
  });
}

template <bool exact> void forward(const OpArgs& args, std::span<Tensor> out) {
  visit_floating(out[0].dtype(), [&]<class T>() { forward_as<T>(args, out, exact); });
}

void run_on_device(const OpArgs& args, std::span<Tensor> out) {
  if (out[0].numel() == 0) return; // no channels
  const Tensor x = packed(args.in[0]);
  const Tensor gamma = args.given(1) ? packed(args.in[1]) : Tensor{};
  const Tensor beta = args.given(2) ? packed(args.in[2]) : Tensor{};
  device::BatchNormJob job = device_job(args);
  job.x = x.device_bytes();
  job.gamma = gamma.defined() ? gamma.device_bytes() : nullptr;
  job.beta = beta.defined() ? beta.device_bytes() : nullptr;
  job.y = out[0].mutable_device_bytes("batch_norm");
  job.mean = out[1].mutable_device_bytes("batch_norm");
  job.variance = out[2].mutable_device_bytes("batch_norm");
  device::launch(x.device(), "batch_norm", &device::Table::batch_norm, job);
}

// Besides y there are the mean, whose derivative is 1/m, and the variance, whose is 2 (x - mean) / m.
Gradients rule(const VjpArgs& args) {
  const Tensor& x = args.in[0];
  Gradients gradients(3);
  if (args.grad[0].defined()) {
    const std::vector<Tensor> all =
        call(batch_norm_backward_op, {x, args.given(1) ? args.in[1] : Tensor{}, args.grad[0]},
             {{"eps", args.attrs.real("eps")}, {"parameters", args.wants(1) || args.wants(2)}});
    for (std::size_t i = 0; i < 3; ++i)
      if (args.wants(i)) gradients[i] = all[i];
  }
  if (!args.wants(0) || x.numel() == 0) return gradients;
  const double per_value = 1.0 / static_cast<double>(Channels(x.shape()).count());
  if (args.grad[1].defined()) add_term(gradients[0], expand(beside(args.grad[1], x) * per_value, x.shape()));
  if (args.grad[2].defined())
    add_term(gradients[0], center(x, other_axes(x)) * (beside(args.grad[2], x) * (2.0 * per_value)));
  return gradients;
}

std::vector<Tensor> reference(const OpArgs& args) {
  const Channels e(args.in[0].shape());
  Tensor y = reference_output(args.in[0].shape());
  Tensor mean = reference_output({e.channels}), variance = reference_output({e.channels});
  const double* x = values(args.in[0]);
  const auto channel = [&](std::int64_t i) { return i / e.inner % e.channels; };
  const auto count = static_cast<double>(e.count());
  for (std::int64_t i = 0; i < y.numel(); ++i) values(mean)[channel(i)] += x[i] / count;
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    const double centred = x[i] - values(mean)[channel(i)];
    values(variance)[channel(i)] += centred * centred / count;
  }
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    const std::int64_t c = channel(i);
    const double xh = (x[i] - values(mean)[c]) / std::sqrt(values(variance)[c] + args.attrs.real("eps"));
    values(y)[i] = xh * (args.given(1) ? values(args.in[1])[c] : 1.0) + (args.given(2) ? values(args.in[2])[c] : 0.0);
  }
  return {y, mean, variance};
}

std::vector<Sample> samples(DType dtype) {
  const auto x = [&](const Shape& shape, std::uint64_t tag) {
    return sample_normal(shape, dtype, 1400 + tag, 2.0, 0.5);
  };
  const auto gamma = [&](std::int64_t n, std::uint64_t tag) { return sample_normal({n}, dtype, 1400 + tag, 0.5, 1.5); };
  return {{{x({7, 5}, 1), gamma(5, 2), gamma(5, 3)}, {}, "vectors"},
          {{x({3, 4, 9}, 4), gamma(4, 5), gamma(4, 6)}, {{"eps", 0.1}}, "sequences, another eps"},
          {{x({2, 3, 5, 4}, 7), gamma(3, 8), gamma(3, 9)}, {}, "images"},
          {{x({5, 33}, 10)}, {}, "33 channels, neither gamma nor beta"},
          {{x({4, 3}, 11), gamma(3, 12)}, {}, "gamma alone"},
          {{x({4, 3}, 13), {}, gamma(3, 14)}, {}, "beta alone"},
          {{scattered(x({4, 6, 3}, 15)), scattered(gamma(6, 16)), scattered(gamma(6, 17))}, {}, "strided views"},
          {{x({1, 3}, 18), gamma(3, 19), gamma(3, 20)}, {}, "one value a channel"},
          {{x({3, 0}, 21), gamma(0, 22), gamma(0, 23)}, {}, "no channels"}};
}

std::vector<Refusal> refuses() {
  const Tensor x = Tensor::ones({4, 3});
  return {{{x, Tensor::ones({4})}, {}, "batch_norm: gamma must be [3], it is [4]"},
          {{x, Tensor::ones({3}), Tensor::ones({1, 3})}, {}, "batch_norm: beta must be [3], it is [1, 3]"},
          {{Tensor::ones({0, 3})}, {}, "there are no values to take statistics of: x is [0, 3]"},
          {{Tensor::ones({3})}, {}, "at least 2 axes"},
          {{Tensor::ones({4, 3}, DType::i64)}, {}, "must be f32 or f64"},
          {{x}, {{"eps", -1.0}}, "eps must not be negative"}};
}

std::vector<Symmetry> symmetries(const Sample& sample) {
  return norm_tools::symmetries(sample, 1, "axis", {0}, "channels",
                                {in_leg(0, 1), in_leg(1, 0), in_leg(2, 0), out_leg(0, 1), out_leg(1, 0), out_leg(2, 0)},
                                norm_tools::Mixed::others);
}

// --- by given statistics ---

std::vector<TensorSpec> inference_infer(const OpArgs& args) {
  check(args, {1, 2, 3, 4});
  return {{args.in[0].shape(), args.in[0].dtype()}};
}

/// (x - mean) factor + beta for each channel in one pass, with the bits of these operations one after another.
Tensor scaled_channels(const Tensor& any, const Tensor& mean, const Tensor& factor, const Tensor& beta) {
  const Tensor x = packed(any);
  const Tensor of_channel[] = {packed(mean), packed(factor), beta.defined() ? packed(beta) : Tensor{}};
  Tensor y = Tensor::empty(x.shape(), x.dtype());
  const Channels extents(x.shape());
  visit_floating(x.dtype(), [&]<class T>() {
    using pointwise::Ternary;
    const auto f = pointwise::kernel<T>(beta.defined() ? Ternary::normalise_shift : Ternary::normalise);
    const T *const from = x.data<T>(), *const means = of_channel[0].data<T>(), *const factors = of_channel[1].data<T>();
    T* const to = y.mutable_data<T>("batch_norm_inference");
    const std::int64_t grain = std::max<std::int64_t>(1, pointwise::chunk / std::max<std::int64_t>(extents.inner, 1));
    parallel::for_each(extents.samples * extents.channels, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t run = begin; run < end; ++run) {
        const std::int64_t c = run % extents.channels, first = run * extents.inner;
        const double shift = beta.defined() ? static_cast<double>(of_channel[2].data<T>()[c]) : 0.0;
        f({from + first, true}, {means + c, false}, {factors + c, false}, to + first, extents.inner, shift);
      }
    });
  });
  return y;
}

std::vector<Tensor> inference_body(const OpArgs& args) {
  const Tensor& x = args.in[0];
  const Tensor rstd = rsqrt(args.in[2] + args.attrs.real("eps"));
  const Tensor factor = args.given(3) ? rstd * args.in[3] : rstd;
  if (may_fuse(args.in)) return {scaled_channels(x, args.in[1], factor, args.given(4) ? args.in[4] : Tensor{})};
  const Tensor y = (x - beside(args.in[1], x)) * beside(factor, x);
  return {args.given(4) ? y + beside(args.in[4], x) : y};
}

std::vector<Tensor> inference_reference(const OpArgs& args) {
  const Channels e(args.in[0].shape());
  Tensor y = reference_output(args.in[0].shape());
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    const std::int64_t c = i / e.inner % e.channels;
    const double xh =
        (values(args.in[0])[i] - values(args.in[1])[c]) / std::sqrt(values(args.in[2])[c] + args.attrs.real("eps"));
    values(y)[i] = xh * (args.given(3) ? values(args.in[3])[c] : 1.0) + (args.given(4) ? values(args.in[4])[c] : 0.0);
  }
  return {y};
}

std::vector<Sample> inference_samples(DType dtype) {
  std::vector<Sample> all;
  for (Sample& sample : samples(dtype)) {
    const std::int64_t channels = sample.in[0].shape()[1];
    std::vector<Tensor> in = {sample.in[0], sample_normal({channels}, dtype, 1450 + all.size()),
                              sample_uniform({channels}, dtype, 1470 + all.size(), 0.5, 2.0)};
    in.insert(in.end(), sample.in.begin() + 1, sample.in.end());
    sample.in = std::move(in);
    all.push_back(std::move(sample));
  }
  all.push_back({{sample_normal({0, 3}, dtype, 1490), all[4].in[1], all[4].in[2]}, {}, "no samples"});
  return all;
}

std::vector<Refusal> inference_refuses() {
  const Tensor x = Tensor::ones({4, 3}), c = Tensor::ones({3});
  return {{{x, Tensor::ones({4}), c}, {}, "batch_norm_inference: mean must be [3], it is [4]"},
          {{x, c, Tensor::ones({1, 3})}, {}, "batch_norm_inference: variance must be [3], it is [1, 3]"},
          {{x, c, c, Tensor::ones({4})}, {}, "gamma must be [3], it is [4]"},
          {{c, c, c}, {}, "at least 2 axes"},
          {{x, c, c}, {{"eps", -1.0}}, "eps must not be negative"}};
}

std::vector<Symmetry> inference_symmetries(const Sample& sample) {
  return norm_tools::symmetries(sample, 1, "axis", {0}, "channels",
                                {in_leg(0, 1), in_leg(1, 0), in_leg(2, 0), in_leg(3, 0), in_leg(4, 0), out_leg(0, 1)},
                                norm_tools::Mixed::nothing);
}

} // namespace

constinit const OpDef batch_norm_op = row({
    .name = "batch_norm",
    .math = "y = (x - mean) / sqrt(variance + eps) * gamma + beta for each channel (axis 1) over the other axes, "
            "variance = mean((x - mean)^2)",
    .inputs = {{"x"}, {"gamma", true}, {"beta", true}},
    .outputs = {"y", "mean", "variance"},
    .attributes = {attr_real("eps", 1e-5, "added to the variance")},
    .infer = infer,
    .cpu = forward<false>,
    .exact = forward<true>,
    .cuda = run_on_device,
    .saves = saves::in(0) | saves::in(1),
    .vjp = rule,
    .rounding = {.mean = Rounding::Mean::in_f64},
    .reference = reference,
    .samples = samples,
    .refuses = refuses,
    .symmetries = symmetries,
    .least_extents = {{"axis", 1, "no values have no statistics"}},
    .work = elementwise_work<8>,
});

constinit const OpDef batch_norm_inference_op = row({
    .name = "batch_norm_inference",
    .math = "y = (x - mean) / sqrt(variance + eps) * gamma + beta for each channel (axis 1), mean and variance given",
    .inputs = {{"x"}, {"mean"}, {"variance"}, {"gamma", true}, {"beta", true}},
    .attributes = {attr_real("eps", 1e-5, "added to the variance")},
    .infer = inference_infer,
    .body = inference_body,
    .reference = inference_reference,
    .samples = inference_samples,
    .refuses = inference_refuses,
    .symmetries = inference_symmetries,
    .work = elementwise_work<3>,
});

BatchNormResult batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double eps) {
  const std::vector<Tensor> out = call(batch_norm_op, {x, gamma, beta}, {{"eps", eps}});
  return {out[0], out[1], out[2]};
}

Tensor batch_norm_inference(const Tensor& x, const Tensor& mean, const Tensor& variance, const Tensor& gamma,
                            const Tensor& beta, double eps) {
  return call1(batch_norm_inference_op, {x, mean, variance, gamma, beta}, {{"eps", eps}});
}

} // namespace eg
