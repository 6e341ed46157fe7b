// Attention, rotary positions, norms of groups, grouped convolution and its windows: operations on axes that are joined
// or shared, read as the same on separate axes.

#include "core/ops/list.h"
#include "permute/inference/rules.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>

namespace eg::permute {
namespace {

std::vector<std::int64_t> range(std::int64_t first, std::int64_t last) {
  std::vector<std::int64_t> index(static_cast<std::size_t>(last - first));
  std::iota(index.begin(), index.end(), first);
  return index;
}

/// Another call in place of one: tensors of shapes alone.
struct Rewritten {
  std::vector<Tensor> in, out;
  Event event;
  Call call;

  Rewritten(const Call& from, const OpDef* op, std::vector<Tensor> in_, std::vector<Tensor> out_, const Attrs& attrs,
            std::vector<TensorPoints> points)
      : in(std::move(in_)),
        out(std::move(out_)), event{op, {}, in, out, &attrs}, call{event, from.points, std::move(points), {}} {
    for (const Tensor& t : out)
      call.out.push_back({std::vector<AxisPoints>(static_cast<std::size_t>(t.rank())), {}, false});
  }
  Rewritten(const Rewritten&) = delete;
  Rewritten& operator=(const Rewritten&) = delete;
};

/// Keys or values [.., kv heads, T, D] for each query head.
TensorPoints for_query_heads(Call& call, std::size_t input, std::int64_t heads) {
  const Shape& shape = call.in_shape(input);
  const std::int64_t shared = shape[-3];
  std::vector<std::int64_t> index = range(0, heads);
  for (std::int64_t& i : index) i /= heads / shared;
  return picked(call.points, call.in[input], shape, shape.rank() - 3, index);
}

void read_attention(Call& call) {
  const Shape &q = call.in_shape(0), &k = call.in_shape(1);
  if (q.rank() < 3 || q[-3] == k[-3]) return read_declared(call);
  // Heads of keys and values are the same heads.
  const int heads = k.rank() - 3;
  AxisPoints &of_k = call.in[1].axes[static_cast<std::size_t>(heads)],
             &of_v = call.in[2].axes[static_cast<std::size_t>(heads)];
  const PointsPtr list = independent(call.points, k, of_k);
  call.points.unite(list, independent(call.points, call.in_shape(2), of_v), k[heads]);
  of_k = of_v = {list, {}};
  std::vector<Tensor> in(call.event.in.begin(), call.event.in.end());
  std::vector<TensorPoints> points = call.in;
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
    points[i] = for_query_heads(call, i, q[-3]);
    Shape shape = call.in_shape(i);
    shape[-3] = q[-3];
    in[i] = Tensor::meta(shape, in[i].dtype());
  }
  // Both were picked alike: one list of heads.
  call.points.unite(points[1].axis(heads).points, points[2].axis(heads).points, q[-3]);
  Rewritten wide(call, call.event.op, std::move(in), {call.event.out.begin(), call.event.out.end()}, call.attrs(),
                 std::move(points));
  read_declared(wide.call);
  call.out = std::move(wide.call.out);
}

/// qkv [.., T, 3 H D] as q, k and v [.., H, T, D].
void read_attention_qkv(Call& call) {
  const Shape& shape = call.in_shape(0);
  const int rank = shape.rank();
  const std::int64_t heads = call.attrs().integer("heads"), width = shape[-1] / 3;
  Shape flat = shape, cut = shape;
  flat[-1] = width;
  cut[-1] = heads;
  cut.insert(rank, width / heads);
  std::vector<int> order(static_cast<std::size_t>(rank) + 1);
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[static_cast<std::size_t>(rank) - 1], order[static_cast<std::size_t>(rank) - 2]);
  Shape moved = cut;
  moved[rank - 2] = cut[rank - 1];
  moved[rank - 1] = cut[rank - 2];

  std::vector<Tensor> in(3, Tensor::meta(moved, call.event.in[0].dtype()));
  std::vector<TensorPoints> points;
  for (std::int64_t which = 0; which < 3; ++which) {
    const TensorPoints part =
        picked(call.points, call.in[0], shape, rank - 1, range(which * width, (which + 1) * width));
    points.push_back(transposed(reshaped(call.points, part, flat, cut), order));
  }
  if (call.given(1)) {
    in.push_back(call.event.in[1]);
    points.push_back(call.in[1]);
  }
  const Attrs attrs{{"scale", call.attrs().real("scale")}, {"causal", call.attrs().flag("causal")}};
  Rewritten apart(call, &scaled_dot_product_attention_op, std::move(in),
                  {Tensor::meta(moved, call.event.out[0].dtype()), call.event.out[1]}, attrs, std::move(points));
  read_declared(apart.call);
  call.out[0] = reshaped(call.points, transposed(apart.call.out[0], order), cut, flat);
  call.out[1] = apart.call.out[1];
}

/// The features behind those that turn are left alone.
void read_rotary(Call& call) {
  const Shape& shape = call.in_shape(0);
  const std::int64_t dims = call.attrs().integer("dims"), all = shape[-1];
  if (dims == 0 || dims == all) return read_declared(call);
  const int last = shape.rank() - 1;
  Shape turning = shape, still = shape;
  turning[-1] = dims;
  still[-1] = all - dims;
  const Tensor part = Tensor::meta(turning, call.event.in[0].dtype());
  Rewritten turn(call, call.event.op, {part, call.event.in[1]}, {part}, call.attrs(),
                 {picked(call.points, call.in[0], shape, last, range(0, dims)), call.in[1]});
  read_declared(turn.call);
  call.out[0] =
      concatenated(call.points, {turn.call.out[0], picked(call.points, call.in[0], shape, last, range(dims, all))},
                   {turning, still}, last);
}

/// x [B, G I, H, W], weight [G O, I, h, w], bias [G O] as [B, G, I, ..], [G, O, I, ..], [G, O].
void read_conv2d(Call& call) {
  const std::int64_t groups = call.attrs().integer("groups");
  const Shape &x = call.in_shape(0), &w = call.in_shape(1), &y = call.out_shape(0);
  if (groups == 1 || x.numel() == 0 || y.numel() == 0) return read_declared(call);
  const Shape xs{x[0], groups, x[1] / groups, x[2], x[3]}, ws{groups, w[0] / groups, w[1], w[2], w[3]},
      ys{y[0], groups, y[1] / groups, y[2], y[3]}, bs{groups, w[0] / groups};
  const DType dtype = call.event.in[0].dtype();
  std::vector<Tensor> in{Tensor::meta(xs, dtype), Tensor::meta(ws, dtype)};
  std::vector<TensorPoints> points{reshaped(call.points, call.in[0], x, xs), reshaped(call.points, call.in[1], w, ws)};
  std::vector<Symmetry> legs{{"images", {in_leg(0, 0), out_leg(0, 0)}},
                             {"groups", {in_leg(0, 1), in_leg(1, 0), out_leg(0, 1)}},
                             {"output channels", {in_leg(1, 1), out_leg(0, 2)}},
                             {"input channels", {in_leg(0, 2), in_leg(1, 2)}}};
  for (const Symmetry& s : declared_symmetries(call.event)) // pixels that see no others
    if (s.legs.size() == 2 && s.legs[0].axis >= 2)
      legs.push_back({s.name, {in_leg(0, s.legs[0].axis + 1), out_leg(0, s.legs[1].axis + 1)}});
  if (call.given(2)) {
    in.push_back(Tensor::meta(bs, dtype));
    points.push_back(reshaped(call.points, call.in[2], call.in_shape(2), bs));
    legs[1].legs.push_back(in_leg(2, 0));
    legs[2].legs.push_back(in_leg(2, 1));
  }
  Rewritten cut(call, call.event.op, std::move(in), {Tensor::meta(ys, dtype)}, call.attrs(), std::move(points));
  read_legs(cut.call, legs);
  call.out[0] = reshaped(call.points, cut.call.out[0], ys, y);
}

/// x [N, G C, ...], gain and shift [G C] as [N, G, C, ...], [G, C].
void read_group_norm(Call& call) {
  const Shape& x = call.in_shape(0);
  const std::int64_t groups = call.attrs().integer("groups"), channels = x[1] / groups;
  if (x.numel() == 0) return read_declared(call);
  Shape cut = x;
  cut[1] = groups;
  cut.insert(2, channels);
  const Shape vector{groups, channels};
  const DType dtype = call.event.in[0].dtype();
  std::vector<Tensor> in{Tensor::meta(cut, dtype)};
  std::vector<TensorPoints> points{reshaped(call.points, call.in[0], x, cut)};
  std::vector<Symmetry> legs{{"samples", {in_leg(0, 0), out_leg(0, 0)}},
                             {"groups", {in_leg(0, 1), out_leg(0, 1)}},
                             {"channels of a group", {in_leg(0, 2), out_leg(0, 2)}, {}, true}};
  for (int axis = 3; axis < cut.rank(); ++axis)
    legs.push_back({fmt::format("axis {}", axis), {in_leg(0, axis), out_leg(0, axis)}, {}, true});
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
    in.push_back(call.given(i) ? Tensor::meta(vector, dtype) : Tensor());
    points.push_back(call.given(i) ? reshaped(call.points, call.in[i], call.in_shape(i), vector) : TensorPoints{});
    if (!call.given(i)) continue;
    legs[1].legs.push_back(in_leg(static_cast<int>(i), 0));
    legs[2].legs.push_back(in_leg(static_cast<int>(i), 1));
  }
  std::erase_if(legs, [&](const Symmetry& s) { return cut[s.legs.front().axis] < 2; });
  Rewritten apart(call, call.event.op, std::move(in), {Tensor::meta(cut, dtype)}, call.attrs(), std::move(points));
  read_legs(apart.call, legs);
  call.out[0] = reshaped(call.points, apart.call.out[0], cut, x);
}

/// Windows of x [N, C, H, W] as [N, C, places of a window, windows].
void read_unfold(Call& call) {
  const Shape &x = call.in_shape(0), &y = call.out_shape(0);
  if (x.numel() == 0 || y.numel() == 0) return read_declared(call);
  const Shape cut{x[0], x[1], y[1] / x[1], y[2]};
  Rewritten apart(call, call.event.op, {call.event.in[0]}, {Tensor::meta(cut, call.event.in[0].dtype())}, call.attrs(),
                  {call.in[0]});
  read_legs(apart.call, {{"images", {in_leg(0, 0), out_leg(0, 0)}}, {"channels", {in_leg(0, 1), out_leg(0, 1)}}});
  call.out[0] = reshaped(call.points, apart.call.out[0], cut, y);
}

} // namespace

std::span<const OpRule> attention_rules() {
  static constexpr OpRule rules[] = {{&scaled_dot_product_attention_op, read_attention},
                                     {&attention_qkv_op, read_attention_qkv},
                                     {&rotary_op, read_rotary},
                                     {&group_norm_op, read_group_norm},
                                     {&unfold_op, read_unfold},
                                     {&conv2d_op, read_conv2d}};
  return rules;
}

} // namespace eg::permute
