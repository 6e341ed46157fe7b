#pragma once
// Caches the keys and values of the tokens that a decoder has processed.

#include "core/ops.h"

namespace eg::nn {

/// Keys and values of one attention layer in memory that is reserved once, for decoding token by token: what is
/// appended is written behind what is there, and attention reads it in place.
///
///     KvCache cache({batch, heads}, 1024, head_dim);
///     cache.append(k, v);                         // k, v [batch, heads, new tokens, head_dim]
///     const Tensor y = cache.attend(q);           // q [batch, query heads, new tokens, head_dim]
///
/// For inference: no gradient flows through what was stored, and a tape that read keys() before an append refuses to
/// use them afterwards. Not for several threads at a time.
class KvCache {
public:
  /// Memory for `capacity` tokens, k [leading..., capacity, head_dim] and v [leading..., capacity, value_dim] (0: as
  /// wide as the keys). Throws ValueError for negative sizes, MemoryError where memory is missing.
  KvCache(const Shape& leading, std::int64_t capacity, std::int64_t head_dim, std::int64_t value_dim = 0,
          DType dtype = DType::f32);

  /// Stores the keys k [leading..., t, head_dim] and values v [leading..., t, value_dim] of t further tokens. Throws
  /// ShapeError or DTypeError when they do not fit, ValueError when the capacity is exceeded; then nothing has changed.
  void append(const Tensor& k, const Tensor& v);

  /// Views of what is stored: [leading..., length, head_dim] and [leading..., length, value_dim].
  Tensor keys() const { return keys_.slice(-2, 0, length_); }
  Tensor values() const { return values_.slice(-2, 0, length_); }

  /// Causal attention of the last tokens, q [leading..., t, head_dim] (possibly with a multiple of the heads), to all
  /// that is stored: query i of t sees the keys up to length - t + i. scale 0 means 1/sqrt(head_dim). mask: as in
  /// scaled_dot_product_attention, against [..., t, length].
  Tensor attend(const Tensor& q, double scale = 0.0, const Tensor& mask = {}) const;

  /// Tokens stored, and capacity.
  std::int64_t length() const { return length_; }
  std::int64_t capacity() const { return keys_.shape()[-2]; }
  /// Forgets all but the first `length` tokens (going back, or starting again). Throws ValueError unless 0 <= length <=
  /// length().
  void truncate(std::int64_t length = 0);

private:
  Tensor keys_, values_;
  std::int64_t length_ = 0;
};

} // namespace eg::nn
