// Attention straight from the packed projection: qkv [..., T, 3 H D] holds for every token its queries, keys and
// values, head by head; y [..., T, H D] lies as the next projection wants it. Heads are read and written in place
// through leading dimensions, so nothing is transposed or copied.

#include "core/call.h"
#include "core/ops.h"
#include "core/ops/attention/exact.h"
#include "core/ops/attention/parts.h"
#include "core/ops/list.h"
#include "core/ops/row_tools.h"

#include <fmt/format.h>

namespace eg {
namespace {

using namespace attention_parts;
using attention_kernels::BackwardHead;
using attention_kernels::Extents;
using attention_kernels::ForwardHead;
using attention_kernels::Rows;

/// Extents of a packed call.
struct Packed {
  std::int64_t batch, tokens, heads, head_dim;
  double scale;
  bool causal;

  std::int64_t width() const { return heads * head_dim; }
  Extents extents() const { return {batch * heads, tokens, tokens, head_dim, head_dim, scale, causal}; }
};

Packed packed_extents(const OpArgs& args) {
  check_floating(args, 0);
  check_rank_at_least(args, 0, 2);
  const Shape& shape = args.in[0].shape();
  const std::int64_t heads = args.attrs.integer("heads");
  if (heads < 1) throw ValueError(fmt::format("{}: heads must be at least 1, it is {}", args.op.name, heads));
  if (shape[-1] % 3 != 0 || shape[-1] / 3 % heads != 0) // 3 heads may be beyond counting
    throw ShapeError(fmt::format("{}: the last axis of qkv must be 3 heads head_dim, a multiple of {} for {} heads: "
                                 "qkv is {}",
                                 args.op.name, 3.0 * static_cast<double>(heads), heads, shape.str()));
  const std::int64_t head_dim = shape[-1] / 3 / heads;
  return {leading_axes(shape, 2).numel(), shape[-2], heads, head_dim, scale_of(args.attrs.real("scale"), head_dim),
          args.attrs.flag("causal")};
}

Shape output_shape(const Shape& qkv) {
  Shape shape = qkv;
  shape[-1] /= 3;
  return shape;
}

/// [..., heads, T] for qkv [..., T, 3 H D].
Shape lse_shape(const Shape& qkv, std::int64_t heads) {
  Shape shape = leading_axes(qkv, 2);
  shape.push_back(heads);
  shape.push_back(qkv[-2]);
  return shape;
}

/// [..., heads, T, T]
Shape scores_shape(const Shape& qkv, std::int64_t heads) {
  Shape shape = lse_shape(qkv, heads);
  shape.push_back(qkv[-2]);
  return shape;
}

/// Index of the mask among the inputs of the two rows.
constexpr std::size_t forward_mask = 1, backward_mask = 5;

Tensor mask_of(const OpArgs& args, std::size_t i) {
  return args.given(i) ? additive_mask(args.in[i], args.in[0].dtype()) : Tensor{};
}

/// Columns [first, ...) of a matrix.
template <class T> Rows<T> columns_from(Rows<T> m, std::int64_t first) { return {m.data + first, m.ld}; }

// --- forward ---

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
  const Masks<const T> mask =
      added.defined() ? Masks<const T>(added, added.data<T>(), scores_shape(qkv.shape(), p.heads)) : Masks<const T>();
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
  visit_floating(out[0].dtype(), [&]<class T>() {
    with_forward_heads<T>(args, with_rows(args.in[0]), out[0], out[1],
                          [](const Extents& e, auto&& head) { attention_kernels::forward<T>(e, head); });
  });
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

Work work_of(const OpArgs& args, std::span<const TensorSpec> out, double products, double per_score) {
  const Packed p = packed_extents(args);
  const double tokens = static_cast<double>(p.tokens);
  const double scores = static_cast<double>(p.batch * p.heads) * tokens * tokens;
  return {scores * (2.0 * products * static_cast<double>(p.head_dim) + per_score), bytes_moved(args, out)};
}

Work work(const OpArgs& args, std::span<const TensorSpec> out) { return work_of(args, out, 2.0, 12.0); }

Attrs heads_of(std::int64_t heads) { return {{"heads", heads}}; }

std::vector<Sample> samples(DType dtype) {
  const auto qkv = [&](const Shape& shape, std::uint64_t tag) { return sample_normal(shape, dtype, tag); };
  return {
      {{qkv({2, 5, 24}, 401)}, heads_of(2), "two heads of 4"},
      {{qkv({1, 65, 15}, 402)}, heads_of(1), "65 tokens, one head of 5"},
      {{qkv({7, 18}, 403)}, {{"heads", std::int64_t{3}}, {"scale", 0.25}}, "no batch, a scale"},
      {{qkv({2, 3, 4, 6}, 404)}, heads_of(1), "two leading axes"},
      {{scattered(qkv({2, 6, 12}, 405))}, heads_of(2), "a strided view"},
      {{qkv({6, 2, 12}, 406).permute({1, 0, 2})}, heads_of(2), "tokens first in memory, read in place"},
      {{qkv({3, 1, 3}, 407)}, heads_of(1), "extents of 1"},
      {{qkv({2, 0, 12}, 408)}, heads_of(2), "no tokens"},
      {{qkv({0, 3, 12}, 409)}, heads_of(2), "no batch entries"},
      {{qkv({2, 5, 12}, 411)}, {{"heads", std::int64_t{2}}, {"causal", true}}, "causal"},
      {{qkv({2, 5, 12}, 412), qkv({2, 5, 5}, 413)}, heads_of(2), "a mask for each head"},
      {{qkv({2, 5, 12}, 414), qkv({2, 1, 1, 5}, 415)},
       {{"heads", std::int64_t{2}}, {"causal", true}},
       "a mask of keys, causal"},
      {{qkv({2, 4, 12}, 416), Tensor::from<bool>({true, true, false, true, true, false, false, true}, {2, 1, 1, 4})},
       heads_of(2),
       "a boolean mask of keys"}};
}

std::vector<Refusal> refuses() {
  return {{{Tensor::ones({2, 4, 10})}, heads_of(2), "a multiple of 6 for 2 heads: qkv is [2, 4, 10]"},
          {{Tensor::ones({2, 4, 12})}, heads_of(0), "heads must be at least 1"},
          {{Tensor::ones({12})}, heads_of(2), "at least 2 axes"},
          {{Tensor::ones({2, 4, 12})}, {}, "heads"},
          {{Tensor::ones({2, 4, 12}), Tensor::ones({4, 3})},
           heads_of(2),
           "mask does not broadcast to the scores: mask is [4, 3], the scores are [2, 2, 4, 4]"},
          {{Tensor::ones({2, 4, 12}, DType::i64)}, heads_of(2), "must be f32 or f64"}};
}

bool is_causal(const Sample& sample) { return sample.attrs.has("causal") && sample.attrs.flag("causal"); }

/// The axes of the mask (input `mask`) that go along with an axis of the scores, and of its gradient (output 1).
void add_mask_legs(Symmetry& symmetry, const Sample& sample, std::size_t mask, std::initializer_list<int> axes) {
  if (sample.in.size() <= mask) return;
  for (const int axis : axes) {
    if (sample.in[mask].rank() < -axis || sample.in[mask].shape()[axis] == 1) continue;
    symmetry.legs.push_back(in_leg(static_cast<int>(mask), axis));
    if (mask == backward_mask && sample.attrs.has("mask_gradient")) symmetry.legs.push_back(out_leg(1, axis));
  }
}

/// Tokens and leading axes. Features and heads lie packed in one axis, where no single permutation acts.
std::vector<Symmetry> symmetries(const Sample& sample) {
  const Shape& shape = sample.in[0].shape();
  std::vector<Symmetry> all;
  const auto add = [&](std::string name, int axis, int lse_axis, std::initializer_list<int> mask_axes) {
    Symmetry symmetry{std::move(name), {in_leg(0, axis), out_leg(0, axis), out_leg(1, lse_axis)}};
    add_mask_legs(symmetry, sample, forward_mask, mask_axes);
    all.push_back(std::move(symmetry));
  };
  if (shape[-2] >= 2 && !is_causal(sample)) add("tokens", -2, -1, {-2, -1});
  for (int axis = 0; axis + 2 < shape.rank(); ++axis)
    if (shape[axis] >= 2) add(fmt::format("leading axis {}", axis), axis, axis, {axis - shape.rank() - 1});
  return all;
}

// --- backward ---

std::vector<TensorSpec> backward_infer(const OpArgs& args) {
  const Packed p = packed_extents(args);
  const Shape& qkv = args.in[0].shape();
  const Shape y = output_shape(qkv);
  const Shape lse = lse_shape(qkv, p.heads);
  check_shape(args, 1, y);
  check_shape(args, 2, lse);
  check_shape(args, 3, y);
  if (args.given(4)) check_shape(args, 4, lse);
  check_mask(args, backward_mask, scores_shape(qkv, p.heads));
  const bool gradient = args.attrs.flag("mask_gradient");
  if (gradient && !mask_is_floating(args, backward_mask))
    throw ValueError(fmt::format("{}: mask_gradient needs a floating mask", args.op.name));
  return {{qkv, args.in[0].dtype()}, {gradient ? args.in[backward_mask].shape() : Shape{0}, args.in[0].dtype()}};
}

template <class T, class F>
void with_backward_heads(const OpArgs& args, std::span<const Tensor> in, std::span<Tensor> result, F&& run) {
  const char* writer = "attention_qkv_backward";
  const Packed p = packed_extents(args);
  const Shape scores = scores_shape(args.in[0].shape(), p.heads);
  const Masks<const T> mask = in[5].defined() ? Masks<const T>(in[5], in[5].data<T>(), scores) : Masks<const T>();
  const Masks<T> dmask =
      args.attrs.flag("mask_gradient") ? Masks<T>(result[1], result[1].mutable_data<T>(writer), scores) : Masks<T>();
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

void backward(const OpArgs& args, std::span<Tensor> out) {
  const std::vector<Tensor> in = {with_rows(args.in[0]),
                                  with_rows(args.in[1]),
                                  packed(args.in[2]),
                                  with_rows(args.in[3]),
                                  args.given(4) ? packed(args.in[4]) : Tensor{},
                                  mask_of(args, backward_mask)};
  visit_floating(out[0].dtype(), [&]<class T>() {
    with_backward_heads<T>(args, in, out, [](const Extents& e, auto&& head, const auto& dmask) {
      attention_kernels::backward<T>(e, head, dmask);
    });
  });
}

std::vector<Tensor> backward_naive(const OpArgs& args) {
  std::vector<Tensor> in(args.in.begin(), args.in.end());
  in.resize(6);
  in[5] = mask_of(args, backward_mask);
  const bool gradient = args.attrs.flag("mask_gradient");
  std::vector<Tensor> out = {reference_output(in[0].shape()),
                             reference_output(gradient ? args.in[backward_mask].shape() : Shape{0})};
  with_backward_heads<double>(
      args, in, out, [](const Extents& e, auto&& head, const auto& dmask) { backward_reference(e, head, dmask); });
  return out;
}

/// [..., T, parts H D] -> [parts, B, H, T, D], through views that a tape sees.
Tensor split_heads(const Tensor& x, const Packed& p, std::int64_t parts) {
  return x.reshape({p.batch, p.tokens, parts, p.heads, p.head_dim}).permute({2, 0, 3, 1, 4});
}

/// The inverse for one part: [B, H, T, D] -> [..., T, H D].
Tensor merge_heads(const Tensor& x, const Shape& shape) {
  return x.defined() ? x.permute({0, 2, 1, 3}).reshape(shape) : x;
}

// Everything is packed first, so that the bits do not depend on the layout of the inputs.
Gradients rule_of_backward(const VjpArgs& args) {
  const Packed p = packed_extents(args);
  const Shape by_head = {p.batch, p.heads, p.tokens};
  const Shape by_head_dim = {p.batch, p.heads, p.tokens, p.head_dim};
  const auto heads = [&](const Tensor& x) { return split_heads(contiguous(x), p, 1).select(0, 0); };
  const auto sums = [&](std::size_t i) { return args.given(i) ? args.in[i].reshape(by_head) : Tensor{}; };
  const Tensor qkv = split_heads(contiguous(args.in[0]), p, 3);
  BackwardCotangents cotangent;
  if (args.grad[0].defined()) {
    const Tensor parts = split_heads(contiguous(args.grad[0]), p, 3);
    cotangent = {parts.select(0, 0), parts.select(0, 1), parts.select(0, 2), {}};
  }
  // Here the leading axes are one; a mask that has them is made to follow.
  const Shape scores = scores_shape(args.in[0].shape(), p.heads);
  const Shape merged = {p.batch, p.heads, p.tokens, p.tokens};
  const auto merge = [&](const Tensor& x) {
    return x.rank() <= 3 || scores.rank() == 4 ? x : x.expand(scores).reshape(merged);
  };
  const bool masked = args.given(backward_mask), floating = mask_is_floating(args, backward_mask);
  if (args.attrs.flag("mask_gradient") && args.grad[1].defined()) cotangent.mask = merge(args.grad[1]);
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

Work backward_work(const OpArgs& args, std::span<const TensorSpec> out) { return work_of(args, out, 5.0, 14.0); }

std::vector<Sample> backward_samples(DType dtype) {
  std::vector<Sample> all;
  std::uint64_t tag = 500;
  for (const Sample& forward_sample : samples(dtype)) {
    Sample sample = forward_sample;
    const std::vector<Tensor> out = call(attention_qkv_op, forward_sample.in, forward_sample.attrs);
    const Tensor mask = sample.in.size() > forward_mask ? sample.in[forward_mask] : Tensor{};
    sample.in.resize(1);
    sample.in.insert(sample.in.end(), {out[0], out[1], sample_normal(out[0].shape(), dtype, ++tag)});
    // Half of the samples have a cotangent of lse as well.
    if (tag % 2 == 0) sample.in.push_back(sample_normal(out[1].shape(), dtype, 100 + tag));
    if (mask.defined()) {
      sample.in.resize(backward_mask);
      sample.in.push_back(mask);
      if (is_floating(mask.dtype())) sample.attrs.set("mask_gradient", true);
    }
    all.push_back(std::move(sample));
  }
  return all;
}

std::vector<Refusal> backward_refuses() {
  const Tensor qkv = Tensor::ones({2, 4, 12});
  const Tensor y = Tensor::ones({2, 4, 4});
  const Tensor lse = Tensor::ones({2, 2, 4});
  return {
      {{qkv, y, lse, qkv}, heads_of(2), "g must be [2, 4, 4], it is [2, 4, 12]"},
      {{qkv, y, Tensor::ones({2, 4}), y}, heads_of(2), "lse must be [2, 2, 4], it is [2, 4]"},
      {{qkv, y, lse, y}, {{"heads", std::int64_t{2}}, {"mask_gradient", true}}, "mask_gradient needs a floating mask"},
      {{qkv, y, lse, y}, heads_of(5), "a multiple of 15"}};
}

std::vector<Symmetry> backward_symmetries(const Sample& sample) {
  const Shape& shape = sample.in[0].shape();
  const bool with_dlse = sample.in.size() > 4 && sample.in[4].defined();
  std::vector<Symmetry> all;
  const auto add = [&](std::string name, int axis, int lse_axis, std::initializer_list<int> mask_axes) {
    Symmetry symmetry{std::move(name), {in_leg(0, axis), in_leg(1, axis), in_leg(2, lse_axis), in_leg(3, axis)}};
    if (with_dlse) symmetry.legs.push_back(in_leg(4, lse_axis));
    symmetry.legs.push_back(out_leg(0, axis));
    add_mask_legs(symmetry, sample, backward_mask, mask_axes);
    all.push_back(std::move(symmetry));
  };
  if (shape[-2] >= 2 && !is_causal(sample)) add("tokens", -2, -1, {-2, -1});
  for (int axis = 0; axis + 2 < shape.rank(); ++axis)
    if (shape[axis] >= 2) add(fmt::format("leading axis {}", axis), axis, axis, {axis - shape.rank() - 1});
  return all;
}

// --- exact mode ---

void exact_kernel(const OpArgs& args, std::span<Tensor> out) {
  const Packed p = packed_extents(args);
  const auto part = [&](std::int64_t which) { return attention_parts::heads_of(args.in[0], p.heads, which); };
  const ExactForward found = exact_forward(part(0), part(1), part(2), mask_of(args, forward_mask), p.causal, p.scale);
  assign(out[0], joined_heads(found.y));
  assign(out[1], found.lse);
}

void exact_backward_kernel(const OpArgs& args, std::span<Tensor> out) {
  const Packed p = packed_extents(args);
  const auto part = [&](std::int64_t which) { return attention_parts::heads_of(args.in[0], p.heads, which); };
  const BackwardInputs found =
      exact_backward({part(0), part(1), part(2), attention_parts::split_heads(args.in[1], p.heads), args.in[2],
                      attention_parts::split_heads(args.in[3], p.heads), args.given(4) ? args.in[4] : Tensor(),
                      mask_of(args, backward_mask)},
                     p.scale, p.causal);
  assign(out[0], concat({joined_heads(found.q), joined_heads(found.k), joined_heads(found.v)}, -1));
  if (args.attrs.flag("mask_gradient")) assign(out[1], sum_to(found.mask, out[1].shape()));
}

} // namespace

constinit const OpDef attention_qkv_op = row({
    .name = "attention_qkv",
    .math = "per head: y = softmax(scale q k^T + mask) v with q, k, v from qkv [..., T, 3 H D]; y [..., T, H D], lse "
            "[..., H, T], mask broadcast to [..., H, T, T]; causal: j <= i",
    .inputs = {{"qkv"}, {"mask", true}},
    .outputs = {"y", "lse"},
    .attributes = {required_attr("heads", AttrKind::integer, "number of heads"),
                   attr_real("scale", 0.0, "factor of the scores; 0 means 1/sqrt(head_dim)"),
                   attr_bool("causal", false, "token i sees the tokens j <= i")},
    .infer = infer,
    .cpu = forward,
    .exact = exact_kernel,
    .saves = saves::in(0) | saves::in(1) | saves::out(0) | saves::out(1),
    .vjp = rule,
    .reference = reference,
    .samples = samples,
    .refuses = refuses,
    .symmetries = symmetries,
    .work = work,
});

constinit const OpDef attention_qkv_backward_op = row({
    .name = "attention_qkv_backward",
    .math = "dqkv of attention_qkv: per head the formulas of scaled_dot_product_attention_backward",
    .inputs = {{"qkv"}, {"y"}, {"lse"}, {"g"}, {"dlse", true}, {"mask", true}},
    .outputs = {"dqkv", "dmask"},
    .attributes = {required_attr("heads", AttrKind::integer, "number of heads"),
                   attr_real("scale", 0.0, "factor of the scores; 0 means 1/sqrt(head_dim)"),
                   attr_bool("causal", false, "token i sees the tokens j <= i"),
                   attr_bool("mask_gradient", false, "give dmask; otherwise it is empty")},
    .infer = backward_infer,
    .cpu = backward,
    .exact = exact_backward_kernel,
    .saves = saves::in(0) | saves::in(1) | saves::in(2) | saves::in(3) | saves::in(4) | saves::in(5),
    .vjp = rule_of_backward,
    .reference = backward_naive,
    .samples = backward_samples,
    .refuses = backward_refuses,
    .symmetries = backward_symmetries,
    .work = backward_work,
});

Tensor attention_qkv(const Tensor& qkv, std::int64_t heads, double scale) {
  return call1(attention_qkv_op, {qkv}, {{"heads", heads}, {"scale", scale}});
}

Tensor attention_qkv(const Tensor& qkv, std::int64_t heads, const AttentionOptions& options) {
  return call1(attention_qkv_op, {qkv, options.mask},
               {{"heads", heads}, {"scale", options.scale}, {"causal", options.causal}});
}

} // namespace eg
