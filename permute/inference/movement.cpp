// Operations that move elements: an output axis holds points of input axes, new ones where nothing of the input is.

#include "core/ops/list.h"
#include "permute/inference/rules.h"

#include <algorithm>
#include <numeric>

namespace eg::permute {
namespace {

int axis_of(const Call& call, std::string_view name = "axis", std::size_t input = 0) {
  const auto axis = static_cast<int>(call.attrs().integer(name));
  return axis < 0 ? axis + call.in_shape(input).rank() : axis;
}

std::vector<std::int64_t> counted(std::int64_t first, std::int64_t count, std::int64_t step = 1) {
  std::vector<std::int64_t> index(static_cast<std::size_t>(count));
  for (std::int64_t& i : index) i = std::exchange(first, first + step);
  return index;
}

void read_reshape(Call& call) { call.out[0] = reshaped(call.points, call.in[0], call.in_shape(0), call.out_shape(0)); }

void read_slice(Call& call) {
  const int axis = axis_of(call);
  std::int64_t start = call.attrs().integer("start");
  if (start < 0) start += call.in_shape(0)[axis];
  call.out[0] = picked(call.points, call.in[0], call.in_shape(0), axis,
                       counted(start, call.out_shape(0)[axis], call.attrs().integer("step")));
}

/// The input's points at `index` along one axis of the output, new ones elsewhere (elements that all are alike).
void read_border(Call& call, int axis, const std::vector<std::int64_t>& index) {
  const std::int64_t n = call.out_shape(0)[axis];
  Shape border = call.in_shape(0);
  border[axis] = n - static_cast<std::int64_t>(index.size());
  const TensorPoints all =
      concatenated(call.points, {call.in[0], fresh_points(call.points, border)}, {call.in_shape(0), border}, axis);
  std::vector<std::int64_t> source(static_cast<std::size_t>(n), -1);
  for (std::size_t i = 0; i < index.size(); ++i)
    source[static_cast<std::size_t>(index[i])] = static_cast<std::int64_t>(i);
  std::int64_t next = static_cast<std::int64_t>(index.size());
  for (std::int64_t& s : source)
    if (s < 0) s = next++;
  call.out[0] = picked(call.points, all, call.out_shape(0), axis, source);
  call.out[0].values = nullptr;
  fix_numbering(call.points, call.in[0], call.reason("what it adds is a number, too"));
}

void read_pad(Call& call) {
  const int axis = axis_of(call);
  read_border(call, axis, counted(call.attrs().integer("before"), call.in_shape(0)[axis]));
}

void read_slice_backward(Call& call) {
  const int axis = axis_of(call);
  read_border(call, axis, counted(call.attrs().integer("start"), call.in_shape(0)[axis], call.attrs().integer("step")));
}

/// Index tensors that are joined number the same things, or nothing that can be renumbered.
std::shared_ptr<Numbering> joined_numbers(Call& call) {
  const std::shared_ptr<Numbering> first = call.in.front().values;
  const bool same = std::all_of(call.in.begin(), call.in.end(), [&](const auto& t) { return t.values == first; });
  if (same) return first;
  for (const TensorPoints& t : call.in) fix_numbering(call.points, t, call.reason("joined with other numbers"));
  return nullptr;
}

/// For each input the first one that is the same tensor.
std::vector<std::size_t> first_of_same(const Call& call) {
  std::vector<std::size_t> first(call.in.size());
  for (std::size_t i = 0; i < first.size(); ++i)
    while (call.event.in[first[i]].id() != call.event.in[i].id()) ++first[i];
  return first;
}

void read_concat(Call& call) {
  std::vector<Shape> shapes;
  for (const Tensor& t : call.event.in) shapes.push_back(t.shape());
  const std::shared_ptr<Numbering> numbers = joined_numbers(call);
  call.out[0] = concatenated(call.points, call.in, shapes, axis_of(call), first_of_same(call));
  call.out[0].values = numbers;
  call.out[0].constant = false;
}

void read_stack(Call& call) {
  const std::shared_ptr<Numbering> numbers = joined_numbers(call);
  auto axis = static_cast<int>(call.attrs().integer("axis"));
  if (axis < 0) axis += call.out_shape(0).rank();
  const std::vector<std::size_t> same = first_of_same(call);
  std::vector<TensorPoints> parts;
  std::vector<Shape> shapes;
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    Shape shape = call.in_shape(i);
    shape.insert(axis, 1);
    parts.push_back(same[i] < i ? parts[same[i]] : reshaped(call.points, call.in[i], call.in_shape(i), shape));
    shapes.push_back(shape);
  }
  call.out[0] = concatenated(call.points, parts, shapes, axis, same);
  call.out[0].values = numbers;
  call.out[0].constant = false;
}

void read_flip(Call& call) {
  call.out[0] = call.in[0];
  for (std::int64_t axis : call.attrs().integers("axes")) {
    if (axis < 0) axis += call.in_shape(0).rank();
    const std::int64_t n = call.in_shape(0)[static_cast<int>(axis)];
    call.out[0] = picked(call.points, call.out[0], call.in_shape(0), static_cast<int>(axis), counted(n - 1, n, -1));
  }
}

TensorPoints rolled(Call& call, const TensorPoints& t, const Shape& shape, int axis, std::int64_t shift) {
  const std::int64_t n = shape[axis];
  std::vector<std::int64_t> index = counted(0, n);
  if (n > 0) std::rotate(index.begin(), index.begin() + ((-shift % n) + n) % n, index.end());
  return picked(call.points, t, shape, axis, index);
}

void read_roll(Call& call) {
  const Shape& shape = call.in_shape(0);
  const std::vector<std::int64_t>&shifts = call.attrs().integers("shifts"), &axes = call.attrs().integers("axes");
  if (axes.empty()) {
    const Shape flat{shape.numel()};
    const TensorPoints all = reshaped(call.points, call.in[0], shape, flat);
    call.out[0] = reshaped(call.points, rolled(call, all, flat, 0, shifts[0]), flat, shape);
    return;
  }
  call.out[0] = call.in[0];
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<int>(axes[i] < 0 ? axes[i] + shape.rank() : axes[i]);
    call.out[0] = rolled(call, call.out[0], shape, axis, shifts[i]);
  }
}

void read_repeat_interleave(Call& call) {
  const int axis = axis_of(call);
  std::vector<std::int64_t> index = counted(0, call.out_shape(0)[axis]);
  for (std::int64_t& i : index) i /= call.attrs().integer("repeats");
  call.out[0] = picked(call.points, call.in[0], call.in_shape(0), axis, index);
}

void read_repeat(Call& call) {
  const Shape &to = call.out_shape(0), &from = call.in_shape(0);
  if (to.numel() == 0) {
    call.out[0] = fresh_points(call.points, to);
    return;
  }
  Shape wide = from;
  while (wide.rank() < to.rank()) wide.insert(0, 1);
  call.out[0] = reshaped(call.points, call.in[0], from, wide);
  for (int axis = 0; axis < to.rank(); ++axis) {
    if (wide[axis] == to[axis]) continue;
    std::vector<std::int64_t> index = counted(0, to[axis]);
    for (std::int64_t& i : index) i %= wide[axis];
    call.out[0] = picked(call.points, call.out[0], wide, axis, index);
    wide[axis] = to[axis];
  }
}

/// [B, C, rows p, columns p] with [B, rows, columns, C, p, p] between it and the patches.
struct Grid {
  Shape cut, images, patches;
  Grid(const Shape& image, const Shape& sequence, std::int64_t p)
      : cut{image[0], image[1], image[2] / p, p, image[3] / p, p}, images(image), patches(sequence) {}
  static inline const std::vector<int> to_patches{0, 2, 4, 1, 3, 5}, to_images{0, 3, 1, 4, 2, 5};
  Shape moved() const { return {cut[0], cut[2], cut[4], cut[1], cut[3], cut[5]}; }
};

void read_patchify(Call& call) {
  const Grid g(call.in_shape(0), call.out_shape(0), call.attrs().integer("patch"));
  const TensorPoints cut = reshaped(call.points, call.in[0], g.images, g.cut);
  call.out[0] = reshaped(call.points, transposed(cut, Grid::to_patches), g.moved(), g.patches);
}

void read_unpatchify(Call& call) {
  const Grid g(call.out_shape(0), call.in_shape(0), call.attrs().integer("patch"));
  const TensorPoints cut = reshaped(call.points, call.in[0], g.patches, g.moved());
  call.out[0] = reshaped(call.points, transposed(cut, Grid::to_images), g.cut, g.images);
}

} // namespace

std::span<const OpRule> movement_rules() {
  static constexpr OpRule rules[] = {{&reshape_op, read_reshape},
                                     {&slice_op, read_slice},
                                     {&pad_op, read_pad},
                                     {&slice_backward_op, read_slice_backward},
                                     {&concat_op, read_concat},
                                     {&stack_op, read_stack},
                                     {&flip_op, read_flip},
                                     {&roll_op, read_roll},
                                     {&patchify_op, read_patchify},
                                     {&unpatchify_op, read_unpatchify},
                                     {&repeat_interleave_op, read_repeat_interleave},
                                     {&repeat_op, read_repeat}};
  return rules;
}

bool is_read_whole(const OpDef& op) {
  constexpr const OpDef* all[] = {&einsum_op,   &group_norm_op,           &repeat_op, &repeat_interleave_op,
                                  &nll_loss_op, &cosine_embedding_loss_op};
  return std::find(std::begin(all), std::end(all), &op) != std::end(all);
}

bool reads_as_declared(const Event& event) {
  if (event.op == &scaled_dot_product_attention_op) {
    const Shape &q = event.in[0].shape(), &k = event.in[1].shape();
    return q.rank() < 3 || q[-3] == k[-3];
  }
  if (event.op == &rotary_op) {
    const std::int64_t dims = event.attrs->integer("dims");
    return dims == 0 || dims == event.in[0].size(-1);
  }
  if (event.op == &masked_softmax_op) return !event.attrs->flag("causal");
  constexpr const OpDef* all[] = {&embedding_op,
                                  &index_select_op,
                                  &prod_of_others_op,
                                  &cross_entropy_op,
                                  &nll_loss_op,
                                  &eq_op,
                                  &ne_op,
                                  &lt_op,
                                  &le_op,
                                  &gt_op,
                                  &ge_op};
  return std::find(std::begin(all), std::end(all), event.op) != std::end(all);
}

CallRule rule_of(const OpDef& op) {
  for (const auto& theme : {movement_rules(), index_rules(), attention_rules(), window_rules(), mask_rules()})
    for (const OpRule& rule : theme)
      if (rule.op == &op) return rule.read;
  return nullptr;
}

} // namespace eg::permute
