// y = softmax(scale q k^T) v for every leading index, tiled so that the scores never reach memory, and its backward op.
// q, k and v may be views: their rows are read in place as long as the last axis has unit stride.

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

/// Index of the mask among the inputs of the two rows.
constexpr std::size_t forward_mask = 3, backward_mask = 7;

/// Heads of q that share one head of k and v; 0 where the numbers do not fit.
std::int64_t group_of(const Shape& q, const Shape& k) {
  if (q.rank() < 3) return 1;
  if (q[-3] == k[-3]) return 1;
  return k[-3] > 0 && q[-3] % k[-3] == 0 ? q[-3] / k[-3] : 0;
}

/// [..., Tq, Tk]
Shape scores_shape(const OpArgs& args) {
  Shape shape = args.in[0].shape();
  shape[-1] = args.in[1].shape()[-2];
  return shape;
}

/// Checks q, k and v (inputs 0 to 2) against each other, and the mask.
void check_operands(const OpArgs& args, std::size_t mask) {
  for (std::size_t i = 0; i < 3; ++i) {
    check_floating(args, i);
    check_rank_at_least(args, i, 2);
  }
  const Shape &q = args.in[0].shape(), &k = args.in[1].shape(), &v = args.in[2].shape();
  const auto wrong = [&](const char* what) {
    return ShapeError(fmt::format("{}: {}: q is {}, k is {}, v is {}", args.op.name, what, q.str(), k.str(), v.str()));
  };
  if (q[-1] != k[-1]) throw wrong("q and k differ in their last axis");
  if (k[-2] != v[-2]) throw wrong("k and v differ in their number of rows");
  const Shape leading = leading_axes(q, 2), of_keys = leading_axes(k, 2);
  if (k[-2] == 0 && leading.numel() * q[-2] > 0) throw wrong("there are no keys to attend to");
  if (!(leading_axes(v, 2) == of_keys)) throw wrong("leading axes of k and v differ");
  bool same = leading.rank() == of_keys.rank();
  for (int axis = 0; same && axis + 1 < leading.rank(); ++axis) same = leading[axis] == of_keys[axis];
  if (!same) throw wrong("leading axes differ (repeat them with expand())");
  if (group_of(q, k) == 0)
    throw wrong("leading axes differ: the heads of q (axis -3) must be those of k and v or a multiple");
  check_mask(args, mask, scores_shape(args));
}

Extents extents(const OpArgs& args) {
  const Shape &q = args.in[0].shape(), &v = args.in[2].shape();
  return {leading_axes(q, 2).numel(),
          q[-2],
          v[-2],
          q[-1],
          v[-1],
          scale_of(args.attrs.real("scale"), q[-1]),
          args.attrs.flag("causal"),
          group_of(q, args.in[1].shape())};
}

Shape output_shape(const OpArgs& args) {
  Shape shape = args.in[0].shape();
  shape[-1] = args.in[2].shape()[-1];
  return shape;
}

// --- forward ---

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
  const Masks<const T> mask =
      in[3].defined() ? Masks<const T>(in[3], in[3].data<T>(), scores_shape(args)) : Masks<const T>();
  const Matrices<T> y(out[0], out[0].mutable_data<T>("scaled_dot_product_attention"));
  T* const sums = out[1].mutable_data<T>("scaled_dot_product_attention");
  run(e, [&](std::int64_t h) {
    return ForwardHead<T>{q(h), k(h / e.group), v(h / e.group), y(h), sums + h * e.queries, mask(h)};
  });
}

Tensor mask_of(const OpArgs& args, std::size_t i) {
  return args.given(i) ? additive_mask(args.in[i], args.in[0].dtype()) : Tensor{};
}

void forward(const OpArgs& args, std::span<Tensor> out) {
  const std::vector<Tensor> in = {with_rows(args.in[0]), with_rows(args.in[1]), with_rows(args.in[2]),
                                  mask_of(args, forward_mask)};
  visit_floating(out[0].dtype(), [&]<class T>() {
    with_forward_heads<T>(args, in, out, [](const Extents& e, auto&& head) { attention_kernels::forward<T>(e, head); });
  });
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

Work work(const OpArgs& args, std::span<const TensorSpec> out) {
  const Extents e = extents(args);
  const double scores = static_cast<double>(e.heads) * static_cast<double>(e.queries) * static_cast<double>(e.keys);
  return {scores * (2.0 * static_cast<double>(e.head_dim + e.value_dim) + 12.0), bytes_moved(args, out)};
}

/// A view like those that a packed [B, T, H, D] gives to heads: [B, H, T, D] with gaps between rows.
Tensor as_head_view(const Tensor& x) {
  Tensor holder = Tensor::zeros({x.size(0), x.size(2), x.size(1), x.size(3) + 2}, x.dtype());
  Tensor view = holder.permute({0, 2, 1, 3}).slice(-1, 1, 1 + x.size(3));
  view.copy_from(x);
  return view;
}

/// {q, k, v} of the given extents.
std::vector<Tensor> operands(DType dtype, std::uint64_t tag, const Shape& leading, std::int64_t queries,
                             std::int64_t keys, std::int64_t head_dim, std::int64_t value_dim) {
  const auto normal = [&](std::int64_t rows, std::int64_t columns, std::uint64_t part) {
    Shape shape = leading;
    shape.push_back(rows);
    shape.push_back(columns);
    return sample_normal(shape, dtype, tag * 8 + part);
  };
  return {normal(queries, head_dim, 0), normal(keys, head_dim, 1), normal(keys, value_dim, 2)};
}

/// 0 or 1 at random, as a boolean mask; the first row is all false where `blind` is set.
Tensor boolean_mask(const Shape& shape, std::uint64_t tag, bool blind = false) {
  Tensor mask = Tensor::empty(shape, DType::boolean);
  bool* const to = mask.mutable_data<bool>("sample");
  const std::int64_t columns = shape[-1];
  for (std::int64_t i = 0; i < mask.numel(); ++i)
    to[i] = i % columns == 0 || uniform_at(RandomKey{977, tag}, static_cast<std::uint64_t>(i)) < 0.6;
  if (blind)
    for (std::int64_t j = 0; j < columns; ++j) to[j] = false;
  return mask;
}

std::vector<Sample> samples(DType dtype) {
  std::vector<Sample> all = {{operands(dtype, 1, {2, 3}, 5, 7, 4, 6), {}, "two leading axes"},
                             {operands(dtype, 2, {}, 33, 17, 8, 8), {}, "no leading axes"},
                             {operands(dtype, 3, {2}, 4, 5, 3, 3), {{"scale", 0.25}}, "a scale"},
                             {operands(dtype, 4, {2}, 1, 1, 1, 1), {}, "extents of 1"},
                             {operands(dtype, 5, {2}, 0, 0, 4, 4), {}, "neither queries nor keys"},
                             {operands(dtype, 6, {2}, 0, 3, 4, 4), {}, "no queries"},
                             {operands(dtype, 7, {0}, 3, 3, 4, 4), {}, "no heads"},
                             {operands(dtype, 8, {2, 2}, 5, 5, 4, 4), {}, "views of heads, read in place"},
                             {operands(dtype, 9, {2}, 4, 6, 5, 3), {}, "strided views"}};
  for (Tensor& x : all[7].in) x = as_head_view(x);
  for (Tensor& x : all[8].in) x = scattered(x);
  const auto masked = [&](std::vector<Tensor> in, const Tensor& mask, Attrs attrs, const char* note) {
    in.push_back(mask);
    all.push_back({std::move(in), std::move(attrs), note});
  };
  const Attrs causal{{"causal", true}};
  masked(operands(dtype, 10, {2, 3}, 5, 7, 4, 4), sample_normal({5, 7}, dtype, 95), {}, "a mask for all heads");
  masked(operands(dtype, 11, {2, 3}, 5, 7, 4, 4), sample_normal({2, 3, 5, 7}, dtype, 96), {}, "a mask for each head");
  masked(operands(dtype, 12, {2, 3}, 4, 6, 4, 4), sample_normal({2, 1, 1, 6}, dtype, 97), causal,
         "a mask of keys, causal");
  masked(operands(dtype, 13, {2, 2}, 4, 6, 4, 4), boolean_mask({2, 1, 1, 6}, 98), {}, "a boolean mask of keys");
  masked(operands(dtype, 14, {2, 2}, 4, 6, 4, 4), boolean_mask({4, 6}, 99, true), {}, "a query that sees nothing");
  masked(operands(dtype, 15, {3}, 4, 5, 4, 4), Tensor::from<bool>({true, false, true, true}, {4, 1}), {},
         "a boolean mask of queries");
  all.push_back({operands(dtype, 16, {2}, 66, 70, 4, 4), causal, "causal, two tiles"});
  all.push_back({operands(dtype, 17, {2}, 7, 4, 4, 3), causal, "causal, more queries than keys"});
  for (const auto& [attrs, note] :
       {std::pair{Attrs{}, "groups of two heads"}, {causal, "groups of two heads, causal"}}) {
    Sample grouped{operands(dtype, 18, {2, 2}, 5, 5, 4, 4), attrs, note};
    grouped.in[0] = sample_normal({2, 4, 5, 4}, dtype, 93);
    all.push_back(std::move(grouped));
  }
  return all;
}

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

/// Adds a symmetry; `mask_axis` (negative) is the axis of the mask, input `mask`, that goes along where it is longer
/// than 1. Legs of inputs that the sample does not have are left out.
void add_symmetry(std::vector<Symmetry>& all, std::string name, const Sample& sample, std::initializer_list<Leg> legs,
                  std::size_t mask, int mask_axis) {
  Symmetry symmetry{std::move(name), {}};
  const auto given = [&](std::size_t i) { return i < sample.in.size() && sample.in[i].defined(); };
  for (const Leg& leg : legs)
    if (leg.side == Leg::Side::out || given(static_cast<std::size_t>(leg.index))) symmetry.legs.push_back(leg);
  const bool goes_along =
      given(mask) && mask_axis != 0 && sample.in[mask].rank() >= -mask_axis && sample.in[mask].shape()[mask_axis] > 1;
  if (goes_along) {
    symmetry.legs.push_back(in_leg(static_cast<int>(mask), mask_axis));
    if (mask == backward_mask && sample.attrs.has("mask_gradient")) symmetry.legs.push_back(out_leg(3, mask_axis));
  }
  all.push_back(std::move(symmetry));
}

bool is_causal(const Sample& sample) { return sample.attrs.has("causal") && sample.attrs.flag("causal"); }

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

// --- backward ---

bool wants_mask(const OpArgs& args) { return args.attrs.flag("mask_gradient"); }

std::vector<TensorSpec> backward_infer(const OpArgs& args) {
  check_operands(args, backward_mask);
  const Shape y = output_shape(args);
  const Shape lse = leading_axes(y, 1);
  check_shape(args, 3, y);
  check_shape(args, 4, lse);
  check_shape(args, 5, y);
  if (args.given(6)) check_shape(args, 6, lse);
  if (wants_mask(args) && !mask_is_floating(args, backward_mask))
    throw ValueError(fmt::format("{}: mask_gradient needs a floating mask", args.op.name));
  const DType dtype = args.in[0].dtype();
  return {{args.in[0].shape(), dtype},
          {args.in[1].shape(), dtype},
          {args.in[2].shape(), dtype},
          {wants_mask(args) ? args.in[backward_mask].shape() : Shape{0}, dtype}};
}

template <class T, class F>
void with_backward_heads(const OpArgs& args, std::span<const Tensor> in, std::span<Tensor> out, F&& run) {
  const char* writer = "scaled_dot_product_attention_backward";
  const Extents e = extents(args);
  const auto matrices = [&](std::size_t i) { return Matrices<const T>(in[i], in[i].data<T>()); };
  const auto q = matrices(0), k = matrices(1), v = matrices(2), y = matrices(3), g = matrices(5);
  const Matrices<T> dq(out[0], out[0].mutable_data<T>(writer)), dk(out[1], out[1].mutable_data<T>(writer)),
      dv(out[2], out[2].mutable_data<T>(writer));
  const T* const lse = in[4].data<T>();
  const T* const dlse = in[6].defined() ? in[6].data<T>() : nullptr;
  const Shape scores = scores_shape(args);
  const Masks<const T> mask = in[7].defined() ? Masks<const T>(in[7], in[7].data<T>(), scores) : Masks<const T>();
  const Masks<T> dmask = wants_mask(args) ? Masks<T>(out[3], out[3].mutable_data<T>(writer), scores) : Masks<T>();
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

void backward(const OpArgs& args, std::span<Tensor> out) {
  std::vector<Tensor> in(8);
  for (const std::size_t i : {0U, 1U, 2U, 3U, 5U}) in[i] = with_rows(args.in[i]);
  in[4] = packed(args.in[4]);
  if (args.given(6)) in[6] = packed(args.in[6]);
  in[7] = mask_of(args, backward_mask);
  visit_floating(out[0].dtype(), [&]<class T>() {
    with_backward_heads<T>(args, in, out, [](const Extents& e, auto&& head, const auto& dmask) {
      attention_kernels::backward<T>(e, head, dmask);
    });
  });
}

std::vector<Tensor> backward_naive(const OpArgs& args) {
  std::vector<Tensor> in(args.in.begin(), args.in.end());
  in.resize(8);
  in[7] = mask_of(args, backward_mask);
  std::vector<Tensor> out;
  for (std::size_t i = 0; i < 3; ++i) out.push_back(reference_output(in[i].shape()));
  out.push_back(reference_output(wants_mask(args) ? args.in[backward_mask].shape() : Shape{0}));
  with_backward_heads<double>(
      args, in, out, [](const Extents& e, auto&& head, const auto& dmask) { backward_reference(e, head, dmask); });
  return out;
}

Gradients rule_of_backward(const VjpArgs& args) {
  const auto in = [&](std::size_t i) { return args.given(i) ? args.in[i] : Tensor{}; };
  const bool mask = mask_is_floating(args, backward_mask) && args.wants(backward_mask);
  const auto bar = backward_rule(
      {in(0), in(1), in(2), in(3), in(4), in(5), in(6), in(7)},
      {args.wants(0), args.wants(1), args.wants(2), args.wants(3), args.wants(4), args.wants(5), args.wants(6), mask},
      {args.grad[0], args.grad[1], args.grad[2], wants_mask(args) ? args.grad[3] : Tensor{}},
      scale_of(args.attrs.real("scale"), args.in[0].shape()[-1]), args.attrs.flag("causal"));
  return {bar.q, bar.k, bar.v, bar.y, bar.lse, bar.g, bar.dlse, bar.mask};
}

Work backward_work(const OpArgs& args, std::span<const TensorSpec> out) {
  const Extents e = extents(args);
  const double scores = static_cast<double>(e.heads) * static_cast<double>(e.queries) * static_cast<double>(e.keys);
  return {scores * (6.0 * static_cast<double>(e.head_dim) + 4.0 * static_cast<double>(e.value_dim) + 14.0),
          bytes_moved(args, out)};
}

std::vector<Sample> backward_samples(DType dtype) {
  std::vector<Sample> all;
  std::uint64_t tag = 300;
  for (const Sample& forward_sample : samples(dtype)) {
    Sample sample = forward_sample;
    const std::vector<Tensor> out = call(scaled_dot_product_attention_op, forward_sample.in, forward_sample.attrs);
    const Tensor mask = sample.in.size() > forward_mask ? sample.in[forward_mask] : Tensor{};
    sample.in.resize(3);
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
  const Tensor x = Tensor::ones({2, 4, 3});
  const Tensor lse = Tensor::ones({2, 4});
  return {{{x, x, x, x, lse, Tensor::ones({2, 4, 5})}, {}, "g must be [2, 4, 3], it is [2, 4, 5]"},
          {{x, x, x, x, x, x}, {}, "lse must be [2, 4], it is [2, 4, 3]"},
          {{x, x, x, x, lse, x}, {{"mask_gradient", true}}, "mask_gradient needs a floating mask"},
          {{x, Tensor::ones({2, 4, 5}), x, x, lse, x}, {}, "q and k differ in their last axis"}};
}

std::vector<Symmetry> backward_symmetries(const Sample& sample) {
  const Shape &q = sample.in[0].shape(), &v = sample.in[2].shape();
  std::vector<Symmetry> all;
  const auto add = [&](std::string name, std::initializer_list<Leg> legs, int mask_axis) {
    add_symmetry(all, std::move(name), sample, legs, backward_mask, mask_axis);
  };
  if (q[-2] >= 2 && !is_causal(sample))
    add("queries", {in_leg(0, -2), in_leg(3, -2), in_leg(4, -1), in_leg(5, -2), in_leg(6, -1), out_leg(0, -2)}, -2);
  if (v[-2] >= 2 && !is_causal(sample)) add("keys", {in_leg(1, -2), in_leg(2, -2), out_leg(1, -2), out_leg(2, -2)}, -1);
  if (q[-1] >= 2) add("inner axis of q and k", {in_leg(0, -1), in_leg(1, -1), out_leg(0, -1), out_leg(1, -1)}, 0);
  if (v[-1] >= 2) add("columns of v", {in_leg(2, -1), in_leg(3, -1), in_leg(5, -1), out_leg(2, -1)}, 0);
  return all;
}

// --- exact mode ---

void exact_kernel(const OpArgs& args, std::span<Tensor> out) {
  const Extents e = extents(args);
  const ExactForward found =
      exact_forward(args.in[0], args.in[1], args.in[2], mask_of(args, forward_mask), e.causal, e.scale);
  assign(out[0], found.y);
  assign(out[1], found.lse);
}

void exact_backward_kernel(const OpArgs& args, std::span<Tensor> out) {
  const auto in = [&](std::size_t i) { return args.given(i) ? args.in[i] : Tensor{}; };
  const Extents e = extents(args);
  const BackwardInputs found = exact_backward(
      {in(0), in(1), in(2), in(3), in(4), in(5), in(6), mask_of(args, backward_mask)}, e.scale, e.causal);
  assign(out[0], found.q);
  assign(out[1], found.k);
  assign(out[2], found.v);
  if (wants_mask(args)) assign(out[3], sum_to(found.mask, out[3].shape()));
}

} // namespace

constinit const OpDef scaled_dot_product_attention_op = row({
    .name = "scaled_dot_product_attention",
    .math = "y = softmax(E) v, E = scale q k^T + mask, lse_i = log sum_j exp(E_ij); causal: j <= i + Tk - Tq; a query "
            "that sees no key gives y = 0, lse = 0",
    .inputs = {{"q"}, {"k"}, {"v"}, {"mask", true}},
    .outputs = {"y", "lse"},
    .attributes = {attr_real("scale", 0.0, "factor of the scores; 0 means 1/sqrt(head_dim)"),
                   attr_bool("causal", false, "query i sees the keys j <= i + Tk - Tq")},
    .infer = infer,
    .cpu = forward,
    .exact = exact_kernel,
    .saves = saves::in(0) | saves::in(1) | saves::in(2) | saves::in(3) | saves::out(0) | saves::out(1),
    .vjp = rule,
    .reference = reference,
    .samples = samples,
    .refuses = refuses,
    .symmetries = symmetries,
    .work = work,
});

constinit const OpDef scaled_dot_product_attention_backward_op = row({
    .name = "scaled_dot_product_attention_backward",
    .math = "S = exp(scale q k^T + mask - lse), dE = S (g v^T - rowsum(g y) + dlse): "
            "dq = scale dE k, dk = scale dE^T q, dv = S^T g, dmask = dE",
    .inputs = {{"q"}, {"k"}, {"v"}, {"y"}, {"lse"}, {"g"}, {"dlse", true}, {"mask", true}},
    .outputs = {"dq", "dk", "dv", "dmask"},
    .attributes = {attr_real("scale", 0.0, "factor of the scores; 0 means 1/sqrt(head_dim)"),
                   attr_bool("causal", false, "query i sees the keys j <= i + Tk - Tq"),
                   attr_bool("mask_gradient", false, "give dmask; otherwise it is empty")},
    .infer = backward_infer,
    .cpu = backward,
    .exact = exact_backward_kernel,
    .saves = saves::in(0) | saves::in(1) | saves::in(2) | saves::in(3) | saves::in(4) | saves::in(5) | saves::in(6) |
             saves::in(7),
    .vjp = rule_of_backward,
    .reference = backward_naive,
    .samples = backward_samples,
    .refuses = backward_refuses,
    .symmetries = backward_symmetries,
    .work = backward_work,
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
  const std::int64_t group = group_of(q.shape(), k.shape());
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
