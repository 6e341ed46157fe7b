#include "core/ops/attention/exact.h"

#include "core/ops.h"

namespace eg::attention_parts {

ExactForward exact_forward(const Tensor& q, const Tensor& k, const Tensor& v, double scale) {
  const Tensor scores = matmul(q, k, false, true) * scale;
  if (scores.numel() == 0)
    return {Tensor::zeros(matmul(scores, v).shape(), q.dtype()),
            Tensor::zeros(leading_axes(scores.shape(), 1), q.dtype())};
  const Tensor largest = max(scores, -1, true);
  const Tensor e = exp(scores - largest);
  const Tensor total = sum(e, {-1}, true);
  return {matmul(e / total, v), squeeze(largest + log(total), -1)};
}

BackwardInputs exact_backward(const BackwardInputs& in, double scale) {
  const Tensor s = exp(matmul(in.q, in.k, false, true) * scale - unsqueeze(in.lse, -1));
  Tensor inner = matmul(in.g, in.v, false, true) - sum(in.g * in.y, {-1}, true);
  if (in.dlse.defined()) inner = inner + unsqueeze(in.dlse, -1);
  const Tensor d = s * inner * scale;
  BackwardInputs gradients;
  gradients.q = matmul(d, in.k);
  gradients.k = matmul(d, in.q, true, false);
  gradients.v = matmul(s, in.g, true, false);
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
