// y_j = exp(x_j) / sum_k exp(x_k) along one axis, and its backward op.

#include "core/call.h"
#include "core/ops.h"
#include "core/ops/list.h"
#include "core/ops/softmax/rows_tools.h"

#include <cmath>

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
  const std::vector<std::int64_t> axis = {args.attrs.integer("axis")};
  const Tensor e = exp(x - amax(x, axis, true));
  assign(out[0], e / sum(e, axis, true));
}

void exact_backward(const OpArgs& args, std::span<Tensor> out) {
  const Tensor &y = args.in[0], &g = args.in[1];
  assign(out[0], y * (g - sum(y * g, {args.attrs.integer("axis")}, true)));
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
  if (args.wants(1)) gradients[1] = call1(softmax_backward_op, {y, a}, {{"axis", axis[0]}});
  return gradients;
}

std::vector<Tensor> forward_reference(const OpArgs& args) {
  const double* x = values(args.in[0]);
  return reference_by_lines(args, [&](const Line& line, double* y) {
    const ExpSum sum(x, line);
    for (std::int64_t j = 0; j < line.n; ++j) y[line[j]] = std::exp(x[line[j]] - sum.largest) / sum.total;
  });
}

std::vector<Tensor> backward_reference(const OpArgs& args) {
  const double *y = values(args.in[0]), *g = values(args.in[1]);
  return reference_by_lines(args, [&](const Line& line, double* gx) {
    double inner = 0;
    for (std::int64_t j = 0; j < line.n; ++j) inner += y[line[j]] * g[line[j]];
    for (std::int64_t j = 0; j < line.n; ++j) gx[line[j]] = y[line[j]] * (g[line[j]] - inner);
  });
}

} // namespace

constinit const OpDef softmax_op = forward_row({
    .name = "softmax",
    .math = "y_j = exp(x_j) / sum_k exp(x_k) along one axis",
    .inputs = {{"x"}},
    .attributes = {attr_int("axis", -1, "the axis along which y sums to 1")},
    .cpu = forward,
    .exact = exact_forward,
    .cuda = run_on_device<device::SoftmaxKind::softmax>,
    .cuda_exact = exact_forward,
    .vjp = rule_of_forward<softmax_backward_op>,
    .reference = forward_reference,
});

constinit const OpDef softmax_backward_op = backward_row({
    .name = "softmax_backward",
    .math = "gx = y (g - sum_k y_k g_k) along one axis",
    .inputs = {{"y"}, {"g"}},
    .attributes = {attr_int("axis", -1, "the axis of the softmax")},
    .cpu = backward,
    .exact = exact_backward,
    .cuda = run_on_device<device::SoftmaxKind::softmax_backward>,
    .cuda_exact = exact_backward,
    .vjp = backward_rule,
    .reference = backward_reference,
    .samples = samples_of_backward<softmax>,
    .work = elementwise_work<4>,
});

Tensor softmax(const Tensor& x, int axis) { return call1(softmax_op, {x}, {{"axis", std::int64_t{axis}}}); }

} // namespace eg
