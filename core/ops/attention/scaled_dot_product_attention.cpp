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

/// Checks q, k and v (inputs 0 to 2) against each other.
void check_operands(const OpArgs& args) {
  check_all_floating(args);
  for (std::size_t i = 0; i < 3; ++i) check_rank_at_least(args, i, 2);
  const Shape &q = args.in[0].shape(), &k = args.in[1].shape(), &v = args.in[2].shape();
  const auto wrong = [&](const char* what) {
    return ShapeError(fmt::format("{}: {}: q is {}, k is {}, v is {}", args.op.name, what, q.str(), k.str(), v.str()));
  };
  if (q[-1] != k[-1]) throw wrong("q and k differ in their last axis");
  if (k[-2] != v[-2]) throw wrong("k and v differ in their number of rows");
  const Shape leading = leading_axes(q, 2);
  if (k[-2] == 0 && leading.numel() * q[-2] > 0) throw wrong("there are no keys to attend to");
  if (!(leading_axes(k, 2) == leading) || !(leading_axes(v, 2) == leading))
    throw wrong("leading axes differ (repeat them with expand())");
}

Extents extents(const OpArgs& args) {
  const Shape &q = args.in[0].shape(), &v = args.in[2].shape();
  return {leading_axes(q, 2).numel(), q[-2], v[-2], q[-1], v[-1], scale_of(args.attrs.real("scale"), q[-1])};
}

Shape output_shape(const OpArgs& args) {
  Shape shape = args.in[0].shape();
  shape[-1] = args.in[2].shape()[-1];
  return shape;
}

// --- forward ---

std::vector<TensorSpec> infer(const OpArgs& args) {
  check_operands(args);
  const DType dtype = args.in[0].dtype();
  return {{output_shape(args), dtype}, {leading_axes(args.in[0].shape(), 1), dtype}};
}

/// Calls run(extents, heads) with the heads of these operands and outputs.
template <class T, class F>
void with_forward_heads(const OpArgs& args, const Tensor& q, const Tensor& k, const Tensor& v, Tensor& y, Tensor& lse,
                        F&& run) {
  const Extents e = extents(args);
  const Matrices<const T> qs(q, q.data<T>()), ks(k, k.data<T>()), vs(v, v.data<T>());
  const Matrices<T> ys(y, y.mutable_data<T>("scaled_dot_product_attention"));
  T* const sums = lse.mutable_data<T>("scaled_dot_product_attention");
  run(e, [&](std::int64_t h) { return ForwardHead<T>{qs(h), ks(h), vs(h), ys(h), sums + h * e.queries}; });
}

void forward(const OpArgs& args, std::span<Tensor> out) {
  visit_floating(out[0].dtype(), [&]<class T>() {
    with_forward_heads<T>(args, with_rows(args.in[0]), with_rows(args.in[1]), with_rows(args.in[2]), out[0], out[1],
                          [](const Extents& e, auto&& head) { attention_kernels::forward<T>(e, head); });
  });
}

std::vector<Tensor> reference(const OpArgs& args) {
  Tensor y = reference_output(output_shape(args));
  Tensor lse = reference_output(leading_axes(args.in[0].shape(), 1));
  with_forward_heads<double>(args, args.in[0], args.in[1], args.in[2], y, lse,
                             [](const Extents& e, auto&& head) { forward_reference(e, head); });
  return {y, lse};
}

Gradients rule(const VjpArgs& args) {
  const Tensor g = args.grad[0].defined() ? args.grad[0] : Tensor::zeros(args.out[0].shape(), args.out[0].dtype());
  Gradients gradients = call(scaled_dot_product_attention_backward_op,
                             {args.in[0], args.in[1], args.in[2], args.out[0], args.out[1], g, args.grad[1]},
                             {{"scale", args.attrs.real("scale")}});
  for (std::size_t i = 0; i < 3; ++i)
    if (!args.wants(i)) gradients[i] = {};
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
  return all;
}

std::vector<Refusal> refuses() {
  const Tensor x = Tensor::ones({2, 4, 3});
  return {{{x, Tensor::ones({2, 4, 5}), x}, {}, "q and k differ in their last axis: q is [2, 4, 3], k is [2, 4, 5]"},
          {{x, x, Tensor::ones({2, 5, 3})}, {}, "k and v differ in their number of rows"},
          {{x, Tensor::ones({3, 4, 3}), Tensor::ones({3, 4, 3})}, {}, "leading axes differ"},
          {{x, Tensor::ones({2, 0, 3}), Tensor::ones({2, 0, 3})}, {}, "there are no keys to attend to"},
          {{Tensor::ones({3}), Tensor::ones({3}), Tensor::ones({3})}, {}, "at least 2 axes"},
          {{x, x, Tensor::ones({2, 4, 3}, DType::f64)}, {}, "different types"}};
}

/// Legs of a forward (`inputs` 3) or backward (7) call: axis `back` of the operands named by a bit each.
Symmetry legs(const char* name, const Sample& sample, std::initializer_list<Leg> all) {
  Symmetry symmetry{name, {}};
  for (const Leg& leg : all)
    if (leg.side == Leg::Side::out || static_cast<std::size_t>(leg.index) < sample.in.size())
      symmetry.legs.push_back(leg);
  return symmetry;
}

std::vector<Symmetry> symmetries(const Sample& sample) {
  const Shape &q = sample.in[0].shape(), &v = sample.in[2].shape();
  std::vector<Symmetry> all;
  if (q[-2] >= 2) all.push_back({"queries", {in_leg(0, -2), out_leg(0, -2), out_leg(1, -1)}});
  if (v[-2] >= 2) all.push_back({"keys", {in_leg(1, -2), in_leg(2, -2)}});
  if (q[-1] >= 2) all.push_back({"inner axis of q and k", {in_leg(0, -1), in_leg(1, -1)}});
  if (v[-1] >= 2) all.push_back({"columns of v", {in_leg(2, -1), out_leg(0, -1)}});
  for (int axis = 0; axis + 2 < q.rank(); ++axis)
    if (q[axis] >= 2)
      all.push_back({fmt::format("leading axis {}", axis),
                     {in_leg(0, axis), in_leg(1, axis), in_leg(2, axis), out_leg(0, axis), out_leg(1, axis)}});
  return all;
}

// --- backward ---

std::vector<TensorSpec> backward_infer(const OpArgs& args) {
  check_operands(args);
  const Shape y = output_shape(args);
  const Shape lse = leading_axes(y, 1);
  check_shape(args, 3, y);
  check_shape(args, 4, lse);
  check_shape(args, 5, y);
  if (args.given(6)) check_shape(args, 6, lse);
  const DType dtype = args.in[0].dtype();
  return {{args.in[0].shape(), dtype}, {args.in[1].shape(), dtype}, {args.in[2].shape(), dtype}};
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
  run(e, [&](std::int64_t h) {
    return BackwardHead<T>{q(h),  k(h),  v(h), y(h), g(h), lse + h * e.queries, dlse ? dlse + h * e.queries : nullptr,
                           dq(h), dk(h), dv(h)};
  });
}

void backward(const OpArgs& args, std::span<Tensor> out) {
  std::vector<Tensor> in(7);
  for (const std::size_t i : {0U, 1U, 2U, 3U, 5U}) in[i] = with_rows(args.in[i]);
  in[4] = packed(args.in[4]);
  if (args.given(6)) in[6] = packed(args.in[6]);
  visit_floating(out[0].dtype(), [&]<class T>() {
    with_backward_heads<T>(args, in, out,
                           [](const Extents& e, auto&& head) { attention_kernels::backward<T>(e, head); });
  });
}

std::vector<Tensor> backward_naive(const OpArgs& args) {
  std::vector<Tensor> in(args.in.begin(), args.in.end());
  in.resize(7);
  std::vector<Tensor> out;
  for (std::size_t i = 0; i < 3; ++i) out.push_back(reference_output(in[i].shape()));
  with_backward_heads<double>(args, in, out, [](const Extents& e, auto&& head) { backward_reference(e, head); });
  return out;
}

Gradients rule_of_backward(const VjpArgs& args) {
  const auto bar = backward_rule(
      {args.in[0], args.in[1], args.in[2], args.in[3], args.in[4], args.in[5], args.given(6) ? args.in[6] : Tensor{}},
      {args.wants(0), args.wants(1), args.wants(2), args.wants(3), args.wants(4), args.wants(5), args.wants(6)},
      args.grad[0], args.grad[1], args.grad[2], scale_of(args.attrs.real("scale"), args.in[0].shape()[-1]));
  return {bar.q, bar.k, bar.v, bar.y, bar.lse, bar.g, bar.dlse};
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
    const Tensor g = sample_normal(out[0].shape(), dtype, ++tag);
    sample.in.insert(sample.in.end(), {out[0], out[1], g});
    // Half of the samples have a cotangent of lse as well.
    if (tag % 2 == 0) sample.in.push_back(sample_normal(out[1].shape(), dtype, 100 + tag));
    all.push_back(std::move(sample));
  }
  return all;
}

std::vector<Refusal> backward_refuses() {
  const Tensor x = Tensor::ones({2, 4, 3});
  const Tensor lse = Tensor::ones({2, 4});
  return {{{x, x, x, x, lse, Tensor::ones({2, 4, 5})}, {}, "g must be [2, 4, 3], it is [2, 4, 5]"},
          {{x, x, x, x, x, x}, {}, "lse must be [2, 4], it is [2, 4, 3]"},
          {{x, Tensor::ones({2, 4, 5}), x, x, lse, x}, {}, "q and k differ in their last axis"}};
}

std::vector<Symmetry> backward_symmetries(const Sample& sample) {
  const Shape &q = sample.in[0].shape(), &v = sample.in[2].shape();
  std::vector<Symmetry> all;
  if (q[-2] >= 2)
    all.push_back(legs("queries", sample,
                       {in_leg(0, -2), in_leg(3, -2), in_leg(4, -1), in_leg(5, -2), in_leg(6, -1), out_leg(0, -2)}));
  if (v[-2] >= 2) all.push_back(legs("keys", sample, {in_leg(1, -2), in_leg(2, -2), out_leg(1, -2), out_leg(2, -2)}));
  if (q[-1] >= 2)
    all.push_back(
        legs("inner axis of q and k", sample, {in_leg(0, -1), in_leg(1, -1), out_leg(0, -1), out_leg(1, -1)}));
  if (v[-1] >= 2)
    all.push_back(legs("columns of v", sample, {in_leg(2, -1), in_leg(3, -1), in_leg(5, -1), out_leg(2, -1)}));
  return all;
}

} // namespace

constinit const OpDef scaled_dot_product_attention_op = row({
    .name = "scaled_dot_product_attention",
    .math = "y = softmax(scale q k^T) v, lse_i = log sum_j exp(scale <q_i, k_j>)",
    .inputs = {{"q"}, {"k"}, {"v"}},
    .outputs = {"y", "lse"},
    .attributes = {attr_real("scale", 0.0, "factor of the scores; 0 means 1/sqrt(head_dim)")},
    .infer = infer,
    .cpu = forward,
    .exact =
        [](const OpArgs& args, std::span<Tensor> out) {
          const ExactForward found = exact_forward(args.in[0], args.in[1], args.in[2], extents(args).scale);
          assign(out[0], found.y);
          assign(out[1], found.lse);
        },
    .saves = saves::in(0) | saves::in(1) | saves::in(2) | saves::out(0) | saves::out(1),
    .vjp = rule,
    .reference = reference,
    .samples = samples,
    .refuses = refuses,
    .symmetries = symmetries,
    .work = work,
});

constinit const OpDef scaled_dot_product_attention_backward_op = row({
    .name = "scaled_dot_product_attention_backward",
    .math = "S = exp(scale q k^T - lse), dE = S (g v^T - rowsum(g y) + dlse): "
            "dq = scale dE k, dk = scale dE^T q, dv = S^T g",
    .inputs = {{"q"}, {"k"}, {"v"}, {"y"}, {"lse"}, {"g"}, {"dlse", true}},
    .outputs = {"dq", "dk", "dv"},
    .attributes = {attr_real("scale", 0.0, "factor of the scores; 0 means 1/sqrt(head_dim)")},
    .infer = backward_infer,
    .cpu = backward,
    .exact =
        [](const OpArgs& args, std::span<Tensor> out) {
          const BackwardInputs in{args.in[0],
                                  args.in[1],
                                  args.in[2],
                                  args.in[3],
                                  args.in[4],
                                  args.in[5],
                                  args.given(6) ? args.in[6] : Tensor()};
          const BackwardInputs found = exact_backward(in, extents(args).scale);
          assign(out[0], found.q);
          assign(out[1], found.k);
          assign(out[2], found.v);
        },
    .saves = saves::in(0) | saves::in(1) | saves::in(2) | saves::in(3) | saves::in(4) | saves::in(5) | saves::in(6),
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

AttentionParts attention_explicit(const Tensor& q, const Tensor& k, const Tensor& v, double scale) {
  const Tensor scores = softmax(matmul(q, k, false, true) * attention_parts::scale_of(scale, q.shape()[-1]));
  return {scores, matmul(scores, v)};
}

} // namespace eg
