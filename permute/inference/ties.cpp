// Operations whose outputs may hold equal elements though their inputs are in general position: order among equal
// elements goes by place.

#include "core/ops/list.h"
#include "permute/inference/rules.h"

#include <algorithm>
#include <set>
#include <utility>

namespace eg::permute {
namespace {

template <std::size_t n> bool is_one_of(const OpDef* op, const OpDef* const (&rows)[n]) {
  return std::find(std::begin(rows), std::end(rows), op) != std::end(rows);
}

/// Equal outputs for inputs in general position: constant on intervals, whole numbers, filled places, copies.
constexpr const OpDef* tying[] = {&relu_op,
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
                                  &qr_op, // R has zeros below its diagonal
                                  &cholesky_op,
                                  &max_pool2d_op,
                                  &adaptive_max_pool2d_op,
                                  &interpolate_op,
                                  &huber_slope_op,
                                  &reglu_op,
                                  &fmod_op,
                                  &remainder_op,
                                  &relu_backward_op,
                                  &hardswish_backward_op,
                                  &quantize_int8_op,
                                  &dequantize_int8_op,
                                  &one_hot_op,
                                  &scatter_add_op,
                                  &index_select_backward_op,
                                  &bincount_op};
/// Constant along an axis of extent 1.
constexpr const OpDef* normalised[] = {&prod_of_others_op,
                                       &var_op,
                                       &std_op,
                                       &cosine_similarity_op,
                                       &softmax_op,
                                       &log_softmax_op,
                                       &masked_softmax_op,
                                       &layer_norm_op,
                                       &rms_norm_op,
                                       &center_op,
                                       &group_norm_op,
                                       &instance_norm_op,
                                       &batch_norm_op};
/// Sums of an input of full size in general position and one that is not computed of it are in general position.
constexpr const OpDef* sums[] = {&add_op, &sub_op};
/// An output may have more elements than each input and hold none twice.
constexpr const OpDef* products[] = {&matmul_op, &linear_op, &linear_gelu_op,
                                     &conv2d_op, &einsum_op, &scaled_dot_product_attention_op};

/// A factor, slope or exponent of 0: one number throughout, or on one side of 0.
bool is_flattened(const Call& call) {
  constexpr std::pair<const OpDef*, const char*> factors[] = {
      {&affine_op, "scale"}, {&pow_scalar_op, "exponent"}, {&leaky_relu_op, "negative_slope"}, {&elu_op, "alpha"}};
  for (const auto& [op, name] : factors)
    if (call.event.op == op && call.attrs().real(name) == 0.0) return true;
  if (is_one_of(call.event.op, sums)) return false;
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    if (!call.in[i].constant || !call.given(i) || !is_floating(call.event.in[i].dtype())) continue;
    if (call.event.in[i].numel() == 1 && call.event.in[i].to(DType::f64).reshape({}).item() == 0.0) return true;
  }
  return false;
}

/// Rows that see nothing are zeros, and those that see one place hold what is there, whatever the queries are.
bool is_causal(const Call& call) { return call.attrs().has("causal") && call.attrs().flag("causal"); }

/// A floating input that depends on leaves.
bool is_computed(const Call& call, std::size_t i) {
  return call.given(i) && !call.in[i].constant && is_floating(call.event.in[i].dtype());
}

/// The base of all computed inputs, where it is one; and how many inputs these are.
std::pair<std::uint64_t, std::int64_t> common_base(const Call& call) {
  std::uint64_t base = 0;
  std::int64_t inputs = 0;
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    if (!is_computed(call, i)) continue;
    if (inputs++ == 0) base = call.in[i].base;
    if (call.in[i].base != base) base = 0;
  }
  return {base, inputs};
}

bool meets_itself(const Call& call) {
  const auto [base, inputs] = common_base(call);
  return base != 0 && inputs > 1;
}

bool has_narrow_axis(const Shape& shape) { return std::find(shape.begin(), shape.end(), 1) != shape.end(); }

/// What is normalised together is one number.
bool normalises_one(const Call& call) {
  const Shape& x = call.in_shape(0);
  if (call.event.op == &group_norm_op) return x.numel() == x[0] * call.attrs().integer("groups");
  return is_one_of(call.event.op, normalised) && has_narrow_axis(x);
}

/// Queries that see one key get its value; places that a mask of booleans closes are zeros.
bool is_masked(const Call& call) {
  constexpr const OpDef* fused[] = {&scaled_dot_product_attention_op, &attention_qkv_op};
  const bool attention = is_one_of(call.event.op, fused);
  if (attention && call.in_shape(call.event.op == &attention_qkv_op ? 0 : 1)[-2] == 1) return true;
  if (!attention && call.event.op != &masked_softmax_op) return false;
  return std::any_of(call.event.in.begin(), call.event.in.end(),
                     [](const Tensor& t) { return t.defined() && t.dtype() == DType::boolean; });
}

/// Some windows may lie in the padding.
bool sees_padding_alone(const Call& call) {
  if (call.event.op != &conv2d_op) return false;
  const std::vector<std::int64_t>&padding = call.attrs().integers("padding"),
        &dilation = call.attrs().integers("dilation");
  for (std::size_t k = 0; k < padding.size(); ++k) {
    const std::int64_t step = dilation.empty() ? 1 : dilation[k % dilation.size()];
    const std::int64_t window = std::min(call.in_shape(1)[-1], call.in_shape(1)[-2]);
    if (padding[k] > step * (window - 1)) return true;
  }
  return false;
}

/// It looks up by numbers that are computed, or constants that repeat.
bool repeats_numbers(const Call& call) {
  if (call.in.size() < 2 || !call.given(1) || call.event.in[1].dtype() != DType::i64) return false;
  if (!call.in[1].constant) return call.in[1].ties;
  const std::vector<std::int64_t> numbers = numbers_of(call.event.in[1]);
  return std::set<std::int64_t>(numbers.begin(), numbers.end()).size() < numbers.size();
}

} // namespace

bool is_computed_twice(const Call& call) {
  return meets_itself(call) ||
         std::any_of(call.in.begin(), call.in.end(), [](const TensorPoints& t) { return t.computed_twice; });
}

bool is_normalised(const Call& call, std::size_t o) {
  if (common_base(call).first == 0) return false; // combined with what is in general position
  const bool own = is_one_of(call.event.op, normalised) || call.event.op == &center_op;
  const bool was = std::any_of(call.in.begin(), call.in.end(), [](const TensorPoints& t) { return t.normalised; });
  return own || (was && call.out_shape(o).numel() == call.in_shape(0).numel());
}

std::uint64_t inherited_base(const Call& call) { return common_base(call).first; }

bool may_tie(const Call& call, std::size_t o) {
  const OpDef* const op = call.event.op;
  if (op == nullptr || is_one_of(op, tying) || repeats_numbers(call) || meets_itself(call) || is_flattened(call) ||
      is_causal(call) || is_masked(call) || normalises_one(call) || sees_padding_alone(call))
    return true;
  if (call.given(0) && call.in[0].normalised && common_base(call).first != 0 &&
      (call.out_shape(o).numel() != call.in_shape(0).numel() || op == &cumsum_op || op == &cumprod_op))
    return true; // the sum of a softmax
  if (!is_floating(call.event.out[o].dtype())) return call.given(0) && is_floating(call.event.in[0].dtype());
  bool all = true, any = false, grows = !is_one_of(op, products);
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    if (!call.given(i) || !is_floating(call.event.in[i].dtype())) continue;
    const bool many = call.event.in[i].numel() > 1;
    if (call.in[i].constant && (is_one_of(op, sums) || !many)) continue;
    all = all && (call.in[i].ties || call.event.in[i].numel() < call.out_shape(o).numel()); // a smaller one is repeated
    any = any || call.in[i].ties || call.in[i].constant;                                    // a constant may hold zeros
    grows = grows && (call.in[i].constant || call.event.in[i].numel() < call.out_shape(o).numel());
  }
  return grows || (is_one_of(op, sums) ? all : any);
}

} // namespace eg::permute
