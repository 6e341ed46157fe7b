#pragma once
// Defines the arguments of the steps of attention on devices: what happens to scores between the products.

#include "core/device/job_axes.h"
#include "core/dtype.h"

#include <cstdint>

namespace eg::device {

/// scores [heads, queries, keys], packed, become probabilities in place, after the mask is added and hidden keys are
/// left out: softmax(scores), which also gives lse, or exp(scores - lse). A query that sees nothing gets 0, lse 0.
struct AttentionScoresJob {
  DType type;
  void* scores;
  std::int64_t heads, queries, keys;
  std::int64_t first_head; ///< number of the first head among those that mask_heads counts
  void* lse_to;            ///< [heads, queries]: of the softmax; else null
  const void* lse_from;    ///< what is subtracted where lse_to is null
  bool causal;             ///< query i sees the keys j <= i + keys - queries
  const void* mask;        ///< of `type`, or bool (true: seen), or null
  bool mask_is_boolean;
  Axes<1> mask_heads; ///< where the mask of a head begins
  std::int64_t mask_row, mask_column;
};

/// ds_ij = s_ij (ds_ij - delta_i), delta_i = <g_i, y_i> - dlse_i, for s and ds [heads, queries, keys], packed.
struct ScoreGradientJob {
  DType type;
  const void* s;
  void* ds;
  std::int64_t heads, queries, keys, value_dim;
  const void *g, *y; ///< row i of a head i*g_row behind where it begins, unit stride
  std::int64_t g_row, y_row;
  const void* dlse; ///< [heads, queries], or null
  Axes<2> begins;   ///< of the heads in g and y
};

/// y[i] = sum of x over the axes that y's shape repeats: element j of `summed` behind element i of `kept`. y is packed.
struct SumRepeatsJob {
  DType type;
  const void* x;
  void* y;
  Axes<1> kept, summed; ///< of x
};

} // namespace eg::device
