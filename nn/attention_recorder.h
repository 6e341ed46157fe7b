#pragma once
// Records what attention computes inside models of any kind, for maps and figures.

#include "nn/attention.h"

#include <vector>

namespace eg::nn {

/// softmax's argument without masks: scale Q K^T [B, heads, Tq, Tk], of q [B, heads, Tq, head_dim] and k [B, kv_heads,
/// Tk, head_dim]. Throws ShapeError.
Tensor attention_logits(const Tensor& q, const Tensor& k, double scale);

/// While it lives, every attention that runs on this thread (MultiHeadAttention, CrossAttention of Set Transformers,
/// the vector-wise part of a DIFM) computes its intermediate values once more on the explicit path and leaves them
/// here, in the order of the calls, without dropout. A tape records both passes. Forward hooks run in the first
/// alone, and the second uses the q, k and v that they returned. Scopes nest: the innermost one records.
class AttentionRecorder {
public:
  struct Item {
    MultiHeadAttention::Trace trace;
    double scale = 0.0; ///< factor of Q K^T
    Tensor logits() const { return attention_logits(trace.q, trace.k, scale); }
  };

  AttentionRecorder();
  ~AttentionRecorder();
  AttentionRecorder(const AttentionRecorder&) = delete;
  AttentionRecorder& operator=(const AttentionRecorder&) = delete;

  const std::vector<Item>& items() const { return items_; }
  void add(Item item) { items_.push_back(std::move(item)); }
  /// This thread's innermost one; null for none.
  static AttentionRecorder* current();

private:
  std::vector<Item> items_;
};

} // namespace eg::nn
