#pragma once
// Shares what scaled_dot_product_attention and its backward op have in common, with q, k and v as separate tensors.
// These are checks, samples and symmetries.

#include "core/op.h"
#include "core/ops/attention/device_attention.h"
#include "core/ops/attention/parts.h"

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace eg::separate_attention {

/// Index of the mask among the inputs of the two rows.
inline constexpr std::size_t forward_mask = 3, backward_mask = 7;

/// Heads of q that share one head of k and v; 0 where the numbers do not fit.
std::int64_t group_of(const Shape& q, const Shape& k);
/// [..., Tq, Tk]
Shape scores_shape(const OpArgs& args);
/// The call on a device; the mask is input `mask`.
device_attention::Call device_call(const OpArgs& args, std::size_t mask);
/// [..., Tq, Dv]
Shape output_shape(const OpArgs& args);
/// Checks q, k and v (inputs 0 to 2) against each other, and the mask, input `mask`. Throws ShapeError or DTypeError.
void check_operands(const OpArgs& args, std::size_t mask);
attention_kernels::Extents extents(const OpArgs& args);
/// Scores times (per_head_dim head_dim + per_value_dim value_dim + per_score) operations.
Work work_of(const OpArgs& args, std::span<const TensorSpec> out, double per_head_dim, double per_value_dim,
             double per_score);

/// Samples of the forward row.
std::vector<Sample> samples(DType dtype);
/// Adds a symmetry; `mask_axis` (negative) is the axis of the mask, input `mask`, that is permuted with it where it is
/// longer than 1. Legs of inputs that the sample does not have are left out.
void add_symmetry(std::vector<Symmetry>& all, std::string name, const Sample& sample, std::initializer_list<Leg> legs,
                  std::size_t mask, int mask_axis);

} // namespace eg::separate_attention
