#include "nn/block.h"

#include "autograd/checkpoint.h"
#include "nn/config_checks.h"

#include <fmt/format.h>

namespace eg::nn {
AttentionConfig BlockConfig::attention() const {
  return {.dim = dim,
          .heads = heads,
          .head_dim = width_of_head(),
          .kv_heads = kv_heads,
          .qkv_bias = qkv_bias,
          .proj_bias = proj_bias,
          .causal = causal,
          .scale = attention_scale,
          .dropout = attention_dropout,
          .rotary = rotary};
}

void check(const BlockConfig& c) {
  const ConfigChecks field("encoder");
  field.extent("dim", c.dim);
  field.extent("heads", c.heads, limits::heads);
  field.extent("mlp", c.mlp);
  field.head_dim(c.head_dim, c.dim, c.heads);
  field.share("dropout", c.dropout);
  field.epsilon("norm_eps", c.norm_eps);
  check(c.attention());
}

Block::Block(const BlockConfig& c, RandomKey key)
    : config(checked(c)), norm1(c.norm, c.dim, c.norm_eps), attention(c.attention(), key.fold(0)),
      norm2(c.norm, c.dim, c.norm_eps), mlp(c.dim, c.mlp, c.activation, key.fold(1), c.mlp_bias, c.gated) {
  register_module("norm1", norm1);
  register_module("attention", attention);
  register_module("norm2", norm2);
  register_module("mlp", mlp);
}

Tensor Block::attend(const Tensor& x, const AttentionContext& context, RandomKey key) const {
  const Tensor in = config.pre_norm ? norm1(x) : x;
  const RandomKey weights = key.fold(0); // of the attention weights' dropout
  const Tensor y = drops() ? x + dropout(attention(in, {}, context, weights), config.dropout, key)
                           : attention(in, x, context, weights);
  return config.pre_norm ? y : norm1(y);
}

Tensor Block::transform(const Tensor& y, RandomKey key, bool read) const {
  const Tensor in = config.pre_norm ? norm2(y) : y;
  if (!read && config.pre_norm && !drops()) return mlp.forward_shape_only(in, y);
  const Tensor z = drops() ? y + dropout(mlp(in), config.dropout, key) : mlp(in, y);
  return config.pre_norm ? z : norm2(z);
}

Tensor Block::operator()(const Tensor& x, const AttentionContext& context, RandomKey key) const {
  // A hook may replace what is computed again: it must see the values, once.
  const bool again_later = config.checkpoint && graph_recording() && !context.has_cache() && !has_forward_hooks();
  if (!again_later) return run(x, context, key);
  // The parameters are those of the forward pass, also when a ParameterScope has ended since.
  const auto again = [this, context, key, values = parameters()](const Tensor& in, bool read) {
    const ParameterScope scope(*this, values);
    return run(in, context, key, read);
  };
  return eg::checkpoint(again, x);
}

Tensor Block::run(const Tensor& x, const AttentionContext& context, RandomKey key, bool read) const {
  const Scope scope(*this);
  return called({&x, &context.mask, &context.positions}, transform(attend(x, context, key.fold(0)), key.fold(1), read));
}

Tensor Block::traced(const Tensor& x, MultiHeadAttention::Trace& trace, const AttentionContext& context) const {
  const Scope scope(*this);
  trace = attention.trace(config.pre_norm ? norm1(x) : x, context);
  const Tensor sum = x + trace.output;
  const Tensor y = config.pre_norm ? sum : norm1(sum);
  const Tensor z = mlp(config.pre_norm ? norm2(y) : y, y);
  return config.pre_norm ? z : norm2(z);
}

Tensor run_blocks(const Blocks& blocks, const Tensor& x, const AttentionContext& context, RandomKey key,
                  std::vector<KvCache>* caches) {
  Tensor z = x;
  AttentionContext own = context;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (caches != nullptr) own.cache = &(*caches)[i];
    z = (*blocks[i])(z, own, key.fold(i));
  }
  return z;
}

} // namespace eg::nn
