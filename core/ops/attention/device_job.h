#pragma once
// Defines the arguments of attention on devices.

#include "core/device/job_axes.h"
#include "core/dtype.h"

#include <cstdint>

namespace eg::device {

/// Heads of attention and what hides their keys. Row i of a head lies i*..._row elements behind where the head begins,
/// with unit stride within. Sums are of `type`.
struct AttentionHeads {
  DType type;         ///< f32 or f64
  bool rounds;        ///< operands of products are rounded to bf16 first; f32 alone
  std::int64_t heads; ///< of queries
  std::int64_t group; ///< consecutive heads that share keys and values
  std::int64_t queries, keys, head_dim, value_dim;
  double scale;
  bool causal; ///< query i sees the keys j <= i + keys - queries
  const void *q, *k, *v;
  std::int64_t q_row, k_row, v_row;
  const void* mask; ///< of `type`, added to the scores; or bool (true: seen); or null
  bool mask_is_boolean;
  Axes<1> mask_heads; ///< where the mask of a head begins
  std::int64_t mask_row, mask_column;
};

/// y = softmax(scale q k^T + mask) v and lse [heads, queries], packed. A query that sees nothing gets 0, lse 0.
struct AttentionJob {
  AttentionHeads of;
  void* y;
  std::int64_t y_row;
  void* lse;
  Axes<4> begins; ///< of the heads in q, k, v, y
};

/// With S = exp(scale q k^T + mask - lse), delta = rowsum(g y) - dlse, E = S (g v^T - delta):
/// dq = scale E k, dk = scale E^T q, dv = S^T g, the last two summed over the heads of a group, in order.
struct AttentionBackwardJob {
  AttentionHeads of;
  const void *y, *g;
  std::int64_t y_row, g_row;
  const void* lse;  ///< [heads, queries], packed
  const void* dlse; ///< the same, or null
  void* delta;      ///< the same: scratch
  void *dq, *dk, *dv;
  std::int64_t dq_row, dk_row, dv_row;
  void* ds;                        ///< E [heads, queries, keys], packed, zeros before; or null
  Axes<2> rows;                    ///< of the heads in y and g
  Axes<5> queries_begin;           ///< of the heads in q, k, v, g, dq
  Axes<6> keys_begin;              ///< of the first head of each group in k, v, dk, dv, q, g
  std::int64_t q_member, g_member; ///< elements from one head of a group to the next
};

/// y[i] = sum of x over the axes that y's shape repeats: element j of `summed` behind element i of `kept`. y is packed.
struct SumRepeatsJob {
  DType type;
  const void* x;
  void* y;
  Axes<1> kept, summed; ///< of x
};

} // namespace eg::device
