#include "core/ops/attention/device_attention.h"

#include "core/device/axes.h"
#include "core/device/module.h"
#include "core/gemm/matmul_precision.h"
#include "core/ops.h"
#include "core/ops/attention/parts.h"
#include "core/ops/matmul/device_product.h"
#include "core/ops/row_tools.h"

#include <algorithm>
#include <vector>

namespace eg::device_attention {
namespace {

using attention_kernels::Extents;
using attention_parts::leading_axes;

/// Some heads, next to each other in row-major order.
struct Part {
  Shape begin, extent;

  std::int64_t heads() const { return extent.numel(); }
  /// Of the first head, where the heads' axes have these strides.
  std::int64_t offset(const Shape& strides) const {
    std::int64_t at = 0;
    for (int axis = 0; axis < begin.rank(); ++axis) at += begin[axis] * strides[axis];
    return at;
  }
  HeadRows of(HeadRows x) const {
    x.offset += offset(x.strides);
    return x;
  }
};

/// Cuts heads into parts of at most `most` where axes but the last one can be cut: heads that share keys stay together.
void cut(const Part& whole, int axis, std::int64_t most, std::vector<Part>& parts) {
  if (whole.heads() <= most || axis + 1 >= whole.extent.rank()) return parts.push_back(whole);
  std::int64_t inner = 1;
  for (int i = axis + 1; i < whole.extent.rank(); ++i) inner *= whole.extent[i];
  const std::int64_t step = std::max<std::int64_t>(most / inner, 1);
  for (std::int64_t at = 0; at < whole.extent[axis]; at += step) {
    Part part = whole;
    part.begin[axis] = whole.begin[axis] + at;
    part.extent[axis] = std::min(step, whole.extent[axis] - at);
    if (part.extent[axis] == 1)
      cut(part, axis + 1, most, parts);
    else
      parts.push_back(part);
  }
}

/// All heads, or as many at a time as have `most_bytes` of scores.
std::vector<Part> parts_of(const Call& call, std::int64_t most_bytes) {
  const Extents& e = call.extents;
  const std::int64_t bytes =
      std::max<std::int64_t>(e.queries * e.keys, 1) * static_cast<std::int64_t>(size_of(call.q.tensor.dtype()));
  std::vector<Part> parts;
  Part whole{call.heads, call.heads};
  for (int axis = 0; axis < call.heads.rank(); ++axis) whole.begin[axis] = 0;
  if (whole.heads() > 0) cut(whole, 0, std::max<std::int64_t>(most_bytes / bytes, 1), parts);
  return parts;
}

/// A matrix of scores for each head of a part, packed.
HeadRows scores_of(const Call& call, const Part& part) {
  const Extents& e = call.extents;
  Shape strides = contiguous_strides(part.extent);
  for (int axis = 0; axis < strides.rank(); ++axis) strides[axis] *= e.queries * e.keys;
  const Tensor& q = call.q.tensor;
  return {Tensor::empty({part.heads(), e.queries, e.keys}, q.dtype(), q.device()), 0, e.keys, strides};
}

// --- products ---

/// One operand of a product: a matrix by rows, or its transpose.
struct Operand {
  const HeadRows& rows;
  bool transposed = false;

  device::MatrixPart part(std::int64_t offset) const {
    return {rows.tensor, rows.offset + offset, transposed ? 1 : rows.ld, transposed ? rows.ld : 1};
  }
};

struct ProductExtents {
  std::int64_t m, n, k;
};

Shape without_last(const Shape& x) { return leading_axes(x, 1); }

/// C = alpha A B for every head of a part; all three begin at its first head.
void multiply(const Call& call, const Part& part, const ProductExtents& e, double alpha, const Operand& a,
              const Operand& b, HeadRows& c) {
  const device::Product product{.m = e.m,
                                .n = e.n,
                                .k = e.k,
                                .a = a.part(0),
                                .b = b.part(0),
                                .alpha = alpha,
                                .batch =
                                    device::merged_axes<3>(part.extent, {c.strides, a.rows.strides, b.rows.strides})};
  device::start_product(call.name, product, c.tensor, c.offset, c.ld);
}

/// The same, added up over the heads of each group, in their order.
void multiply_groups(const Call& call, const Part& part, const ProductExtents& e, double alpha, const Operand& a,
                     const Operand& b, HeadRows& c) {
  const Shape strides[] = {without_last(c.strides), without_last(a.rows.strides), without_last(b.rows.strides)};
  for (std::int64_t member = 0; member < part.extent[-1]; ++member) {
    const device::Product product{
        .m = e.m,
        .n = e.n,
        .k = e.k,
        .a = a.part(member * a.rows.strides[-1]),
        .b = b.part(member * b.rows.strides[-1]),
        .alpha = alpha,
        .accumulate = member > 0,
        .batch = device::merged_axes<3>(without_last(part.extent), {strides[0], strides[1], strides[2]})};
    device::start_product(call.name, product, c.tensor, c.offset, c.ld);
  }
}

/// Under MatmulPrecision::bf16, f32 operands of products (packed then, see readable()) are rounded first.
HeadRows rounded(HeadRows x) {
  x.tensor = device::rounded_operand(x.tensor);
  return x;
}

// --- the steps between them ---

std::byte* moved(Tensor& x, std::int64_t elements, const char* writer) {
  return x.mutable_device_bytes(writer) + elements * static_cast<std::int64_t>(size_of(x.dtype()));
}
const std::byte* moved(const Tensor& x, std::int64_t elements) {
  return x.device_bytes() + elements * static_cast<std::int64_t>(size_of(x.dtype()));
}

/// Strides of x as if it were broadcast to `shape`: 0 where it repeats.
Shape broadcast_strides(const Tensor& x, const Shape& shape) {
  Shape strides = shape;
  for (int back = 1; back <= shape.rank(); ++back)
    strides[-back] = x.rank() < back || x.shape()[-back] == 1 ? 0 : x.strides()[-back];
  return strides;
}

/// The scores of a part become probabilities: by the softmax, which gives lse, or by an lse that is known.
void to_probabilities(const Call& call, const Part& part, HeadRows& scores, Tensor* given, const Tensor* known) {
  const Extents& e = call.extents;
  const std::int64_t first = part.offset(contiguous_strides(call.heads));
  device::AttentionScoresJob job{.type = scores.tensor.dtype(),
                                 .scores = scores.tensor.mutable_device_bytes(call.name),
                                 .heads = part.heads(),
                                 .queries = e.queries,
                                 .keys = e.keys,
                                 .first_head = first,
                                 .lse_to = given != nullptr ? moved(*given, first * e.queries, call.name) : nullptr,
                                 .lse_from = known != nullptr ? moved(*known, first * e.queries) : nullptr,
                                 .causal = e.causal,
                                 .mask = nullptr,
                                 .mask_is_boolean = false,
                                 .mask_heads = {},
                                 .mask_row = 0,
                                 .mask_column = 0};
  if (call.mask.defined()) {
    const Shape strides = broadcast_strides(call.mask, call.scores);
    job.mask = call.mask.device_bytes();
    job.mask_is_boolean = call.mask.dtype() == DType::boolean;
    job.mask_heads = device::merged_axes<1>(leading_axes(call.scores, 2), {leading_axes(strides, 2)});
    job.mask_row = strides[-2];
    job.mask_column = strides[-1];
  }
  device::launch(scores.tensor.device(), call.name, &device::Table::attention_scores, job);
}

/// ds = s (ds - rowsum(g y) + dlse); y and g begin at the part's first head.
void to_score_gradients(const Call& call, const Part& part, const Tensor& s, Tensor& ds, const HeadRows& g,
                        const HeadRows& y, const Tensor& dlse) {
  const Extents& e = call.extents;
  const std::int64_t first = part.offset(contiguous_strides(call.heads));
  const device::ScoreGradientJob job{.type = s.dtype(),
                                     .s = s.device_bytes(),
                                     .ds = ds.mutable_device_bytes(call.name),
                                     .heads = part.heads(),
                                     .queries = e.queries,
                                     .keys = e.keys,
                                     .value_dim = e.value_dim,
                                     .g = moved(g.tensor, g.offset),
                                     .y = moved(y.tensor, y.offset),
                                     .g_row = g.ld,
                                     .y_row = y.ld,
                                     .dlse = dlse.defined() ? moved(dlse, first * e.queries) : nullptr,
                                     .begins = device::merged_axes<2>(part.extent, {g.strides, y.strides})};
  device::launch(s.device(), call.name, &device::Table::score_gradient, job);
}

/// dmask = ds [heads, Tq, Tk] of all heads, summed over what the mask repeats.
void sum_to_mask(const Call& call, const Tensor& ds, Tensor& dmask) {
  if (dmask.numel() == 0) return;
  const Shape of_mask = broadcast_strides(dmask, call.scores), strides = contiguous_strides(call.scores);
  Shape kept = call.scores, summed = call.scores;
  for (int axis = 0; axis < kept.rank(); ++axis) (of_mask[axis] == 0 ? kept : summed)[axis] = 1;
  const device::SumRepeatsJob job{.type = ds.dtype(),
                                  .x = ds.device_bytes(),
                                  .y = dmask.mutable_device_bytes(call.name),
                                  .kept = device::merged_axes<1>(kept, {strides}),
                                  .summed = device::merged_axes<1>(summed, {strides})};
  device::launch(ds.device(), call.name, &device::Table::sum_repeats, job);
}

} // namespace

Tensor readable(const Tensor& x) {
  return matmul_precision() == MatmulPrecision::bf16 ? packed(x) : attention_parts::with_rows(x);
}

Shape head_axes(const Tensor& x, std::int64_t group) {
  Shape axes = leading_axes(x.shape(), 2);
  if (axes.rank() == 0) axes.push_back(1);
  axes[-1] /= group;
  axes.push_back(group);
  return axes;
}

HeadRows rows_of(const Tensor& x, std::int64_t group, bool shared) {
  Shape strides = leading_axes(x.strides(), 2);
  if (strides.rank() == 0) strides.push_back(0);
  const std::int64_t head = strides[-1];
  if (!shared) strides[-1] = head * group;
  strides.push_back(shared ? 0 : head);
  const bool one = x.shape()[-2] <= 1; // a row has no next one, but is no shorter than it is
  return {x, 0, std::max<std::int64_t>(one ? x.shape()[-1] : x.strides()[-2], 1), strides};
}

HeadRows columns_of(const Tensor& x, std::int64_t heads, std::int64_t head_dim, std::int64_t first) {
  HeadRows rows = rows_of(x, 1, false);
  Shape strides = leading_axes(x.strides(), 2);
  strides.push_back(heads == 1 ? 0 : head_dim);
  strides.push_back(0);
  return {x, first, rows.ld, strides};
}

void forward(const Call& call, HeadRows y, Tensor& lse) {
  const Extents& e = call.extents;
  if (e.queries == 0) return;
  const HeadRows q = rounded(call.q), k = rounded(call.k), v = rounded(call.v);
  for (const Part& part : parts_of(call, call.score_bytes)) {
    HeadRows scores = scores_of(call, part), to = part.of(y);
    multiply(call, part, {e.queries, e.keys, e.head_dim}, e.scale, {part.of(q)}, {part.of(k), true}, scores);
    to_probabilities(call, part, scores, &lse, nullptr);
    multiply(call, part, {e.queries, e.value_dim, e.keys}, 1.0, {rounded(scores)}, {part.of(v)}, to);
  }
}

void backward(const Call& call, const Cotangents& given, GradientsOfHeads out) {
  const Extents& e = call.extents;
  const bool wants_mask = out.dmask != nullptr;
  const HeadRows q = rounded(call.q), k = rounded(call.k), v = rounded(call.v), g = rounded(given.g);
  Tensor all = Tensor::empty({0}, call.q.tensor.dtype(), call.q.tensor.device()); // score gradients of all heads
  // The gradient of a mask is summed over heads: those of all are kept for it.
  for (const Part& part : parts_of(call, wants_mask ? INT64_MAX : call.score_bytes)) {
    HeadRows s = scores_of(call, part), ds = scores_of(call, part);
    HeadRows dq = part.of(out.dq), dk = part.of(out.dk), dv = part.of(out.dv);
    const HeadRows of_q = part.of(q), of_k = part.of(k), of_g = part.of(g);
    if (e.queries > 0) {
      multiply(call, part, {e.queries, e.keys, e.head_dim}, e.scale, {of_q}, {of_k, true}, s);
      to_probabilities(call, part, s, nullptr, &given.lse);
      multiply(call, part, {e.queries, e.keys, e.value_dim}, 1.0, {of_g}, {part.of(v), true}, ds);
      to_score_gradients(call, part, s.tensor, ds.tensor, part.of(given.g), part.of(given.y), given.dlse);
    }
    if (wants_mask) all = ds.tensor;
    const HeadRows of_s = rounded(s), of_ds = rounded(ds);
    multiply(call, part, {e.queries, e.head_dim, e.keys}, e.scale, {of_ds}, {of_k}, dq);
    multiply_groups(call, part, {e.keys, e.head_dim, e.queries}, e.scale, {of_ds, true}, {of_q}, dk);
    multiply_groups(call, part, {e.keys, e.value_dim, e.queries}, 1.0, {of_s, true}, {of_g}, dv);
  }
  if (wants_mask) sum_to_mask(call, all, *out.dmask);
}

} // namespace eg::device_attention
