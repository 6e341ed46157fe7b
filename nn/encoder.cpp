// Self-attention and the encoder block.

#include "autograd/checkpoint.h"
#include "nn/layers.h"

#include <fmt/format.h>

#include <cmath>

namespace eg::nn {

MultiHeadAttention::MultiHeadAttention(std::int64_t dim_, std::int64_t heads_, std::int64_t head_dim_, RandomKey key,
                                       bool bias)
    : dim(dim_), heads(heads_), head_dim(head_dim_), qkv(dim_, 3 * heads_ * head_dim_, key.fold(0), bias),
      proj(heads_ * head_dim_, dim_, key.fold(1), bias) {
  register_module("qkv", qkv);
  register_module("proj", proj);
}

Tensor MultiHeadAttention::operator()(const Tensor& x, const Tensor& addend) const {
  const Scope scope(*this);
  return proj(attention_qkv(qkv(x), heads, 1.0 / std::sqrt(static_cast<double>(head_dim))), addend);
}

MultiHeadAttention::Trace MultiHeadAttention::trace(const Tensor& x) const {
  const Scope scope(*this);
  const std::int64_t batch = x.size(0), tokens = x.size(1);
  // [B, T, 3, heads, head_dim] -> [3, B, heads, T, head_dim]
  const Tensor parts = qkv(x).reshape({batch, tokens, 3, heads, head_dim}).permute({2, 0, 3, 1, 4});
  Trace t{
      .q = parts.select(0, 0), .k = parts.select(0, 1), .v = parts.select(0, 2), .scores = {}, .a = {}, .output = {}};
  const AttentionParts attention = attention_explicit(t.q, t.k, t.v, 1.0 / std::sqrt(static_cast<double>(head_dim)));
  t.scores = attention.scores;
  t.a = attention.output;
  t.output = proj(t.a.transpose(1, 2).reshape({batch, tokens, heads * head_dim}));
  return t;
}

namespace {
// Far beyond what fits in a machine, and small enough that no product of sizes overflows 64 bits.
constexpr std::int64_t most_width = std::int64_t{1} << 20;
constexpr std::int64_t most_heads = std::int64_t{1} << 12;
} // namespace

void check(const EncoderConfig& c) {
  const auto positive = [](const char* field, std::int64_t value, std::int64_t most) {
    if (value <= 0) throw ValueError(fmt::format("encoder: {} must be positive, not {}", field, value));
    if (value > most) throw ValueError(fmt::format("encoder: {} must be at most {}, not {}", field, most, value));
  };
  positive("dim", c.dim, most_width);
  positive("heads", c.heads, most_heads);
  positive("mlp", c.mlp, most_width);
  if (c.head_dim < 0) throw ValueError(fmt::format("encoder: head_dim must not be negative, not {}", c.head_dim));
  if (c.head_dim > 0) positive("head_dim", c.head_dim, most_width);
  if (c.head_dim == 0 && c.dim % c.heads != 0)
    throw ValueError(fmt::format("encoder: dim {} is not a multiple of heads {}; give head_dim", c.dim, c.heads));
  if (!(c.dropout >= 0.0 && c.dropout < 1.0))
    throw ValueError(fmt::format("encoder: dropout must be in [0, 1), not {}", c.dropout));
  if (!(c.norm_eps > 0.0 && c.norm_eps <= 1.0))
    throw ValueError(fmt::format("encoder: norm_eps must be positive and at most 1, not {}", c.norm_eps));
}

namespace {
const EncoderConfig& checked(const EncoderConfig& config) {
  check(config);
  return config;
}
} // namespace

EncoderBlock::EncoderBlock(const EncoderConfig& c, RandomKey key)
    : config(checked(c)), norm1(c.dim, c.norm_eps), attention(c.dim, c.heads, c.width_of_head(), key.fold(0)),
      norm2(c.dim, c.norm_eps), mlp(c.dim, c.mlp, c.activation, key.fold(1)) {
  register_module("norm1", norm1);
  register_module("attention", attention);
  register_module("norm2", norm2);
  register_module("mlp", mlp);
}

Tensor EncoderBlock::attend(const Tensor& x, RandomKey key) const {
  const Tensor in = config.pre_norm ? norm1(x) : x;
  const Tensor y = drops() ? x + dropout(attention(in), config.dropout, key) : attention(in, x);
  return config.pre_norm ? y : norm1(y);
}

Tensor EncoderBlock::transform(const Tensor& y, RandomKey key) const {
  const Tensor in = config.pre_norm ? norm2(y) : y;
  const Tensor z = drops() ? y + dropout(mlp(in), config.dropout, key) : mlp(in, y);
  return config.pre_norm ? z : norm2(z);
}

Tensor EncoderBlock::operator()(const Tensor& x, RandomKey key) const {
  if (!config.checkpoint || !graph_recording()) return run(x, key);
  // The parameters are those of the forward pass, also when a ParameterScope has ended since.
  const auto again = [this, key, values = parameters()](const Tensor& in) {
    const ParameterScope scope(*this, values);
    return run(in, key);
  };
  return eg::checkpoint(again, x);
}

Tensor EncoderBlock::run(const Tensor& x, RandomKey key) const {
  const Scope scope(*this);
  return transform(attend(x, key.fold(0)), key.fold(1));
}

Tensor EncoderBlock::traced(const Tensor& x, MultiHeadAttention::Trace& trace) const {
  const Scope scope(*this);
  trace = attention.trace(config.pre_norm ? norm1(x) : x);
  const Tensor sum = x + trace.output;
  const Tensor y = config.pre_norm ? sum : norm1(sum);
  const Tensor z = mlp(config.pre_norm ? norm2(y) : y, y);
  return config.pre_norm ? z : norm2(z);
}

} // namespace eg::nn
