// y_j = x_j - log sum_k exp(x_k) along one axis, and its backward op. The kernels are beside those of softmax.

#include "core/call.h"
#include "core/ops.h"
#include "core/ops/list.h"
#include "core/ops/softmax/rows_tools.h"

#include <cmath>

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
  const std::vector<std::int64_t> axis = {args.attrs.integer("axis")};
  const Tensor shifted = x - amax(x, axis, true);
  assign(out[0], shifted - log(sum(exp(shifted), axis, true)));
}

void exact_backward(const OpArgs& args, std::span<Tensor> out) {
  const Tensor &y = args.in[0], &g = args.in[1];
  assign(out[0], g - exp(y) * sum(g, {args.attrs.integer("axis")}, true));
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
  const double* x = values(args.in[0]);
  return reference_by_lines(args, [&](const Line& line, double* y) {
    const ExpSum sum(x, line);
    for (std::int64_t j = 0; j < line.n; ++j) y[line[j]] = x[line[j]] - sum.largest - std::log(sum.total);
  });
}

std::vector<Tensor> backward_reference(const OpArgs& args) {
  const double *y = values(args.in[0]), *g = values(args.in[1]);
  return reference_by_lines(args, [&](const Line& line, double* gx) {
    double total = 0;
    for (std::int64_t j = 0; j < line.n; ++j) total += g[line[j]];
    for (std::int64_t j = 0; j < line.n; ++j) gx[line[j]] = g[line[j]] - std::exp(y[line[j]]) * total;
  });
}

} // namespace

constinit const OpDef log_softmax_op = forward_row({
    .name = "log_softmax",
    .math = "y_j = x_j - log sum_k exp(x_k) along one axis",
    .inputs = {{"x"}},
    .attributes = {attr_int("axis", -1, "the axis along which exp(y) sums to 1")},
    .cpu = forward,
    .exact = exact_forward,
    .cuda = run_on_device<device::SoftmaxKind::log_softmax>,
    .cuda_exact = exact_forward,
    .vjp = rule_of_forward<log_softmax_backward_op>,
    .reference = forward_reference,
});

constinit const OpDef log_softmax_backward_op = backward_row({
    .name = "log_softmax_backward",
    .math = "gx_j = g_j - exp(y_j) sum_k g_k along one axis",
    .inputs = {{"y"}, {"g"}},
    .attributes = {attr_int("axis", -1, "the axis of the log_softmax")},
    .cpu = backward,
    .exact = exact_backward,
    .cuda = run_on_device<device::SoftmaxKind::log_softmax_backward>,
    .cuda_exact = exact_backward,
    .vjp = backward_rule,
    .reference = backward_reference,
    .samples = samples_of_backward<log_softmax>,
    .work = elementwise_work<12>,
});

Tensor log_softmax(const Tensor& x, int axis) { return call1(log_softmax_op, {x}, {{"axis", std::int64_t{axis}}}); }

} // namespace eg
