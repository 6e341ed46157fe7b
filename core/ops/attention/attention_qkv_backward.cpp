// The gradients of attention_qkv, written straight into a tensor packed like qkv.

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
using attention_kernels::BackwardHead;
using attention_kernels::Extents;
using attention_kernels::Rows;

std::vector<TensorSpec> infer(const OpArgs& args) {
  const Packed p = packed_extents(args);
  const Shape& qkv = args.in[0].shape();
  const Shape y = output_shape(qkv);
  const Shape lse = lse_shape(qkv, p.heads);
  check_shape(args, 1, y);
  check_shape(args, 2, lse);
  check_shape(args, 3, y);
  if (args.given(4)) check_shape(args, 4, lse);
  check_mask(args, backward_mask, scores_shape(qkv, p.heads));
  check_mask_gradient(args, backward_mask);
  const DType dtype = args.in[0].dtype();
  return {{qkv, dtype}, {wants_mask_gradient(args) ? args.in[backward_mask].shape() : Shape{0}, dtype}};
}

template <class T, class F>
void with_heads(const OpArgs& args, std::span<const Tensor> in, std::span<Tensor> result, F&& run) {
  const char* writer = "attention_qkv_backward";
  const Packed p = packed_extents(args);
  const Shape scores = scores_shape(args.in[0].shape(), p.heads);
  const Masks<const T> mask = masks_of<T>(in[backward_mask], scores);
  const Masks<T> dmask =
      wants_mask_gradient(args) ? Masks<T>(result[1], result[1].mutable_data<T>(writer), scores) : Masks<T>();
  const Matrices<const T> qkv(in[0], in[0].data<T>()), ys(in[1], in[1].data<T>()), gs(in[3], in[3].data<T>());
  const Matrices<T> out(result[0], result[0].mutable_data<T>(writer));
  const T* const lse = in[2].data<T>();
  const T* const dlse = in[4].defined() ? in[4].data<T>() : nullptr;
  const auto head = [&](std::int64_t i) {
    const Rows<const T> from = qkv(i / p.heads);
    const Rows<T> to = out(i / p.heads);
    const std::int64_t first = i % p.heads * p.head_dim;
    const std::int64_t key = p.width() + first, value = 2 * p.width() + first;
    return BackwardHead<T>{columns_from(from, first),
                           columns_from(from, key),
                           columns_from(from, value),
                           columns_from(ys(i / p.heads), first),
                           columns_from(gs(i / p.heads), first),
                           lse + i * p.tokens,
                           dlse ? dlse + i * p.tokens : nullptr,
                           columns_from(to, first),
                           columns_from(to, key),
                           columns_from(to, value),
                           mask(i),
                           dmask.any() ? dmask.offset(i) : 0};
  };
  run(p.extents(), head, dmask.gradient());
}

void kernel(const OpArgs& args, std::span<Tensor> out) {
  if (nothing_to_write(out)) return;
  const std::vector<Tensor> in = {with_rows(args.in[0]),
                                  with_rows(args.in[1]),
                                  packed(args.in[2]),
                                  with_rows(args.in[3]),
                                  args.given(4) ? packed(args.in[4]) : Tensor{},
                                  mask_of(args, backward_mask)};
  visit_floating(out[0].dtype(), [&]<class T>() {
    with_heads<T>(args, in, out, [](const Extents& e, auto&& head, const auto& dmask) {
      attention_kernels::backward<T>(e, head, dmask);
    });
  });
}

void kernel_on_device(const OpArgs& args, std::span<Tensor> out) {
  if (nothing_to_write(out)) return;
  using namespace device_attention;
  const Packed p = packed_extents(args);
  const auto part = [&](const Tensor& x, std::int64_t which) {
    return columns_of(x, p.heads, p.head_dim, which * p.width());
  };
  backward(device_call(args, backward_mask),
           {part(with_rows(args.in[1]), 0), part(with_rows(args.in[3]), 0), packed(args.in[2]),
            args.given(4) ? packed(args.in[4]) : Tensor()},
           {part(out[0], 0), part(out[0], 1), part(out[0], 2), wants_mask_gradient(args) ? &out[1] : nullptr});
}

std::vector<Tensor> reference(const OpArgs& args) {
  std::vector<Tensor> in(args.in.begin(), args.in.end());
  in.resize(6);
  in[backward_mask] = mask_of(args, backward_mask);
  std::vector<Tensor> out = {reference_output(in[0].shape()),
                             reference_output(wants_mask_gradient(args) ? args.in[backward_mask].shape() : Shape{0})};
  with_heads<double>(args, in, out,
                     [](const Extents& e, auto&& head, const auto& dmask) { backward_reference(e, head, dmask); });
  return out;
}

/// [..., T, parts H D] -> [parts, B, H, T, D], through views that a tape sees.
Tensor split_parts(const Tensor& x, const Packed& p, std::int64_t parts) {
  return x.reshape({p.batch, p.tokens, parts, p.heads, p.head_dim}).permute({2, 0, 3, 1, 4});
}

/// The inverse for one part: [B, H, T, D] -> [..., T, H D].
Tensor merge_heads(const Tensor& x, const Shape& shape) {
  return x.defined() ? x.permute({0, 2, 1, 3}).reshape(shape) : x;
}

// Everything is packed first, so that the bits do not depend on the layout of the inputs.
Gradients rule(const VjpArgs& args) {
  const Packed p = packed_extents(args);
  const Shape by_head = {p.batch, p.heads, p.tokens};
  const Shape by_head_dim = {p.batch, p.heads, p.tokens, p.head_dim};
  const auto heads = [&](const Tensor& x) { return split_parts(contiguous(x), p, 1).select(0, 0); };
  const auto sums = [&](std::size_t i) { return args.given(i) ? args.in[i].reshape(by_head) : Tensor{}; };
  const Tensor qkv = split_parts(contiguous(args.in[0]), p, 3);
  BackwardCotangents cotangent;
  if (args.grad[0].defined()) {
    const Tensor parts = split_parts(contiguous(args.grad[0]), p, 3);
    cotangent = {parts.select(0, 0), parts.select(0, 1), parts.select(0, 2), {}};
  }
  // Here the leading axes are one; a mask that has them is made to follow.
  const Shape scores = scores_shape(args.in[0].shape(), p.heads);
  const Shape merged = {p.batch, p.heads, p.tokens, p.tokens};
  const auto merge = [&](const Tensor& x) {
    return x.rank() <= 3 || scores.rank() == 4 ? x : x.expand(scores).reshape(merged);
  };
  const bool masked = args.given(backward_mask), floating = mask_is_floating(args, backward_mask);
  if (wants_mask_gradient(args) && args.grad[1].defined()) cotangent.mask = merge(args.grad[1]);
  const auto bar = backward_rule({qkv.select(0, 0), qkv.select(0, 1), qkv.select(0, 2), heads(args.in[1]), sums(2),
                                  heads(args.in[3]), sums(4), masked ? merge(args.in[backward_mask]) : Tensor{}},
                                 {args.wants(0), args.wants(0), args.wants(0), args.wants(1), args.wants(2),
                                  args.wants(3), args.wants(4), floating && args.wants(backward_mask)},
                                 cotangent, p.scale, p.causal);
  Gradients gradients(6);
  if (args.wants(0)) {
    const auto part = [&](const Tensor& x) { return x.defined() ? x : Tensor::zeros(by_head_dim, args.in[0].dtype()); };
    gradients[0] =
        stack({part(bar.q), part(bar.k), part(bar.v)}, 0).permute({1, 3, 0, 2, 4}).reshape(args.in[0].shape());
  }
  gradients[1] = merge_heads(bar.y, args.in[1].shape());
  gradients[3] = merge_heads(bar.g, args.in[3].shape());
  if (bar.lse.defined()) gradients[2] = bar.lse.reshape(args.in[2].shape());
  if (bar.dlse.defined()) gradients[4] = bar.dlse.reshape(args.in[2].shape());
  if (bar.mask.defined()) gradients[5] = bar.mask.reshape(scores);
  return gradients;
}

Work work(const OpArgs& args, std::span<const TensorSpec> out) { return work_of(args, out, 5.0, 14.0); }

std::vector<Sample> row_samples(DType dtype) {
  return samples_of_backward(attention_qkv_op, samples(dtype), forward_mask, dtype, 500);
}

std::vector<Refusal> refuses() {
  const Tensor qkv = Tensor::ones({2, 4, 12});
  const Tensor y = Tensor::ones({2, 4, 4});
  const Tensor lse = Tensor::ones({2, 2, 4});
  return {
      {{qkv, y, lse, qkv}, packed_attention::heads_of(2), "g must be [2, 4, 4], it is [2, 4, 12]"},
      {{qkv, y, Tensor::ones({2, 4}), y}, packed_attention::heads_of(2), "lse must be [2, 2, 4], it is [2, 4]"},
      {{qkv, y, lse, y}, {{"heads", std::int64_t{2}}, {"mask_gradient", true}}, "mask_gradient needs a floating mask"},
      {{qkv, y, lse, y}, packed_attention::heads_of(5), "a multiple of 15"}};
}

std::vector<Symmetry> symmetries(const Sample& sample) {
  Carried carried{{{0}, {1}, {2, true}, {3}}, {{0}}, backward_mask};
  if (sample.in.size() > 4 && sample.in[4].defined()) carried.in.push_back({4, true});
  return symmetries_of(sample, carried);
}

void exact_kernel(const OpArgs& args, std::span<Tensor> out) {
  const Packed p = packed_extents(args);
  const auto part = [&](std::int64_t which) { return attention_parts::heads_of(args.in[0], p.heads, which); };
  const BackwardInputs found =
      exact_backward({part(0), part(1), part(2), attention_parts::split_heads(args.in[1], p.heads), args.in[2],
                      attention_parts::split_heads(args.in[3], p.heads), args.given(4) ? args.in[4] : Tensor(),
                      mask_of(args, backward_mask)},
                     p.scale, p.causal);
  assign(out[0], concat({joined_heads(found.q), joined_heads(found.k), joined_heads(found.v)}, -1));
  if (wants_mask_gradient(args)) assign(out[1], sum_to(found.mask, out[1].shape()));
}

} // namespace

constinit const OpDef attention_qkv_backward_op = row({
    .name = "attention_qkv_backward",
    .math = "dqkv of attention_qkv: per head the formulas of scaled_dot_product_attention_backward",
    .inputs = {{"qkv"}, {"y"}, {"lse"}, {"g"}, {"dlse", true}, {"mask", true}},
    .outputs = {"dqkv", "dmask"},
    .attributes = {required_attr("heads", AttrKind::integer, "number of heads"),
                   attr_real("scale", 0.0, "factor of the scores; 0 means 1/sqrt(head_dim)"),
                   attr_bool("causal", false, "token i sees the tokens j <= i"),
                   attr_bool("mask_gradient", false, "give dmask; otherwise it is empty")},
    .infer = infer,
    .cpu = kernel,
    .exact = exact_kernel,
    .cuda = kernel_on_device,
    .saves = saves::in(0) | saves::in(1) | saves::in(2) | saves::in(3) | saves::in(4) | saves::in(5),
    .vjp = rule,
    .rounding = {.by_layout = true},
    .reference = reference,
    .samples = row_samples,
    .refuses = refuses,
    .symmetries = symmetries,
    .work = work,
});

} // namespace eg
