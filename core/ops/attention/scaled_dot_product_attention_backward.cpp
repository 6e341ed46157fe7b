// The gradients of scaled_dot_product_attention. Scores are computed again from q, k and lse, tile by tile.

#include "core/call.h"
#include "core/ops.h"
#include "core/ops/attention/exact.h"
#include "core/ops/attention/separate.h"
#include "core/ops/list.h"
#include "core/ops/row_tools.h"

namespace eg {
namespace {

using namespace attention_parts;
using namespace separate_attention;
using attention_kernels::BackwardHead;
using attention_kernels::Extents;

std::vector<TensorSpec> infer(const OpArgs& args) {
  check_operands(args, backward_mask);
  const Shape y = output_shape(args);
  const Shape lse = leading_axes(y, 1);
  check_shape(args, 3, y);
  check_shape(args, 4, lse);
  check_shape(args, 5, y);
  if (args.given(6)) check_shape(args, 6, lse);
  check_mask_gradient(args, backward_mask);
  const DType dtype = args.in[0].dtype();
  return {{args.in[0].shape(), dtype},
          {args.in[1].shape(), dtype},
          {args.in[2].shape(), dtype},
          {wants_mask_gradient(args) ? args.in[backward_mask].shape() : Shape{0}, dtype}};
}

template <class T, class F>
void with_heads(const OpArgs& args, std::span<const Tensor> in, std::span<Tensor> out, F&& run) {
  const char* writer = "scaled_dot_product_attention_backward";
  const Extents e = extents(args);
  const auto matrices = [&](std::size_t i) { return Matrices<const T>(in[i], in[i].data<T>()); };
  const auto q = matrices(0), k = matrices(1), v = matrices(2), y = matrices(3), g = matrices(5);
  const Matrices<T> dq(out[0], out[0].mutable_data<T>(writer)), dk(out[1], out[1].mutable_data<T>(writer)),
      dv(out[2], out[2].mutable_data<T>(writer));
  const T* const lse = in[4].data<T>();
  const T* const dlse = in[6].defined() ? in[6].data<T>() : nullptr;
  const Shape scores = scores_shape(args);
  const Masks<const T> mask = masks_of<T>(in[backward_mask], scores);
  const Masks<T> dmask =
      wants_mask_gradient(args) ? Masks<T>(out[3], out[3].mutable_data<T>(writer), scores) : Masks<T>();
  run(
      e,
      [&](std::int64_t h) {
        const std::int64_t of_keys = h / e.group;
        return BackwardHead<T>{q(h),
                               k(of_keys),
                               v(of_keys),
                               y(h),
                               g(h),
                               lse + h * e.queries,
                               dlse ? dlse + h * e.queries : nullptr,
                               dq(h),
                               dk(of_keys),
                               dv(of_keys),
                               mask(h),
                               dmask.any() ? dmask.offset(h) : 0};
      },
      dmask.gradient());
}

void kernel(const OpArgs& args, std::span<Tensor> out) {
  if (nothing_to_write(out)) return;
  std::vector<Tensor> in(8);
  for (const std::size_t i : {0U, 1U, 2U, 3U, 5U}) in[i] = with_rows(args.in[i]);
  in[4] = packed(args.in[4]);
  if (args.given(6)) in[6] = packed(args.in[6]);
  in[backward_mask] = mask_of(args, backward_mask);
  visit_floating(out[0].dtype(), [&]<class T>() {
    with_heads<T>(args, in, out, [](const Extents& e, auto&& head, const auto& dmask) {
      attention_kernels::backward<T>(e, head, dmask);
    });
  });
}

void kernel_on_device(const OpArgs& args, std::span<Tensor> out) {
  if (nothing_to_write(out)) return;
  using namespace device_attention;
  const std::int64_t group = extents(args).group;
  backward(device_call(args, backward_mask),
           {rows_of(with_rows(args.in[3]), group, false), rows_of(with_rows(args.in[5]), group, false),
            packed(args.in[4]), args.given(6) ? packed(args.in[6]) : Tensor()},
           {rows_of(out[0], group, false), rows_of(out[1], 1, true), rows_of(out[2], 1, true),
            wants_mask_gradient(args) ? &out[3] : nullptr});
}

std::vector<Tensor> reference(const OpArgs& args) {
  std::vector<Tensor> in(args.in.begin(), args.in.end());
  in.resize(8);
  in[backward_mask] = mask_of(args, backward_mask);
  std::vector<Tensor> out;
  for (std::size_t i = 0; i < 3; ++i) out.push_back(reference_output(in[i].shape()));
  out.push_back(reference_output(wants_mask_gradient(args) ? args.in[backward_mask].shape() : Shape{0}));
  with_heads<double>(args, in, out,
                     [](const Extents& e, auto&& head, const auto& dmask) { backward_reference(e, head, dmask); });
  return out;
}

Gradients rule(const VjpArgs& args) {
  const auto in = [&](std::size_t i) { return args.given(i) ? args.in[i] : Tensor{}; };
  const bool mask = mask_is_floating(args, backward_mask) && args.wants(backward_mask);
  const auto bar = backward_rule(
      {in(0), in(1), in(2), in(3), in(4), in(5), in(6), in(7)},
      {args.wants(0), args.wants(1), args.wants(2), args.wants(3), args.wants(4), args.wants(5), args.wants(6), mask},
      {args.grad[0], args.grad[1], args.grad[2], wants_mask_gradient(args) ? args.grad[3] : Tensor{}},
      scale_of(args.attrs.real("scale"), args.in[0].shape()[-1]), args.attrs.flag("causal"));
  return {bar.q, bar.k, bar.v, bar.y, bar.lse, bar.g, bar.dlse, bar.mask};
}

Work work(const OpArgs& args, std::span<const TensorSpec> out) { return work_of(args, out, 6.0, 4.0, 14.0); }

std::vector<Sample> row_samples(DType dtype) {
  return samples_of_backward(scaled_dot_product_attention_op, samples(dtype), forward_mask, dtype, 300);
}

std::vector<Refusal> refuses() {
  const Tensor x = Tensor::ones({2, 4, 3});
  const Tensor lse = Tensor::ones({2, 4});
  return {{{x, x, x, x, lse, Tensor::ones({2, 4, 5})}, {}, "g must be [2, 4, 3], it is [2, 4, 5]"},
          {{x, x, x, x, x, x}, {}, "lse must be [2, 4], it is [2, 4, 3]"},
          {{x, x, x, x, lse, x}, {{"mask_gradient", true}}, "mask_gradient needs a floating mask"},
          {{x, Tensor::ones({2, 4, 5}), x, x, lse, x}, {}, "q and k differ in their last axis"}};
}

std::vector<Symmetry> symmetries(const Sample& sample) {
  const Shape &q = sample.in[0].shape(), &v = sample.in[2].shape();
  std::vector<Symmetry> all;
  const auto add = [&](std::string name, std::initializer_list<Leg> legs, int mask_axis) {
    add_symmetry(all, std::move(name), sample, legs, backward_mask, mask_axis);
  };
  if (q[-2] >= 2 && !is_causal(sample))
    add("queries", {in_leg(0, -2), in_leg(3, -2), in_leg(4, -1), in_leg(5, -2), in_leg(6, -1), out_leg(0, -2)}, -2);
  if (v[-2] >= 2 && !is_causal(sample)) add("keys", {in_leg(1, -2), in_leg(2, -2), out_leg(1, -2), out_leg(2, -2)}, -1);
  if (q[-1] >= 2) add("inner axis of q and k", {in_leg(0, -1), in_leg(1, -1), out_leg(0, -1), out_leg(1, -1)}, 0);
  if (!all.empty() && q[-1] >= 2) all.back().mixes = true; // through the scores
  if (v[-1] >= 2) add("columns of v", {in_leg(2, -1), in_leg(3, -1), in_leg(5, -1), out_leg(2, -1)}, 0);
  return all;
}

void exact_kernel(const OpArgs& args, std::span<Tensor> out) {
  const auto in = [&](std::size_t i) { return args.given(i) ? args.in[i] : Tensor{}; };
  const Extents e = extents(args);
  const BackwardInputs found = exact_backward(
      {in(0), in(1), in(2), in(3), in(4), in(5), in(6), mask_of(args, backward_mask)}, e.scale, e.causal);
  assign(out[0], found.q);
  assign(out[1], found.k);
  assign(out[2], found.v);
  if (wants_mask_gradient(args)) assign(out[3], sum_to(found.mask, out[3].shape()));
}

} // namespace

constinit const OpDef scaled_dot_product_attention_backward_op = row({
    .name = "scaled_dot_product_attention_backward",
    .math = "S = exp(scale q k^T + mask - lse), dE = S (g v^T - rowsum(g y) + dlse): "
            "dq = scale dE k, dk = scale dE^T q, dv = S^T g, dmask = dE",
    .inputs = {{"q"}, {"k"}, {"v"}, {"y"}, {"lse"}, {"g"}, {"dlse", true}, {"mask", true}},
    .outputs = {"dq", "dk", "dv", "dmask"},
    .attributes = {attr_real("scale", 0.0, "factor of the scores; 0 means 1/sqrt(head_dim)"),
                   attr_bool("causal", false, "query i sees the keys j <= i + Tk - Tq"),
                   attr_bool("mask_gradient", false, "give dmask; otherwise it is empty")},
    .infer = infer,
    .cpu = kernel,
    .exact = exact_kernel,
    .cuda = kernel_on_device,
    .saves = saves::in(0) | saves::in(1) | saves::in(2) | saves::in(3) | saves::in(4) | saves::in(5) | saves::in(6) |
             saves::in(7),
    .vjp = rule,
    .rounding = {.by_layout = true},
    .reference = reference,
    .samples = row_samples,
    .refuses = refuses,
    .symmetries = symmetries,
    .least_extents = {{"keys", 1, "a query must have something to attend to"}},
    .work = work,
});

} // namespace eg
