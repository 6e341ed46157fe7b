#include "core/ops/attention/exact.h"

#include "core/ops.h"
#include "core/strided.h"

#include <algorithm>
#include <limits>

namespace eg::attention_parts {

namespace {

/// x with every element `from` made `to`.
Tensor with(const Tensor& x, double from, double to) {
  Tensor y = x.contiguous().clone();
  visit_floating(y.dtype(), [&]<class T>() {
    T* const all = y.mutable_data<T>("attention");
    std::replace(all, all + y.numel(), static_cast<T>(from), static_cast<T>(to));
  });
  return y;
}

Tensor exact_scores(const Tensor& q, const Tensor& k, const Tensor& mask, bool causal, double scale) {
  Tensor scores = matmul(q, k, false, true) * scale;
  if (mask.defined()) scores = scores + mask;
  if (causal) scores = scores + causal_mask(q.shape()[-2], k.shape()[-2], q.dtype());
  return scores;
}

std::int64_t group_of(const Tensor& q, const Tensor& k) {
  return q.rank() > 2 && k.shape()[-3] > 0 ? q.shape()[-3] / k.shape()[-3] : 1;
}

} // namespace

ExactSoftmax exact_softmax(const Tensor& scores, bool masked) {
  if (scores.numel() == 0)
    return {Tensor::zeros(scores.shape(), scores.dtype()),
            Tensor::zeros(leading_axes(scores.shape(), 1), scores.dtype())};
  Tensor largest = max(scores, -1, true);
  if (masked) largest = with(largest, -std::numeric_limits<double>::infinity(), 0.0);
  const Tensor e = exp(scores - largest);
  Tensor total = sum(e, {-1}, true);
  if (masked) total = with(total, 0.0, 1.0); // of a row that sees nothing; any other holds a 1
  return {e / total, squeeze(largest + log(total), -1)};
}

ExactForward exact_forward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, bool causal,
                           double scale) {
  const std::int64_t group = group_of(q, k);
  const Tensor scores = exact_scores(q, repeat_heads(k, group), mask, causal, scale);
  const ExactSoftmax s = exact_softmax(scores, mask.defined() || causal);
  return {matmul(s.y, repeat_heads(v, group)), s.lse};
}

BackwardInputs exact_backward(const BackwardInputs& in, double scale, bool causal) {
  const std::int64_t group = group_of(in.q, in.k);
  const Tensor k = repeat_heads(in.k, group), v = repeat_heads(in.v, group);
  const Tensor s = exp(exact_scores(in.q, k, in.mask, causal, scale) - unsqueeze(in.lse, -1));
  Tensor inner = matmul(in.g, v, false, true) - sum(in.g * in.y, {-1}, true);
  if (in.dlse.defined()) inner = inner + unsqueeze(in.dlse, -1);
  const Tensor de = s * inner;
  const Tensor d = de * scale;
  BackwardInputs gradients;
  gradients.q = matmul(d, k);
  gradients.k = sum_groups(matmul(d, in.q, true, false), group);
  gradients.v = sum_groups(matmul(s, in.g, true, false), group);
  gradients.mask = de;
  return gradients;
}

Tensor split_heads(const Tensor& x, std::int64_t heads) {
  Shape shape = x.shape();
  shape[-1] /= heads;
  shape.push_back(shape[-1]);
  shape[-2] = heads;
  return x.reshape(shape).transpose(-3, -2);
}

Tensor heads_of(const Tensor& qkv, std::int64_t heads, std::int64_t which) {
  const std::int64_t width = qkv.shape()[-1] / 3;
  return split_heads(qkv.slice(-1, which * width, (which + 1) * width), heads);
}

Tensor joined_heads(const Tensor& x) {
  const Tensor tokens = x.transpose(-3, -2).contiguous();
  Shape shape = leading_axes(tokens.shape(), 1);
  shape[-1] *= x.shape()[-1];
  return tokens.reshape(shape);
}

} // namespace eg::attention_parts
