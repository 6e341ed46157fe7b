// Attention straight from the packed projection: qkv [..., T, 3 H D] holds for every token its queries, keys and
// values, head by head; y [..., T, H D] has the layout of the next projection's input. Heads are read and written in
// place through leading dimensions, so nothing is transposed or copied.

#include "core/call.h"
#include "core/ops.h"
#include "core/ops/attention/exact.h"
#include "core/ops/attention/packed.h"
#include "core/ops/list.h"
#include "core/ops/row_tools.h"

namespace eg {
namespace {

using namespace attention_parts;
using namespace packed_attention;
using attention_kernels::Extents;
using attention_kernels::ForwardHead;
using attention_kernels::Rows;

std::vector<TensorSpec> infer(const OpArgs& args) {
  const Packed p = packed_extents(args);
  const Shape& qkv = args.in[0].shape();
  check_mask(args, forward_mask, scores_shape(qkv, p.heads));
  return {{output_shape(qkv), args.in[0].dtype()}, {lse_shape(qkv, p.heads), args.in[0].dtype()}};
}

template <class T, class F>
void with_forward_heads(const OpArgs& args, const Tensor& qkv, Tensor& y, Tensor& lse, F&& run) {
  const Packed p = packed_extents(args);
  const Matrices<const T> in(qkv, qkv.data<T>());
  const Matrices<T> out(y, y.mutable_data<T>("attention_qkv"));
  const Tensor added = mask_of(args, forward_mask);
  const Masks<const T> mask = masks_of<T>(added, scores_shape(qkv.shape(), p.heads));
  T* const sums = lse.mutable_data<T>("attention_qkv");
  run(p.extents(), [&](std::int64_t i) {
    const Rows<const T> rows = in(i / p.heads);
    const std::int64_t first = i % p.heads * p.head_dim;
    return ForwardHead<T>{columns_from(rows, first),
                          columns_from(rows, p.width() + first),
                          columns_from(rows, 2 * p.width() + first),
                          columns_from(out(i / p.heads), first),
                          sums + i * p.tokens,
                          mask(i)};
  });
}

void forward(const OpArgs& args, std::span<Tensor> out) {
  if (nothing_to_write(out)) return;
  visit_floating(out[0].dtype(), [&]<class T>() {
    with_forward_heads<T>(args, with_rows(args.in[0]), out[0], out[1],
                          [](const Extents& e, auto&& head) { attention_kernels::forward<T>(e, head); });
  });
}

void forward_on_device(const OpArgs& args, std::span<Tensor> out) {
  if (nothing_to_write(out)) return;
  const Packed p = packed_extents(args);
  device_attention::forward(device_call(args, forward_mask),
                            device_attention::columns_of(out[0], p.heads, p.head_dim, 0), out[1]);
}

std::vector<Tensor> reference(const OpArgs& args) {
  Tensor y = reference_output(output_shape(args.in[0].shape()));
  Tensor lse = reference_output(lse_shape(args.in[0].shape(), args.attrs.integer("heads")));
  with_forward_heads<double>(args, args.in[0], y, lse,
                             [](const Extents& e, auto&& head) { forward_reference(e, head); });
  return {y, lse};
}

Gradients rule(const VjpArgs& args) {
  const bool mask = mask_is_floating(args, forward_mask) && args.wants(forward_mask);
  if (!args.wants(0) && !mask) return {{}, {}};
  const Tensor g = args.grad[0].defined() ? args.grad[0] : Tensor::zeros(args.out[0].shape(), args.out[0].dtype());
  const Gradients both = call(attention_qkv_backward_op,
                              {args.in[0], args.out[0], args.out[1], g, args.grad[1],
                               args.given(forward_mask) ? args.in[forward_mask] : Tensor{}},
                              {{"heads", args.attrs.integer("heads")},
                               {"scale", args.attrs.real("scale")},
                               {"causal", args.attrs.flag("causal")},
                               {"mask_gradient", mask}});
  return {args.wants(0) ? both[0] : Tensor{}, mask ? both[1] : Tensor{}};
}

Work work(const OpArgs& args, std::span<const TensorSpec> out) { return work_of(args, out, 2.0, 12.0); }

std::vector<Refusal> refuses() {
  return {{{Tensor::ones({2, 4, 10})}, packed_attention::heads_of(2), "a multiple of 6 for 2 heads: qkv is [2, 4, 10]"},
          {{Tensor::ones({2, 4, 12})}, packed_attention::heads_of(0), "heads must be at least 1"},
          {{Tensor::ones({12})}, packed_attention::heads_of(2), "at least 2 axes"},
          {{Tensor::ones({2, 4, 12})}, {}, "heads"},
          {{Tensor::ones({2, 4, 12}), Tensor::ones({4, 3})},
           packed_attention::heads_of(2),
           "mask does not broadcast to the scores: mask is [4, 3], the scores are [2, 2, 4, 4]"},
          {{Tensor::ones({2, 4, 12}, DType::i64)}, packed_attention::heads_of(2), "must be f32 or f64"}};
}

std::vector<Symmetry> symmetries(const Sample& sample) {
  return symmetries_of(sample, {{{0}}, {{0}, {1, true}}, forward_mask});
}

void exact_kernel(const OpArgs& args, std::span<Tensor> out) {
  const Packed p = packed_extents(args);
  const auto part = [&](std::int64_t which) { return attention_parts::heads_of(args.in[0], p.heads, which); };
  const ExactForward found = exact_forward(part(0), part(1), part(2), mask_of(args, forward_mask), p.causal, p.scale);
  assign(out[0], joined_heads(found.y));
  assign(out[1], found.lse);
}

} // namespace

constinit const OpDef attention_qkv_op = row({
    .name = "attention_qkv",
    .math = "per head: y = softmax(scale q k^T + mask) v with q, k, v from qkv [..., T, 3 H D]; y [..., T, H D], lse "
            "[..., H, T], mask broadcast to [..., H, T, T]; causal: j <= i",
    .inputs = {{"qkv"}, {"mask", true}},
    .outputs = {"y", "lse"},
    .auxiliary = 1,
    .attributes = {required_attr("heads", AttrKind::integer, "number of heads"),
                   attr_real("scale", 0.0, "factor of the scores; 0 means 1/sqrt(head_dim)"),
                   attr_bool("causal", false, "token i sees the tokens j <= i")},
    .infer = infer,
    .cpu = forward,
    .exact = exact_kernel,
    .cuda = forward_on_device,
    .saves = saves::in(0) | saves::in(1) | saves::out(0) | saves::out(1),
    .vjp = rule,
    .rounding = {.mean = Rounding::Mean::in_type},
    .reference = reference,
    .samples = samples,
    .refuses = refuses,
    .symmetries = symmetries,
    .work = work,
});

Tensor attention_qkv(const Tensor& qkv, std::int64_t heads, double scale) {
  return call1(attention_qkv_op, {qkv}, {{"heads", heads}, {"scale", scale}});
}

Tensor attention_qkv(const Tensor& qkv, std::int64_t heads, const AttentionOptions& options) {
  return call1(attention_qkv_op, {qkv, options.mask},
               {{"heads", heads}, {"scale", options.scale}, {"causal", options.causal}});
}

} // namespace eg
