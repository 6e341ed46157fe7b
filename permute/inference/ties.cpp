// Operations whose outputs may hold equal elements though their inputs are in general position: order among equal
// elements goes by place.

#include "core/ops/list.h"
#include "permute/inference/rules.h"

#include <algorithm>
#include <set>

namespace eg::permute {
namespace {

template <std::size_t n> bool is_one_of(const OpDef* op, const OpDef* const (&rows)[n]) {
  return std::find(std::begin(rows), std::end(rows), op) != std::end(rows);
}

/// Constant on intervals of an input, or made of whole numbers.
constexpr const OpDef* flat[] = {&relu_op,
                                 &sign_op,
                                 &floor_op,
                                 &ceil_op,
                                 &trunc_op,
                                 &round_op,
                                 &hardswish_op,
                                 &hardsigmoid_op,
                                 &clamp_op,
                                 &hardtanh_op,
                                 &minimum_op,
                                 &maximum_op,
                                 &eq_op,
                                 &ne_op,
                                 &lt_op,
                                 &le_op,
                                 &gt_op,
                                 &ge_op,
                                 &where_op,
                                 &masked_fill_op,
                                 &dropout_op,
                                 &drop_path_op,
                                 &pad_op,
                                 &slice_backward_op,
                                 &tril_op,
                                 &triu_op,
                                 &max_pool2d_op,
                                 &fmod_op,
                                 &remainder_op,
                                 &relu_backward_op,
                                 &quantize_int8_op,
                                 &dequantize_int8_op,
                                 &one_hot_op,
                                 &scatter_add_op,
                                 &index_select_backward_op,
                                 &bincount_op};
/// Constant along an axis of extent 1.
constexpr const OpDef* normalised[] = {&softmax_op, &log_softmax_op, &masked_softmax_op, &layer_norm_op, &rms_norm_op,
                                       &center_op,  &group_norm_op,  &instance_norm_op,  &batch_norm_op};
/// Sums with an input in general position are in general position.
constexpr const OpDef* sums[] = {&add_op, &sub_op, &lerp_op};
/// An output may have more elements than each input and hold none twice.
constexpr const OpDef* products[] = {&matmul_op, &linear_op, &linear_gelu_op,
                                     &conv2d_op, &einsum_op, &scaled_dot_product_attention_op};

/// Zero or one throughout where both inputs are one tensor.
bool cancels(const Call& call) {
  constexpr const OpDef* differences[] = {&sub_op, &div_op};
  return is_one_of(call.event.op, differences) && call.event.in[0].id() == call.event.in[1].id();
}

bool has_narrow_axis(const Shape& shape) { return std::find(shape.begin(), shape.end(), 1) != shape.end(); }

/// It looks up by numbers that are computed, or constants that repeat.
bool repeats_numbers(const Call& call) {
  if (call.in.size() < 2 || !call.given(1) || call.event.in[1].dtype() != DType::i64) return false;
  if (!call.in[1].constant) return call.in[1].ties;
  const std::vector<std::int64_t> numbers = numbers_of(call.event.in[1]);
  return std::set<std::int64_t>(numbers.begin(), numbers.end()).size() < numbers.size();
}

} // namespace

bool may_tie(const Call& call, std::size_t o) {
  const OpDef* const op = call.event.op;
  if (op == nullptr || is_one_of(op, flat) || repeats_numbers(call) || cancels(call)) return true;
  if (is_one_of(op, normalised) && has_narrow_axis(call.in_shape(0))) return true;
  if (!is_floating(call.event.out[o].dtype())) return call.given(0) && is_floating(call.event.in[0].dtype());
  bool all = true, any = false, grows = !is_one_of(op, products);
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    if (!call.given(i) || !is_floating(call.event.in[i].dtype())) continue;
    const bool many = call.event.in[i].numel() > 1;
    if (call.in[i].constant && (is_one_of(op, sums) || !many)) continue;
    all = all && call.in[i].ties;
    any = any || call.in[i].ties || call.in[i].constant; // a constant may hold zeros
    grows = grows && (call.in[i].constant || call.event.in[i].numel() < call.out_shape(o).numel());
  }
  return grows || (is_one_of(op, sums) ? all : any);
}

} // namespace eg::permute
