// y_j = exp(x_j) / sum_k exp(x_k) along one axis, and its backward op.

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
  run(args, out[0], Kernels<float>::softmax, Kernels<double>::softmax);
}

void backward(const OpArgs& args, std::span<Tensor> out) {
  run(args, out[0], Kernels<float>::softmax_backward, Kernels<double>::softmax_backward);
}

/// exp(x - max) / sum, made of operations: an exact sum and no online maximum.
void exact_forward(const OpArgs& args, std::span<Tensor> out) {
  const Tensor& x = args.in[0];
  if (x.numel() == 0) return;
  const int axis = axis_of(args);
  const Tensor e = exp(x - max(x, axis, true));
  assign(out[0], e / sum(e, {axis}, true));
}

void exact_backward(const OpArgs& args, std::span<Tensor> out) {
  const Tensor &y = args.in[0], &g = args.in[1];
  assign(out[0], y * (g - sum(y * g, {axis_of(args)}, true)));
}

Tensor backward_call(const VjpArgs& args, const Tensor& y, const Tensor& g) {
  return call1(softmax_backward_op, {y, g}, {{"axis", args.attrs.integer("axis")}});
}

Gradients forward_rule(const VjpArgs& args) {
  if (!args.wants(0)) return {{}};
  return {backward_call(args, args.out[0], args.grad[0])};
}

// gx = y (g - <y, g>). Along a cotangent a, with s = <a, y>:
//   gbar = y (a - s), which is softmax_backward(y, a);   ybar = a (g - <y, g>) - g s
Gradients backward_rule(const VjpArgs& args) {
  const Tensor& y = args.in[0];
  const Tensor& g = args.in[1];
  const Tensor& a = args.grad[0];
  const std::vector<std::int64_t> axis = {args.attrs.integer("axis")};
  Gradients gradients(2);
  if (args.wants(0)) gradients[0] = a * (g - sum(y * g, axis, true)) - g * sum(a * y, axis, true);
  if (args.wants(1)) gradients[1] = backward_call(args, y, a);
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
    for (std::int64_t j = 0; j < n; ++j) y[first + j * step] = std::exp(x[first + j * step] - largest) / total;
  });
  return {result};
}

std::vector<Tensor> backward_reference(const OpArgs& args) {
  Tensor result = reference_output(args.in[0].shape());
  const double* y = values(args.in[0]);
  const double* g = values(args.in[1]);
  double* gx = values(result);
  for_each_line(args, [&](std::int64_t first, std::int64_t step, std::int64_t n) {
    double inner = 0;
    for (std::int64_t j = 0; j < n; ++j) inner += y[first + j * step] * g[first + j * step];
    for (std::int64_t j = 0; j < n; ++j) gx[first + j * step] = y[first + j * step] * (g[first + j * step] - inner);
  });
  return {result};
}

std::vector<Sample> forward_samples(DType dtype) {
  return samples(dtype, 1, [](const Tensor& x) { return x; });
}

std::vector<Sample> backward_samples(DType dtype) {
  return samples(dtype, 2, [](const Tensor& x) { return softmax(x); });
}

} // namespace

constinit const OpDef softmax_op = row({
    .name = "softmax",
    .math = "y_j = exp(x_j) / sum_k exp(x_k) along one axis",
    .inputs = {{"x"}},
    .attributes = {attr_int("axis", -1, "the axis along which y sums to 1")},
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

constinit const OpDef softmax_backward_op = row({
    .name = "softmax_backward",
    .math = "gx = y (g - sum_k y_k g_k) along one axis",
    .inputs = {{"y"}, {"g"}},
    .outputs = {"gx"},
    .attributes = {attr_int("axis", -1, "the axis of the softmax")},
    .infer = infer,
    .cpu = backward,
    .exact = exact_backward,
    .saves = saves::in(0) | saves::in(1),
    .vjp = backward_rule,
    .reference = backward_reference,
    .samples = backward_samples,
    .refuses = refuses<2>,
    .symmetries = symmetries,
    .work = elementwise_work<4>,
});

Tensor softmax(const Tensor& x, int axis) { return call1(softmax_op, {x}, {{"axis", std::int64_t{axis}}}); }

} // namespace eg
