#pragma once
// Computes attention in exact mode from operations whose sums are order-independent: no online softmax, scores in
// memory.

#include "core/ops/attention/parts.h"

namespace eg::attention_parts {

/// y = softmax(scale q k^T + mask) v and lse, for q [..., Tq, D], k [..., Tk, D], v [..., Tk, Dv] (k and v possibly of
/// fewer heads) and an additive mask, which may be undefined. Queries that see no key give 0, their lse too.
struct ExactForward {
  Tensor y, lse;
};
ExactForward exact_forward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, bool causal,
                           double scale);

/// The gradients of q, k, v and, of the scores' shape, of the mask (the other members stay undefined); dlse and the
/// additive mask may be undefined.
BackwardInputs exact_backward(const BackwardInputs& in, double scale, bool causal);

/// softmax over the last axis with the logarithm of its sum; rows of -infinity give 0 where `masked` says that there
/// may be some.
struct ExactSoftmax {
  Tensor y, lse;
};
ExactSoftmax exact_softmax(const Tensor& scores, bool masked);

/// Part `which` (0 queries, 1 keys, 2 values) of qkv [..., T, 3 H D] as [..., H, T, D], a view.
Tensor heads_of(const Tensor& qkv, std::int64_t heads, std::int64_t which);
/// [..., T, H D] as [..., H, T, D], a view; and back (a copy).
Tensor split_heads(const Tensor& x, std::int64_t heads);
Tensor joined_heads(const Tensor& x);

} // namespace eg::attention_parts
