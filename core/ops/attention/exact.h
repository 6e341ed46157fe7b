#pragma once
// Attention for exact mode, made of operations whose sums are order-independent: no online softmax, scores in memory.

#include "core/ops/attention/parts.h"

namespace eg::attention_parts {

/// y = softmax(scale q k^T) v and lse, for q [..., Tq, D], k [..., Tk, D], v [..., Tk, Dv].
struct ExactForward {
  Tensor y, lse;
};
ExactForward exact_forward(const Tensor& q, const Tensor& k, const Tensor& v, double scale);

/// The gradients of q, k and v (the other members stay undefined); dlse may be undefined.
BackwardInputs exact_backward(const BackwardInputs& in, double scale);

/// Part `which` (0 queries, 1 keys, 2 values) of qkv [..., T, 3 H D] as [..., H, T, D], a view.
Tensor heads_of(const Tensor& qkv, std::int64_t heads, std::int64_t which);
/// [..., T, H D] as [..., H, T, D], a view; and back (a copy).
Tensor split_heads(const Tensor& x, std::int64_t heads);
Tensor joined_heads(const Tensor& x);

} // namespace eg::attention_parts
