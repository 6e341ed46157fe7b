#include "core/ops/attention/device_attention.h"

#include "core/device/axes.h"
#include "core/device/module.h"
#include "core/gemm/matmul_precision.h"
#include "core/ops.h"
#include "core/ops/attention/parts.h"
#include "core/ops/row_tools.h"

#include <algorithm>
#include <vector>

namespace eg::device_attention {
namespace {

using attention_kernels::Extents;
using attention_parts::leading_axes;

/// Where the first head begins.
const std::byte* first(const HeadRows& x) {
  return x.tensor.device_bytes() + x.offset * static_cast<std::int64_t>(size_of(x.tensor.dtype()));
}
std::byte* first(HeadRows& x, const char* writer) {
  return x.tensor.mutable_device_bytes(writer) + x.offset * static_cast<std::int64_t>(size_of(x.tensor.dtype()));
}

/// Strides of x as if it were broadcast to `shape`: 0 where it repeats.
Shape broadcast_strides(const Tensor& x, const Shape& shape) {
  Shape strides = shape;
  for (int back = 1; back <= shape.rank(); ++back)
    strides[-back] = x.rank() < back || x.shape()[-back] == 1 ? 0 : x.strides()[-back];
  return strides;
}

Shape without_last(const Shape& x) { return leading_axes(x, 1); }

device::AttentionHeads heads_of(const Call& call) {
  const Extents& e = call.extents;
  const DType type = call.q.tensor.dtype();
  device::AttentionHeads of{.type = type,
                            .rounds = type == DType::f32 && matmul_precision() == MatmulPrecision::bf16,
                            .heads = e.heads,
                            .group = e.group,
                            .queries = e.queries,
                            .keys = e.keys,
                            .head_dim = e.head_dim,
                            .value_dim = e.value_dim,
                            .scale = e.scale,
                            .causal = e.causal,
                            .q = first(call.q),
                            .k = first(call.k),
                            .v = first(call.v),
                            .q_row = call.q.ld,
                            .k_row = call.k.ld,
                            .v_row = call.v.ld,
                            .mask = nullptr,
                            .mask_is_boolean = false,
                            .mask_heads = {},
                            .mask_row = 0,
                            .mask_column = 0};
  if (call.mask.defined()) {
    const Shape strides = broadcast_strides(call.mask, call.scores);
    of.mask = call.mask.device_bytes();
    of.mask_is_boolean = call.mask.dtype() == DType::boolean;
    of.mask_heads = device::merged_axes<1>(leading_axes(call.scores, 2), {leading_axes(strides, 2)});
    of.mask_row = strides[-2];
    of.mask_column = strides[-1];
  }
  return of;
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
  const device::AttentionJob job{
      .of = heads_of(call),
      .y = first(y, call.name),
      .y_row = y.ld,
      .lse = lse.mutable_device_bytes(call.name),
      .begins = device::merged_axes<4>(call.heads, {call.q.strides, call.k.strides, call.v.strides, y.strides})};
  device::launch(lse.device(), call.name, &device::Table::attention, job);
}

void backward(const Call& call, const Cotangents& given, GradientsOfHeads out) {
  const Extents& e = call.extents;
  const DType type = call.q.tensor.dtype();
  const Device device = call.q.tensor.device();
  const Shape &q = call.q.strides, &k = call.k.strides, &v = call.v.strides, &g = given.g.strides;
  Tensor delta = Tensor::empty({e.heads, e.queries}, type, device);
  Tensor ds; // of all heads: the gradient of a mask is summed over them
  if (out.dmask != nullptr) {
    ds = Tensor::empty({e.heads, e.queries, e.keys}, type, device);
    ds.fill(0.0); // tiles above the diagonal are skipped
  }
  const device::AttentionBackwardJob job{
      .of = heads_of(call),
      .y = first(given.y),
      .g = first(given.g),
      .y_row = given.y.ld,
      .g_row = given.g.ld,
      .lse = given.lse.device_bytes(),
      .dlse = given.dlse.defined() ? given.dlse.device_bytes() : nullptr,
      .delta = delta.mutable_device_bytes(call.name),
      .dq = first(out.dq, call.name),
      .dk = first(out.dk, call.name),
      .dv = first(out.dv, call.name),
      .dq_row = out.dq.ld,
      .dk_row = out.dk.ld,
      .dv_row = out.dv.ld,
      .ds = ds.defined() ? ds.mutable_device_bytes(call.name) : nullptr,
      .rows = device::merged_axes<2>(call.heads, {given.y.strides, g}),
      .queries_begin = device::merged_axes<5>(call.heads, {q, k, v, g, out.dq.strides}),
      .keys_begin = device::merged_axes<6>(without_last(call.heads),
                                           {without_last(k), without_last(v), without_last(out.dk.strides),
                                            without_last(out.dv.strides), without_last(q), without_last(g)}),
      .q_member = q[-1],
      .g_member = g[-1]};
  device::launch(device, call.name, &device::Table::attention_backward, job);
  if (out.dmask != nullptr) sum_to_mask(call, ds, *out.dmask);
}

} // namespace eg::device_attention
