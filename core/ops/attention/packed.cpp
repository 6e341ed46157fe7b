#include "core/ops/attention/packed.h"

#include "core/ops.h"
#include "core/ops/row_tools.h"

#include <fmt/format.h>

namespace eg::packed_attention {

using namespace attention_parts;

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

device_attention::Call device_call(const OpArgs& args, std::size_t mask) {
  const Packed p = packed_extents(args);
  const Tensor qkv = attention_parts::with_rows(args.in[0]);
  const auto part = [&](std::int64_t which) {
    return device_attention::columns_of(qkv, p.heads, p.head_dim, which * p.width());
  };
  const Shape scores = scores_shape(qkv.shape(), p.heads);
  Shape heads = leading_axes(scores, 2);
  heads.push_back(1);
  return {args.op.name.data(),
          p.extents(),
          heads,
          scores,
          part(0),
          part(1),
          part(2),
          args.given(mask) ? args.in[mask] : Tensor()};
}

Shape output_shape(const Shape& qkv) {
  Shape shape = qkv;
  shape[-1] /= 3;
  return shape;
}

Shape lse_shape(const Shape& qkv, std::int64_t heads) {
  Shape shape = leading_axes(qkv, 2);
  shape.push_back(heads);
  shape.push_back(qkv[-2]);
  return shape;
}

Shape scores_shape(const Shape& qkv, std::int64_t heads) {
  Shape shape = lse_shape(qkv, heads);
  shape.push_back(qkv[-2]);
  return shape;
}

Work work_of(const OpArgs& args, std::span<const TensorSpec> out, double products, double per_score) {
  const Packed p = packed_extents(args);
  const double tokens = static_cast<double>(p.tokens);
  const double scores = static_cast<double>(p.batch * p.heads) * tokens * tokens;
  return {scores * (2.0 * products * static_cast<double>(p.head_dim) + per_score), bytes_moved(args, out)};
}

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

namespace {

/// The axes of the mask (input `mask`) that are permuted with an axis of the scores, and of its gradient (output 1).
void add_mask_legs(Symmetry& symmetry, const Sample& sample, std::size_t mask, std::initializer_list<int> axes) {
  if (sample.in.size() <= mask) return;
  for (const int axis : axes) {
    if (sample.in[mask].rank() < -axis || sample.in[mask].shape()[axis] == 1) continue;
    symmetry.legs.push_back(in_leg(static_cast<int>(mask), axis));
    if (mask == backward_mask && sample.attrs.has("mask_gradient")) symmetry.legs.push_back(out_leg(1, axis));
  }
}

} // namespace

std::vector<Symmetry> symmetries_of(const Sample& sample, const Carried& carried) {
  const Shape& shape = sample.in[0].shape();
  std::vector<Symmetry> all;
  const auto add = [&](std::string name, int axis, int lse_axis, std::initializer_list<int> mask_axes) {
    Symmetry symmetry{std::move(name), {}, {}, axis == -2};
    for (const auto& [index, lse] : carried.in) symmetry.legs.push_back(in_leg(index, lse ? lse_axis : axis));
    for (const auto& [index, lse] : carried.out) symmetry.legs.push_back(out_leg(index, lse ? lse_axis : axis));
    add_mask_legs(symmetry, sample, carried.mask, mask_axes);
    all.push_back(std::move(symmetry));
  };
  if (shape[-2] >= 2 && !is_causal(sample)) add("tokens", -2, -1, {-2, -1});
  for (int axis = 0; axis + 2 < shape.rank(); ++axis)
    if (shape[axis] >= 2) add(fmt::format("leading axis {}", axis), axis, axis, {axis - shape.rank() - 1});
  return all;
}

} // namespace eg::packed_attention
