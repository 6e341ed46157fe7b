// y_j = x_j - log sum_k exp(x_k) along one axis, and its backward op. The kernels lie beside those of softmax.

#include "core/call.h"
#include "core/ops.h"
#include "core/ops/list.h"
#include "core/ops/softmax/rows_tools.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace eg {
namespace {

using namespace softmax_kernels;

void forward(const OpArgs& args, std::span<Tensor> out) {
  run(args, out[0], Kernels<float>::log_softmax, Kernels<double>::log_softmax);
}

void backward(const OpArgs& args, std::span<Tensor> out) {
  run(args, out[0], Kernels<float>::log_softmax_backward, Kernels<double>::log_softmax_backward);
}

/// x - max - log sum exp(x - max), made of operations.
void exact_forward(const OpArgs& args, std::span<Tensor> out) {
  const Tensor& x = args.in[0];
  if (x.numel() == 0) return;
  const int axis = axis_of(args);
  const Tensor shifted = x - max(x, axis, true);
  assign(out[0], shifted - log(sum(exp(shifted), {axis}, true)));
}

void exact_backward(const OpArgs& args, std::span<Tensor> out) {
  const Tensor &y = args.in[0], &g = args.in[1];
  assign(out[0], g - exp(y) * sum(g, {axis_of(args)}, true));
}

Gradients forward_rule(const VjpArgs& args) {
  if (!args.wants(0)) return {{}};
  return {call1(log_softmax_backward_op, {args.out[0], args.grad[0]}, {{"axis", args.attrs.integer("axis")}})};
}

// gx = g - p sum(g) with p = exp(y). Along a cotangent a:  gbar = a - <a, p>,  ybar = -a p sum(g)
Gradients backward_rule(const VjpArgs& args) {
  const Tensor& g = args.in[1];
  const Tensor& a = args.grad[0];
  const std::vector<std::int64_t> axis = {args.attrs.integer("axis")};
  const Tensor ap = a * exp(args.in[0]);
  Gradients gradients(2);
  if (args.wants(0)) gradients[0] = -(ap * sum(g, axis, true));
  if (args.wants(1)) gradients[1] = a - sum(ap, axis, true);
  return gradients;
}

std::vector<Tensor> forward_reference(const OpArgs& args) {
  Tensor result = reference_output(args.in[0].shape());
  const double* x = values(args.in[0]);
  double* y = values(result);
  for_each_line(args, [&](std::int64_t first, std::int64_t step, std::int64_t n) {
    double largest = -std::numeric_limits<double>::infinity();
    for (std::int64_t j = 0; j < n; ++j) largest = std::max(largest, x[first + j * step]);
    double total = 0;
    for (std::int64_t j = 0; j < n; ++j) total += std::exp(x[first + j * step] - largest);
    for (std::int64_t j = 0; j < n; ++j) y[first + j * step] = x[first + j * step] - largest - std::log(total);
  });
  return {result};
}

std::vector<Tensor> backward_reference(const OpArgs& args) {
  Tensor result = reference_output(args.in[0].shape());
  const double* y = values(args.in[0]);
  const double* g = values(args.in[1]);
  double* gx = values(result);
  for_each_line(args, [&](std::int64_t first, std::int64_t step, std::int64_t n) {
    double total = 0;
    for (std::int64_t j = 0; j < n; ++j) total += g[first + j * step];
    for (std::int64_t j = 0; j < n; ++j)
      gx[first + j * step] = g[first + j * step] - std::exp(y[first + j * step]) * total;
  });
  return {result};
}

std::vector<Sample> forward_samples(DType dtype) {
  return samples(dtype, 1, [](const Tensor& x) { return x; });
}

std::vector<Sample> backward_samples(DType dtype) {
  return samples(dtype, 2, [](const Tensor& x) { return log_softmax(x); });
}

} // namespace

constinit const OpDef log_softmax_op = row({
    .name = "log_softmax",
    .math = "y_j = x_j - log sum_k exp(x_k) along one axis",
    .inputs = {{"x"}},
    .attributes = {attr_int("axis", -1, "the axis along which exp(y) sums to 1")},
    .infer = infer,
    .cpu = forward,
    .exact = exact_forward,
    .saves = saves::out(0),
    .vjp = forward_rule,
    .reference = forward_reference,
    .samples = forward_samples,
    .refuses = refuses<1>,
    .symmetries = symmetries,
    .work = elementwise_work<12>,
});

constinit const OpDef log_softmax_backward_op = row({
    .name = "log_softmax_backward",
    .math = "gx_j = g_j - exp(y_j) sum_k g_k along one axis",
    .inputs = {{"y"}, {"g"}},
    .outputs = {"gx"},
    .attributes = {attr_int("axis", -1, "the axis of the log_softmax")},
    .infer = infer,
    .cpu = backward,
    .exact = exact_backward,
    .saves = saves::in(0) | saves::in(1),
    .vjp = backward_rule,
    .reference = backward_reference,
    .samples = backward_samples,
    .refuses = refuses<2>,
    .symmetries = symmetries,
    .work = elementwise_work<12>,
});

Tensor log_softmax(const Tensor& x, int axis) { return call1(log_softmax_op, {x}, {{"axis", std::int64_t{axis}}}); }

} // namespace eg
