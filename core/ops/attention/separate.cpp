#include "core/ops/attention/separate.h"

#include "core/ops.h"
#include "core/ops/row_tools.h"

#include <fmt/format.h>

namespace eg::separate_attention {

using namespace attention_parts;
using attention_kernels::Extents;

std::int64_t group_of(const Shape& q, const Shape& k) {
  if (q.rank() < 3) return 1;
  if (q[-3] == k[-3]) return 1;
  return k[-3] > 0 && q[-3] % k[-3] == 0 ? q[-3] / k[-3] : 0;
}

Shape scores_shape(const OpArgs& args) {
  Shape shape = args.in[0].shape();
  shape[-1] = args.in[1].shape()[-2];
  return shape;
}

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

device_attention::Call device_call(const OpArgs& args, std::size_t mask) {
  using namespace device_attention;
  const Extents e = extents(args);
  const Tensor q = with_rows(args.in[0]);
  return {args.op.name.data(),
          e,
          head_axes(q, e.group),
          scores_shape(args),
          rows_of(q, e.group, false),
          rows_of(with_rows(args.in[1]), 1, true),
          rows_of(with_rows(args.in[2]), 1, true),
          args.given(mask) ? args.in[mask] : Tensor()};
}

Shape output_shape(const OpArgs& args) {
  Shape shape = args.in[0].shape();
  shape[-1] = args.in[2].shape()[-1];
  return shape;
}

Work work_of(const OpArgs& args, std::span<const TensorSpec> out, double per_head_dim, double per_value_dim,
             double per_score) {
  const Extents e = extents(args);
  const double scores = static_cast<double>(e.heads) * static_cast<double>(e.queries) * static_cast<double>(e.keys);
  return {scores * (per_head_dim * static_cast<double>(e.head_dim) + per_value_dim * static_cast<double>(e.value_dim) +
                    per_score),
          bytes_moved(args, out)};
}

namespace {

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

} // namespace

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

} // namespace eg::separate_attention
