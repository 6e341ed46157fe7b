// y = softmax(scale q k^T) v for every leading index, tiled so that the scores never reach memory.
// q, k and v may be views: their rows are read in place as long as the last axis has unit stride.

#include "core/call.h"
#include "core/ops.h"
#include "core/ops/attention/exact.h"
#include "core/ops/attention/separate.h"
#include "core/ops/list.h"
#include "core/ops/row_tools.h"

#include <fmt/format.h>

namespace eg {
namespace {

using namespace attention_parts;
using namespace separate_attention;
using attention_kernels::Extents;
using attention_kernels::ForwardHead;

std::vector<TensorSpec> infer(const OpArgs& args) {
  check_operands(args, forward_mask);
  const DType dtype = args.in[0].dtype();
  return {{output_shape(args), dtype}, {leading_axes(args.in[0].shape(), 1), dtype}};
}

/// Calls run(extents, heads) with the heads of these operands and outputs.
template <class T, class F>
void with_forward_heads(const OpArgs& args, std::span<const Tensor> in, std::span<Tensor> out, F&& run) {
  const Extents e = extents(args);
  const auto matrices = [&](std::size_t i) { return Matrices<const T>(in[i], in[i].data<T>()); };
  const auto q = matrices(0), k = matrices(1), v = matrices(2);
  const Masks<const T> mask = masks_of<T>(in[forward_mask], scores_shape(args));
  const Matrices<T> y(out[0], out[0].mutable_data<T>("scaled_dot_product_attention"));
  T* const sums = out[1].mutable_data<T>("scaled_dot_product_attention");
  run(e, [&](std::int64_t h) {
    return ForwardHead<T>{q(h), k(h / e.group), v(h / e.group), y(h), sums + h * e.queries, mask(h)};
  });
}

void forward(const OpArgs& args, std::span<Tensor> out) {
  if (nothing_to_write(out)) return;
  const std::vector<Tensor> in = {with_rows(args.in[0]), with_rows(args.in[1]), with_rows(args.in[2]),
                                  mask_of(args, forward_mask)};
  visit_floating(out[0].dtype(), [&]<class T>() {
    with_forward_heads<T>(args, in, out, [](const Extents& e, auto&& head) { attention_kernels::forward<T>(e, head); });
  });
}

void forward_on_device(const OpArgs& args, std::span<Tensor> out) {
  if (nothing_to_write(out)) return;
  device_attention::forward(device_call(args, forward_mask),
                            device_attention::rows_of(out[0], extents(args).group, false), out[1]);
}

std::vector<Tensor> reference(const OpArgs& args) {
  const std::vector<Tensor> in = {args.in[0], args.in[1], args.in[2], mask_of(args, forward_mask)};
  std::vector<Tensor> out = {reference_output(output_shape(args)),
                             reference_output(leading_axes(args.in[0].shape(), 1))};
  with_forward_heads<double>(args, in, out, [](const Extents& e, auto&& head) { forward_reference(e, head); });
  return out;
}

Gradients rule(const VjpArgs& args) {
  const Tensor g = args.grad[0].defined() ? args.grad[0] : Tensor::zeros(args.out[0].shape(), args.out[0].dtype());
  const bool floating = mask_is_floating(args, forward_mask) && args.wants(forward_mask);
  Gradients gradients =
      call(scaled_dot_product_attention_backward_op,
           {args.in[0], args.in[1], args.in[2], args.out[0], args.out[1], g, args.grad[1],
            args.given(forward_mask) ? args.in[forward_mask] : Tensor{}},
           {{"scale", args.attrs.real("scale")}, {"causal", args.attrs.flag("causal")}, {"mask_gradient", floating}});
  for (std::size_t i = 0; i < 4; ++i)
    if (!args.wants(i) || (i == 3 && !floating)) gradients[i] = {};
  return gradients;
}

Work work(const OpArgs& args, std::span<const TensorSpec> out) { return work_of(args, out, 2.0, 2.0, 12.0); }

std::vector<Refusal> refuses() {
  const Tensor x = Tensor::ones({2, 4, 3});
  return {{{x, Tensor::ones({2, 4, 5}), x}, {}, "q and k differ in their last axis: q is [2, 4, 3], k is [2, 4, 5]"},
          {{x, x, Tensor::ones({2, 5, 3})}, {}, "k and v differ in their number of rows"},
          {{x, Tensor::ones({3, 4, 3}), Tensor::ones({3, 4, 3})}, {}, "leading axes differ"},
          {{x, x, Tensor::ones({1, 4, 3})}, {}, "leading axes of k and v differ"},
          {{x, Tensor::ones({2, 2, 4, 3}), Tensor::ones({2, 2, 4, 3})}, {}, "leading axes differ"},
          {{x, Tensor::ones({2, 0, 3}), Tensor::ones({2, 0, 3})}, {}, "there are no keys to attend to"},
          {{x, x, x, Tensor::ones({4, 3})},
           {},
           "mask does not broadcast to the scores: mask is [4, 3], the scores are [2, 4, 4]"},
          {{x, x, x, Tensor::ones({4, 4}, DType::i64)}, {}, "mask must be boolean (true: the key is seen) or floating"},
          {{Tensor::ones({3}), Tensor::ones({3}), Tensor::ones({3})}, {}, "at least 2 axes"},
          {{x, x, Tensor::ones({2, 4, 3}, DType::f64)}, {}, "different types"}};
}

/// Leading axes that one permutation moves in q, k and v: not the heads of groups.
bool moves_together(const Sample& sample, int axis) {
  return sample.in[0].size(axis) >= 2 && sample.in[0].size(axis) == sample.in[1].size(axis);
}

std::vector<Symmetry> symmetries(const Sample& sample) {
  const Shape &q = sample.in[0].shape(), &v = sample.in[2].shape();
  std::vector<Symmetry> all;
  const auto add = [&](std::string name, std::initializer_list<Leg> legs, int mask_axis) {
    add_symmetry(all, std::move(name), sample, legs, forward_mask, mask_axis);
  };
  if (q[-2] >= 2 && !is_causal(sample)) add("queries", {in_leg(0, -2), out_leg(0, -2), out_leg(1, -1)}, -2);
  if (v[-2] >= 2 && !is_causal(sample)) add("keys", {in_leg(1, -2), in_leg(2, -2)}, -1);
  if (q[-1] >= 2) add("inner axis of q and k", {in_leg(0, -1), in_leg(1, -1)}, 0);
  if (v[-1] >= 2) add("columns of v", {in_leg(2, -1), out_leg(0, -1)}, 0);
  for (int axis = 0; axis + 2 < q.rank(); ++axis)
    if (moves_together(sample, axis))
      add(fmt::format("leading axis {}", axis),
          {in_leg(0, axis), in_leg(1, axis), in_leg(2, axis), out_leg(0, axis), out_leg(1, axis)}, axis - q.rank());
  return all;
}

void exact_kernel(const OpArgs& args, std::span<Tensor> out) {
  const Extents e = extents(args);
  const ExactForward found =
      exact_forward(args.in[0], args.in[1], args.in[2], mask_of(args, forward_mask), e.causal, e.scale);
  assign(out[0], found.y);
  assign(out[1], found.lse);
}

} // namespace

constinit const OpDef scaled_dot_product_attention_op = row({
    .name = "scaled_dot_product_attention",
    .math = "y = softmax(E) v, E = scale q k^T + mask, lse_i = log sum_j exp(E_ij); causal: j <= i + Tk - Tq; a query "
            "that sees no key gives y = 0, lse = 0",
    .inputs = {{"q"}, {"k"}, {"v"}, {"mask", true}},
    .outputs = {"y", "lse"},
    .auxiliary = 1,
    .attributes = {attr_real("scale", 0.0, "factor of the scores; 0 means 1/sqrt(head_dim)"),
                   attr_bool("causal", false, "query i sees the keys j <= i + Tk - Tq")},
    .infer = infer,
    .cpu = forward,
    .exact = exact_kernel,
    .cuda = forward_on_device,
    .saves = saves::in(0) | saves::in(1) | saves::in(2) | saves::in(3) | saves::out(0) | saves::out(1),
    .vjp = rule,
    .rounding = {.mean = Rounding::Mean::in_type},
    .reference = reference,
    .samples = samples,
    .refuses = refuses,
    .symmetries = symmetries,
    .least_extents = {{"keys", 1, "a query must have something to attend to"}},
    .work = work,
});

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v, double scale) {
  return call1(scaled_dot_product_attention_op, {q, k, v}, {{"scale", scale}});
}

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options) {
  return call1(scaled_dot_product_attention_op, {q, k, v, options.mask},
               {{"scale", options.scale}, {"causal", options.causal}});
}

AttentionParts attention_explicit(const Tensor& q, const Tensor& k, const Tensor& v, double scale) {
  const Tensor scores = softmax(matmul(q, k, false, true) * attention_parts::scale_of(scale, q.shape()[-1]));
  return {scores, matmul(scores, v)};
}

AttentionParts attention_explicit(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  const std::int64_t group = separate_attention::group_of(q.shape(), k.shape());
  if (group == 0)
    throw ShapeError(fmt::format("attention_explicit: the heads of q (axis -3) must be those of k or a multiple: q is "
                                 "{}, k is {}",
                                 q.shape().str(), k.shape().str()));
  const Tensor products = matmul(q, attention_parts::repeat_heads(k, group), false, true);
  const Tensor scores =
      masked_softmax(products * attention_parts::scale_of(options.scale, q.shape()[-1]), options.mask, options.causal);
  return {scores, matmul(scores, attention_parts::repeat_heads(v, group))};
}

} // namespace eg
