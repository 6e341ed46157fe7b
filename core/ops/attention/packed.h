#pragma once
// Shares what attention_qkv and its backward op have in common, with queries, keys and values packed in one tensor qkv
// [..., T, 3 H D]. These are checks, samples and symmetries.

#include "core/op.h"
#include "core/ops/attention/device_attention.h"
#include "core/ops/attention/parts.h"

#include <cstdint>
#include <initializer_list>
#include <vector>

namespace eg::packed_attention {

/// Index of the mask among the inputs of the two rows.
inline constexpr std::size_t forward_mask = 1, backward_mask = 5;

/// Extents of a packed call.
struct Packed {
  std::int64_t batch, tokens, heads, head_dim;
  double scale;
  bool causal;

  std::int64_t width() const { return heads * head_dim; }
  attention_kernels::Extents extents() const {
    return {batch * heads, tokens, tokens, head_dim, head_dim, scale, causal};
  }
};

/// Checks qkv (input 0) and the attribute heads. Throws ShapeError, DTypeError or ValueError.
Packed packed_extents(const OpArgs& args);
/// The call on a device; the mask is input `mask`.
device_attention::Call device_call(const OpArgs& args, std::size_t mask);
/// [..., T, H D] for qkv [..., T, 3 H D].
Shape output_shape(const Shape& qkv);
/// [..., H, T]
Shape lse_shape(const Shape& qkv, std::int64_t heads);
/// [..., H, T, T]
Shape scores_shape(const Shape& qkv, std::int64_t heads);

/// Columns [first, ...) of a matrix.
template <class T> attention_kernels::Rows<T> columns_from(attention_kernels::Rows<T> m, std::int64_t first) {
  return {m.data + first, m.ld};
}

/// Scores times (2 products head_dim + per_score) operations.
Work work_of(const OpArgs& args, std::span<const TensorSpec> out, double products, double per_score);

/// The attribute heads alone.
Attrs heads_of(std::int64_t heads);
/// Samples of the forward row.
std::vector<Sample> samples(DType dtype);
/// What a permutation of tokens, or of a leading axis, moves: inputs and outputs with the layout of qkv or, where
/// `lse`, like lse; the axes of the mask (input `mask`) are permuted with them, and those of its gradient.
struct Carried {
  struct Part {
    int index;
    bool lse = false;
  };
  std::vector<Part> in, out;
  std::size_t mask;
};
/// Tokens and leading axes. Features and heads are packed in one axis, where no single permutation acts.
std::vector<Symmetry> symmetries_of(const Sample& sample, const Carried& carried);

} // namespace eg::packed_attention
