// Operations that act as with a constant mask, or whose rows promise less than holds: a row promises equal bits, and
// what holds for every random key.

#include "core/call.h"
#include "core/ops.h"
#include "core/ops/list.h"
#include "permute/inference/patterns.h"
#include "permute/inference/rules.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace eg::permute {
namespace {

/// Each axis of the first input goes with that of the first output, and depends on no other one.
std::vector<Symmetry> all_axes(const Call& call) {
  std::vector<Symmetry> list;
  for (int axis = 0; axis < call.in_shape(0).rank(); ++axis)
    list.push_back({.name = fmt::format("axis {}", axis), .legs = {in_leg(0, axis), out_leg(0, axis)}, .mixes = true});
  return list;
}

/// Nothing is dropped with p = 0. Otherwise places stay, whatever the key: the next step draws another mask.
void read_dropout(Call& call) {
  if (call.attrs().real("p") > 0.0) return read_declared(call);
  std::vector<Symmetry> list = all_axes(call);
  for (Symmetry& s : list) s.mixes = false;
  read_legs(call, std::move(list));
}

/// The factors, too, move with the axis. The row does not say so: its gradient scans the axis, so bits depend on the
/// order.
void read_prod_of_others(Call& call) {
  auto along = static_cast<int>(call.attrs().integer("axis"));
  if (along < 0) along += call.in_shape(0).rank();
  std::vector<Symmetry> list = declared_symmetries(call.event);
  list.push_back({.name = "factors", .legs = {in_leg(0, along), out_leg(0, along)}, .mixes = true});
  read_legs(call, std::move(list));
}

/// The last two axes of the first output move as a table does that has as many rows and columns.
void keep_table(Call& call, const Tensor& table) {
  const TensorPoints& y = call.out[0];
  call.points.add_pattern(
      pattern_of(table, {y.axis(-2).points, y.axis(-1).points},
                 call.reason(fmt::format("another part of each place of {}", table.shape().str()))));
}

Tensor ones_of_last_axes(const Call& call) {
  const Shape& shape = call.in_shape(0);
  return Tensor::full({shape[-2], shape[-1]}, 1.0, DType::f64);
}

/// A triangle of larger matrices is not looked at.
bool is_small_table(const Call& call) {
  constexpr std::int64_t most = 1 << 22; // elements
  const Shape& shape = call.in_shape(0);
  return shape.numel() > 0 && shape[-1] <= most / shape[-2];
}

void read_triangle(Call& call) {
  if (!is_small_table(call)) return read_declared(call);
  read_legs(call, all_axes(call));
  keep_table(call, call1(*call.event.op, {ones_of_last_axes(call)}, call.attrs()));
}

/// A floating mask whose rows along the last axis hold one number each, beside -inf, as one of zeros: softmax does not
/// see a number that is added to a whole row. Nothing for another one.
Tensor without_offsets(const Tensor& mask) {
  if (!is_floating(mask.dtype()) || mask.rank() == 0) return {};
  std::vector<double> values = mask.to(DType::f64).contiguous().to_vector<double>();
  const auto n = static_cast<std::size_t>(mask.size(-1));
  constexpr double open = 0.0;
  for (std::size_t row = 0; row < values.size(); row += n) {
    const auto first = values.begin() + static_cast<std::ptrdiff_t>(row), last = first + static_cast<std::ptrdiff_t>(n);
    const auto own = std::find_if(first, last, [](double v) { return std::isfinite(v); });
    if (own == last) continue; // nothing is seen
    const double number = *own;
    const bool is_one = std::all_of(first, last, [&](double v) { return v == number || (std::isinf(v) && v < 0.0); });
    if (!is_one) return {};
    std::replace(first, last, number, open);
  }
  return Tensor::from(values, mask.shape());
}

void read_masked_softmax(Call& call) {
  const bool causal = call.attrs().flag("causal");
  if (call.given(1) && call.in[1].constant) {
    if (const Tensor seen = without_offsets(call.event.in[1]); seen.defined()) {
      std::vector<PointsPtr> axes;
      for (const AxisPoints& axis : call.in[1].axes) axes.push_back(axis.points);
      call.points.add_pattern(pattern_of(seen, std::move(axes), call.reason("the mask")));
      call.read_otherwise.insert(1);
    }
  }
  if (!causal || !is_small_table(call)) return read_declared(call);
  Attrs open = call.attrs();
  open.set("causal", false);
  Event event = call.event;
  event.attrs = &open;
  std::vector<Symmetry> list = declared_symmetries(event);
  for (Symmetry& s : list) s.mixes = true; // no axis moves in another way for each place of the triangle
  read_legs(call, std::move(list));
  keep_table(call, masked_softmax(ones_of_last_axes(call), {}, true));
}

/// Labels that are constant, where the row promises no symmetry of classes since some rows are ignored.
void read_labels(Call& call) {
  const std::vector<Symmetry> declared = declared_symmetries(call.event);
  const bool has_classes =
      std::any_of(declared.begin(), declared.end(), [](const Symmetry& s) { return !s.values.empty(); });
  if (has_classes || !call.in[1].constant || call.in_shape(0)[-1] < 2) return read_declared(call);
  std::vector<Symmetry> list = declared;
  Symmetry classes{.name = "classes", .legs = {in_leg(0, call.in_shape(0).rank() - 1)}, .mixes = true};
  if (call.given(2)) classes.legs.push_back(in_leg(2, 0)); // weights of classes
  const PointsPtr of_classes = independent(call.points, call.in_shape(0), call.in[0].axis(-1));
  const auto ignored = call.attrs().has("ignore_index") ? call.attrs().integer("ignore_index") : -1;
  if (!keep_indices(call, 1, of_classes, ignored)) return read_declared(call);
  list.push_back(std::move(classes));
  read_legs(call, std::move(list));
}

} // namespace

std::span<const OpRule> mask_rules() {
  static constexpr OpRule rules[] = {
      {&dropout_op, read_dropout},      {&drop_path_op, read_dropout}, {&prod_of_others_op, read_prod_of_others},
      {&tril_op, read_triangle},        {&triu_op, read_triangle},     {&masked_softmax_op, read_masked_softmax},
      {&cross_entropy_op, read_labels}, {&nll_loss_op, read_labels}};
  return rules;
}

} // namespace eg::permute
