#include "nn/set_transformer.h"

#include "nn/attention_recorder.h"
#include "nn/config_checks.h"
#include "nn/init.h"

#include <fmt/format.h>

#include <cmath>

namespace eg::nn {
namespace {

constexpr ConfigChecks checks("set transformer");

/// Learned rows [1, count, dim] beside a set.
Tensor learned_rows(const char* field, std::int64_t count, std::int64_t dim, RandomKey key) {
  checks.extent(field, count);
  Tensor rows = Tensor::empty({count, dim});
  init::xavier_uniform(rows, key);
  return rows.reshape({1, count, dim});
}

/// x for each of `batch` sets.
Tensor for_all(const Tensor& x, std::int64_t batch) {
  return x.size(0) == batch ? x : x.expand({batch, x.size(1), x.size(2)});
}

void check_sets(const char* name, const Tensor& x, std::int64_t dim) {
  if (!x.defined() || x.rank() != 3 || x.size(2) != dim)
    throw ShapeError(fmt::format("set transformer: {} must be [batch, elements, {}], not {}", name, dim,
                                 x.defined() ? x.shape().str() : "undefined"));
}

/// valid [B, S] as a mask against scores [B, heads, T, S]; undefined: all are seen.
Tensor mask_of(const Tensor& valid, const Tensor& y) {
  if (!valid.defined()) return {};
  if (valid.dtype() != DType::boolean)
    throw DTypeError(fmt::format("set transformer: valid must be bool, it is {}", eg::name_of(valid.dtype())));
  if (valid.shape() != Shape{y.size(0), y.size(1)})
    throw ShapeError(fmt::format("set transformer: valid must be [{}, {}], one for each element, not {}", y.size(0),
                                 y.size(1), valid.shape().str()));
  return valid.reshape({y.size(0), 1, 1, y.size(1)});
}

} // namespace

void check(const SetBlockConfig& c) {
  checks.extent("dim", c.dim);
  checks.extent("heads", c.heads, limits::heads);
  checks.extent("hidden", c.hidden);
  checks.head_dim(c.head_dim, c.dim, c.heads);
  checks.epsilon("norm_eps", c.norm_eps);
}

void check(const SetTransformerConfig& c) {
  check(c.block);
  checks.extent("inputs", c.inputs);
  checks.extent("outputs", c.outputs);
  checks.extent("seeds", c.seeds);
  if (c.inducing != 0) checks.extent("inducing", c.inducing);
  checks.count("layers", c.layers, limits::layers);
  checks.count("decoder_layers", c.decoder_layers, limits::layers);
}

CrossAttention::CrossAttention(std::int64_t dim_, std::int64_t heads_, std::int64_t head_dim_, RandomKey key)
    : dim(dim_), heads(heads_), head_dim(head_dim_), q(dim_, heads_ * head_dim_, key.fold(0)),
      kv(dim_, 2 * heads_ * head_dim_, key.fold(1)), proj(heads_ * head_dim_, dim_, key.fold(2)) {
  register_module("q", q);
  register_module("kv", kv);
  register_module("proj", proj);
}

Tensor CrossAttention::operator()(const Tensor& x, const Tensor& y, const Tensor& valid) const {
  const Scope scope(*this);
  check_sets("x", x, dim);
  check_sets("y", y, dim);
  const std::int64_t batch = y.size(0), rows = x.size(1);
  if (x.size(0) != batch && x.size(0) != 1)
    throw ShapeError(fmt::format("set transformer: x and y differ in their number of sets: x is {}, y is {}",
                                 x.shape().str(), y.shape().str()));
  const Tensor mask = mask_of(valid, y);
  // [B, T, heads, head_dim] seen as [B, heads, T, head_dim]: attention reads views in place.
  const Tensor queries = for_all(q(x), batch).reshape({batch, rows, heads, head_dim}).transpose(1, 2);
  const Tensor both = kv(y).reshape({batch, y.size(1), 2, heads, head_dim}).permute({2, 0, 3, 1, 4});
  const AttentionOptions options{.scale = 0.0, .mask = mask, .causal = false};
  const Tensor keys = both.select(0, 0), values = both.select(0, 1);
  const Tensor seen = scaled_dot_product_attention(queries, keys, values, options);
  const Tensor z =
      called({&x, &y, &valid}, proj(seen.transpose(1, 2).reshape({batch, rows, heads * head_dim}), for_all(x, batch)));
  if (AttentionRecorder* recorder = AttentionRecorder::current()) {
    const AttentionParts parts = attention_explicit(queries, keys, values, options);
    recorder->add(
        {{.q = queries,
          .k = keys,
          .v = values,
          .scores = parts.scores,
          .a = parts.output,
          .output = proj.without_hooks(parts.output.transpose(1, 2).reshape({batch, rows, heads * head_dim}))},
         1.0 / std::sqrt(static_cast<double>(head_dim))});
  }
  return z;
}

Mab::Mab(const SetBlockConfig& c, RandomKey key)
    : config(checked(c)), attention(c.dim, c.heads, c.width_of_head(), key.fold(0)),
      mlp(c.dim, c.hidden, c.activation, key.fold(1)) {
  register_module("attention", attention);
  if (c.norm) {
    norm1 = std::make_unique<LayerNorm>(c.dim, c.norm_eps);
    norm2 = std::make_unique<LayerNorm>(c.dim, c.norm_eps);
    register_module("norm1", *norm1);
  }
  register_module("mlp", mlp);
  if (c.norm) register_module("norm2", *norm2);
}

Tensor Mab::operator()(const Tensor& x, const Tensor& y, const Tensor& valid) const {
  const Scope scope(*this);
  const Tensor sum = attention(x, y, valid);
  const Tensor h = norm1 ? (*norm1)(sum) : sum;
  const Tensor z = mlp(h, h);
  return called({&x, &y, &valid}, norm2 ? (*norm2)(z) : z);
}

Sab::Sab(const SetBlockConfig& config, RandomKey key) : mab(config, key) { register_module("mab", mab); }

Tensor Sab::operator()(const Tensor& x, const Tensor& valid) const {
  const Scope scope(*this);
  return called({&x, &valid}, mab(x, x, valid));
}

Isab::Isab(const SetBlockConfig& config, std::int64_t m, RandomKey key)
    : inducing(learned_rows("inducing", m, checked(config).dim, key.fold(0))), to_points(config, key.fold(1)),
      from_points(config, key.fold(2)) {
  register_parameter("inducing", inducing);
  register_module("to_points", to_points);
  register_module("from_points", from_points);
}

Tensor Isab::operator()(const Tensor& x, const Tensor& valid) const {
  const Scope scope(*this);
  return called({&x, &valid}, from_points(x, to_points(inducing, x, valid)));
}

Pma::Pma(const SetBlockConfig& config, std::int64_t k, RandomKey key)
    : seeds(learned_rows("seeds", k, checked(config).dim, key.fold(0))),
      mlp(config.dim, config.hidden, config.activation, key.fold(1)), mab(config, key.fold(2)) {
  register_parameter("seeds", seeds);
  register_module("mlp", mlp);
  register_module("mab", mab);
}

Tensor Pma::operator()(const Tensor& z, const Tensor& valid) const {
  const Scope scope(*this);
  return called({&z, &valid}, mab(seeds, mlp(z), valid));
}

SetTransformer::SetTransformer(const SetTransformerConfig& c, RandomKey key)
    : config(checked(c)), input(c.inputs, c.block.dim, key.fold(0)), pooling(c.block, c.seeds, key.fold(1)),
      head(c.block.dim, c.outputs, key.fold(2)) {
  register_module("input", input);
  const auto add = [&](auto& list, const char* name, std::int64_t i, auto block) {
    list.push_back(std::move(block));
    register_module(fmt::format("{}.{}", name, i), *list.back());
  };
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const RandomKey own = key.fold(3).fold(static_cast<std::uint64_t>(i));
    if (c.inducing > 0)
      add(induced, "encoder", i, std::make_unique<Isab>(c.block, c.inducing, own));
    else
      add(encoder, "encoder", i, std::make_unique<Sab>(c.block, own));
  }
  register_module("pooling", pooling);
  for (std::int64_t i = 0; i < c.decoder_layers; ++i)
    add(decoder, "decoder", i, std::make_unique<Sab>(c.block, key.fold(4).fold(static_cast<std::uint64_t>(i))));
  register_module("head", head);
}

Tensor SetTransformer::encode(const Tensor& x, const Tensor& valid) const {
  const Scope scope(*this);
  Tensor z = input(x);
  for (const auto& block : encoder) z = (*block)(z, valid);
  for (const auto& block : induced) z = (*block)(z, valid);
  return z;
}

Tensor SetTransformer::operator()(const Tensor& x, const Tensor& valid) const {
  const Tensor z = encode(x, valid);
  const Scope scope(*this);
  Tensor pooled = pooling(z, valid);
  for (const auto& block : decoder) pooled = (*block)(pooled);
  return called({&x, &valid}, head(pooled));
}

} // namespace eg::nn
