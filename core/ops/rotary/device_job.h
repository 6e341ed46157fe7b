#pragma once
// Defines the arguments of the device kernel of rotary.

#include "core/dtype.h"

#include <cstdint>

namespace eg::device {

/// Turns pairs of features of x [batch, tokens, heads, features] (heads_first: [batch, heads, tokens, features]) by
/// position times frequency; the features from 2 half on stay. Packed; f32 or f64. Element i of the table of angles
/// belongs to position floor(i / half) and frequency i mod half.
struct RotaryJob {
  DType type;
  void* y;
  const void* x;
  const std::int64_t* positions; ///< [tokens], or [batch, tokens] where by_batch
  const double* frequencies;     ///< [half]
  void *cosine, *sine;           ///< scratch: a table of angles each
  std::int64_t position_count;
  std::int64_t batch, tokens, heads, features, half;
  bool heads_first, interleaved, by_batch;
  double sign; ///< of the angles
};

} // namespace eg::device
