// Operations that look up by indices: what indices number moves with the axis that they run over.

#include "core/ops/list.h"
#include "permute/inference/rules.h"

#include <limits>

namespace eg::permute {
namespace {

/// [V, D] looked up by constant ids [T]: output [T, D].
void read_embedding(Call& call) {
  if (!call.in[1].constant || call.event.in[1].rank() != 1) return read_declared(call);
  call.out[0] = picked(call.points, call.in[0], call.in_shape(0), 0, numbers_of(call.event.in[1]));
}

void read_index_select(Call& call) {
  auto axis = static_cast<int>(call.attrs().integer("axis"));
  if (axis < 0) axis += call.in_shape(0).rank();
  if (!call.in[1].constant || call.event.in[1].rank() != 1) return read_declared(call);
  call.out[0] = picked(call.points, call.in[0], call.in_shape(0), axis, numbers_of(call.event.in[1]));
}

/// A line looked up by constant places.
void read_gather(Call& call) {
  if (!call.in[1].constant || call.event.in[1].rank() != 1) return read_declared(call);
  call.out[0] = picked(call.points, call.in[0], call.in_shape(0), 0, numbers_of(call.event.in[1]));
}

/// Places of an axis as numbers: they move with the axis.
void read_places(Call& call, int axis, std::size_t output) {
  if (axis < 0) axis += call.in_shape(0).rank();
  const PointsPtr list = independent(call.points, call.in_shape(0), call.in[0].axis(axis));
  read_declared(call, {{0, axis}});
  if (call.in[0].ties) {
    const std::string reason = call.reason("equal elements go by their places");
    if (call.in[0].computed_twice) // gradients go by them
      call.points.fix(*list, reason);
    call.out[output].stay_when_read = list;
    call.out[output].stay_because = reason;
  }
  call.out[output].values = std::make_shared<Numbering>(Numbering{list, {}, {}});
}

/// In the order of places, the result says how places lie to each other.
void read_topk(Call& call) {
  if (call.attrs().flag("sorted")) return read_places(call, static_cast<int>(call.attrs().integer("axis")), 1);
  read_declared(call);
}

void read_sort(Call& call) { read_places(call, static_cast<int>(call.attrs().integer("axis")), 1); }
void read_argsort(Call& call) { read_places(call, static_cast<int>(call.attrs().integer("axis")), 0); }

/// A comparison of indices with one number: those on either side of it stay among themselves.
void read_comparison(Call& call) {
  const TensorPoints& t = call.in[0];
  const bool one_number = t.values != nullptr && call.in[1].constant && call.event.in[1].numel() == 1 &&
                          call.event.in[1].dtype() == DType::i64;
  if (!one_number) return read_declared(call);
  constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min(),
                         most = std::numeric_limits<std::int64_t>::max();
  const std::int64_t number = numbers_of(call.event.in[1]).front(), next = number == most ? most : number + 1;
  const OpDef* const op = call.event.op;
  const NumberRange range{op == &eq_op || op == &ne_op ? number : least, op == &lt_op || op == &ge_op ? number : next,
                          call.reason("compared with a number")};
  if (t.values->points != nullptr)
    keep_range(call.points, *t.values->points, range);
  else
    t.values->ranges.push_back(range);
  call.in[0].values = nullptr;
  read_declared(call);
}

} // namespace

std::span<const OpRule> index_rules() {
  static constexpr OpRule rules[] = {{&embedding_op, read_embedding}, {&index_select_op, read_index_select},
                                     {&gather_op, read_gather},       {&sort_op, read_sort},
                                     {&topk_op, read_topk},           {&argsort_op, read_argsort},
                                     {&argmax_op, read_argsort},      {&argmin_op, read_argsort},
                                     {&max_with_index_op, read_sort}, {&min_with_index_op, read_sort},
                                     {&eq_op, read_comparison},       {&ne_op, read_comparison},
                                     {&lt_op, read_comparison},       {&le_op, read_comparison},
                                     {&gt_op, read_comparison},       {&ge_op, read_comparison}};
  return rules;
}

} // namespace eg::permute
