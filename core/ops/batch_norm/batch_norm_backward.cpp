// The gradients of batch_norm's y. Statistics are taken again, so that the tape keeps x and gamma alone.
//
// With xh = (x - mean) rstd and means over all axes but the channels:
//   dx = gamma rstd (g - mean(g) - xh mean(g xh)),   dgamma = sum g xh,   dbeta = sum g.

#include "core/call.h"
#include "core/device/module.h"
#include "core/ops.h"
#include "core/ops/batch_norm/channels.h"
#include "core/ops/list.h"
#include "core/ops/norm_tools.h"

#include <cmath>
#include <utility>

namespace eg {
namespace {

using namespace batch_norm_parts;
using norm_tools::beside;
using norm_tools::other_axes;

std::vector<TensorSpec> infer(const OpArgs& args) {
  check(args, {1});
  const Shape& shape = args.in[0].shape();
  check_shape(args, 2, shape);
  const DType dtype = args.in[0].dtype();
  const Shape parameter = {args.attrs.flag("parameters") ? shape[1] : 0};
  return {{shape, dtype}, {parameter, dtype}, {parameter, dtype}};
}

template <class T> void run(const OpArgs& args, std::span<Tensor> out, bool exact) {
  const Tensor x = packed(args.in[0]), g = packed(args.in[2]);
  const Tensor gamma = args.given(1) ? packed(args.in[1]) : Tensor{};
  const bool parameters = args.attrs.flag("parameters");
  if (x.numel() == 0) {
    for (Tensor& t : out) t.fill(0.0);
    return;
  }
  const Channels extents(x.shape());
  const auto count = static_cast<double>(extents.count());
  const T *const from = x.data<T>(), *const cotangent = g.data<T>();
  T* const dx = out[0].mutable_data<T>("batch_norm_backward");
  T* const dgamma = out[1].mutable_data<T>("batch_norm_backward");
  T* const dbeta = out[2].mutable_data<T>("batch_norm_backward");
  const double eps = args.attrs.real("eps");
  for_each_block(extents, [&](std::int64_t first, std::int64_t last) {
    const ChannelSums sums(extents, first, last, exact);
    const Statistics<T> s(extents, sums, from, first, eps);
    std::vector<double> rstd(s.mean.size());
    for (std::size_t c = 0; c < rstd.size(); ++c) rstd[c] = 1.0 / s.deviation[c];
    const double *const middle = s.mean.data(), *const factor = rstd.data();
    const auto total = sums.of([=](std::int64_t, std::int64_t i) { return static_cast<double>(cotangent[i]); });
    const auto inner = sums.of([=](std::int64_t c, std::int64_t i) {
      return static_cast<double>(cotangent[i]) *
             ((static_cast<double>(from[i]) - middle[c - first]) * factor[c - first]);
    });
    for (std::int64_t c = first; parameters && c < last; ++c) {
      dgamma[c] = static_cast<T>(inner[s.at(c)]);
      dbeta[c] = static_cast<T>(total[s.at(c)]);
    }
    for_each_run(extents, first, last, [&](std::int64_t c, std::int64_t begin) {
      const double weight = gamma.defined() ? static_cast<double>(gamma.data<T>()[c]) : 1.0;
      const double centre = s.mean[s.at(c)], r = rstd[s.at(c)], times = weight * r;
      const double mean_g = total[s.at(c)] / count, mean_inner = inner[s.at(c)] / count;
      for (std::int64_t i = begin; i < begin + extents.inner; ++i) {
        const double xh = (static_cast<double>(from[i]) - centre) * r;
        dx[i] = static_cast<T>(times * (static_cast<double>(cotangent[i]) - mean_g - xh * mean_inner));
      }
    });
  });
}

template <bool exact> void kernel(const OpArgs& args, std::span<Tensor> out) {
  visit_floating(out[0].dtype(), [&]<class T>() { run<T>(args, out, exact); });
}

void gradients_on_device(const OpArgs& args, std::span<Tensor> out) {
  const Tensor x = packed(args.in[0]), g = packed(args.in[2]);
  if (x.numel() == 0) {
    for (Tensor& t : out) t.fill(0.0);
    return;
  }
  const Tensor gamma = args.given(1) ? packed(args.in[1]) : Tensor{};
  const bool parameters = args.attrs.flag("parameters");
  device::BatchNormJob job = device_job(args);
  job.x = x.device_bytes();
  job.gamma = gamma.defined() ? gamma.device_bytes() : nullptr;
  job.g = g.device_bytes();
  job.y = out[0].mutable_device_bytes("batch_norm_backward");
  job.dgamma = parameters ? out[1].mutable_device_bytes("batch_norm_backward") : nullptr;
  job.dbeta = parameters ? out[2].mutable_device_bytes("batch_norm_backward") : nullptr;
  device::launch(x.device(), "batch_norm_backward", &device::Table::batch_norm, job);
}

/// J u = rstd (u - mean(u) - xh mean(u xh)): the symmetric Jacobian of the normalisation, applied to u.
Tensor jacobian(const Tensor& x, const Tensor& u, double eps) {
  return call(batch_norm_backward_op, {x, {}, u}, {{"eps", eps}, {"parameters", false}})[0];
}

// As for layer_norm. Cotangents a, b, c of dx, dgamma, dbeta:
//   gbar = gamma J a + b xh + c,   gammabar = sum of g J a,
//   xbar = J u - rstd xh mean(a J(gamma g))   with   u = -rstd gamma (a mean(g xh) + g mean(a xh)) + b g
Gradients rule(const VjpArgs& args) {
  const Tensor &x = args.in[0], &g = args.in[2], &a = args.grad[0];
  Gradients gradients(3);
  if (x.numel() == 0) return gradients;
  const Tensor gamma = args.given(1) ? beside(args.in[1], x) : Tensor{};
  const double eps = args.attrs.real("eps");
  const bool parameters = args.attrs.flag("parameters");
  const Tensor b = parameters && args.grad[1].defined() ? beside(args.grad[1], x) : Tensor{};
  const Tensor c = parameters && args.grad[2].defined() ? beside(args.grad[2], x) : Tensor{};
  const std::vector<std::int64_t> axes = other_axes(x);
  const auto average = [&](const Tensor& u) { return mean(u, axes, true); };
  const Tensor centred = center(x, axes);
  const Tensor rstd = norm_tools::reciprocal_deviation(centred, axes, eps);
  const Tensor xh = centred * rstd;
  const Tensor ja = a.defined() && (args.wants(1) || args.wants(2)) ? jacobian(x, a, eps) : Tensor{};
  if (args.wants(0)) {
    Tensor u = b.defined() ? b * g : Tensor{};
    if (a.defined()) {
      const Tensor gh = gamma.defined() ? g * gamma : g;
      add_term(u, -(rstd * (a * average(gh * xh) + gh * average(a * xh))));
      gradients[0] = -(rstd * xh * average(a * jacobian(x, gh, eps)));
    }
    if (u.defined()) add_term(gradients[0], jacobian(x, u, eps));
  }
  if (args.wants(1) && ja.defined()) gradients[1] = sum(g * ja, axes);
  if (args.wants(2)) {
    if (ja.defined()) gradients[2] = gamma.defined() ? gamma * ja : ja;
    if (b.defined()) add_term(gradients[2], b * xh);
    if (c.defined()) add_term(gradients[2], expand(c, x.shape()));
  }
  return gradients;
}

std::vector<Tensor> reference(const OpArgs& args) {
  const Channels e(args.in[0].shape());
  const double *x = values(args.in[0]), *g = values(args.in[2]);
  const bool parameters = args.attrs.flag("parameters");
  const auto count = static_cast<double>(e.count());
  Tensor dx = reference_output(args.in[0].shape());
  Tensor dgamma = reference_output({parameters ? e.channels : 0}), dbeta = reference_output(dgamma.shape());
  for (std::int64_t c = 0; c < e.channels; ++c) {
    const auto each = [&](auto&& visit) {
      for (std::int64_t n = 0; n < e.samples; ++n)
        for (std::int64_t j = 0; j < e.inner; ++j) visit((n * e.channels + c) * e.inner + j);
    };
    double mean = 0, variance = 0, total = 0, inner = 0;
    each([&](std::int64_t i) { mean += x[i] / count; });
    each([&](std::int64_t i) { variance += (x[i] - mean) * (x[i] - mean) / count; });
    const double rstd = 1.0 / std::sqrt(variance + args.attrs.real("eps"));
    each([&](std::int64_t i) {
      total += g[i];
      inner += g[i] * (x[i] - mean) * rstd;
    });
    const double gamma = args.given(1) ? values(args.in[1])[c] : 1.0;
    each([&](std::int64_t i) {
      values(dx)[i] = gamma * rstd * (g[i] - total / count - (x[i] - mean) * rstd * inner / count);
    });
    if (!parameters) continue;
    values(dgamma)[c] = inner;
    values(dbeta)[c] = total;
  }
  return {dx, dgamma, dbeta};
}

std::vector<Sample> samples(DType dtype) {
  std::vector<Sample> all = norm_tools::backward_samples(batch_norm_op.samples(dtype), dtype, 1500, 6, 1);
  all.push_back({{sample_normal({0, 3}, dtype, 1520), {}, sample_normal({0, 3}, dtype, 1521)}, {}, "no samples"});
  return all;
}

std::vector<Refusal> refuses() {
  const Tensor x = Tensor::ones({4, 3});
  return {{{x, {}, Tensor::ones({3, 4})}, {}, "batch_norm_backward: g must be [4, 3], it is [3, 4]"},
          {{x, Tensor::ones({4}), x}, {}, "gamma must be [3], it is [4]"},
          {{x, {}, x}, {{"eps", -1.0}}, "eps must not be negative"},
          {{Tensor::ones({3}), {}, Tensor::ones({3})}, {}, "at least 2 axes"}};
}

std::vector<Symmetry> symmetries(const Sample& sample) {
  std::vector<Leg> channels = {in_leg(0, 1), in_leg(1, 0), in_leg(2, 1), out_leg(0, 1)};
  if (norm_tools::gives_parameters(sample)) channels.insert(channels.end(), {out_leg(1, 0), out_leg(2, 0)});
  return norm_tools::symmetries(sample, 1, "axis", {0, 2}, "channels", std::move(channels), norm_tools::Mixed::others);
}

} // namespace

constinit const OpDef batch_norm_backward_op = row({
    .name = "batch_norm_backward",
    .math = "dx = gamma rstd (g - mean(g) - xh mean(g xh)), dgamma = sum g xh, dbeta = sum g; xh = (x - mean(x)) rstd, "
            "over all axes but 1",
    .inputs = {{"x"}, {"gamma", true}, {"g"}},
    .outputs = {"dx", "dgamma", "dbeta"},
    .attributes = {attr_real("eps", 1e-5, "added to the variance"),
                   attr_bool("parameters", true, "give dgamma and dbeta; otherwise they are empty")},
    .infer = infer,
    .cpu = kernel<false>,
    .exact = kernel<true>,
    .cuda = gradients_on_device,
    .saves = saves::in(0) | saves::in(1) | saves::in(2),
    .vjp = rule,
    .reference = reference,
    .samples = samples,
    .refuses = refuses,
    .symmetries = symmetries,
    .work = elementwise_work<16>,
});

} // namespace eg
