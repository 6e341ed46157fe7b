#include "permute/catalogue/stack.h"

#include "autograd/tape.h"

#include <cmath>
#include <fmt/format.h>

namespace eg::permute {
namespace {

Tensor draw_parameter(const std::string& name, const Shape& shape, Case& c) {
  if (name.ends_with("bias") || shape.rank() > 2) return c.normal(shape, 0.3);
  if (shape.rank() == 1) return c.normal(shape, 0.3, 1.0);
  const double gain = name.find("qkv") != std::string::npos ? 1.0 : 0.7;
  return c.normal(shape, gain / std::sqrt(static_cast<double>(shape[-1])));
}

} // namespace

BlockStack::BlockStack(const nn::BlockConfig& config_, std::int64_t layers, DType dtype) : config(config_) {
  for (std::int64_t i = 0; i < layers; ++i) {
    blocks.push_back(std::make_unique<nn::Block>(config, RandomKey{}));
    register_module(fmt::format("blocks.{}", i), *blocks.back());
  }
  to(dtype);
}

Tensor BlockStack::operator()(const Tensor& z) const {
  Tensor y = z;
  for (const auto& block : blocks) y = (*block)(y);
  return y;
}

nn::BlockConfig encoder_config(const Case& c, std::int64_t head_dim) {
  nn::BlockConfig config;
  config.dim = c.options.dim;
  config.heads = c.options.heads;
  config.head_dim = head_dim > 0 ? head_dim : c.options.dim / c.options.heads;
  config.mlp = c.options.hidden;
  return config;
}

void draw_parameters(nn::Module& module, Case& c) {
  nn::StateDict drawn;
  for (const auto& [name, value] : module.state_dict())
    drawn.emplace_back(name, draw_parameter(name, value.shape(), c));
  module.load_state_dict(drawn);
}

std::unique_ptr<BlockStack> draw_stack(Case& c, const nn::BlockConfig& config) {
  auto stack = std::make_unique<BlockStack>(config, c.options.layers, c.dtype);
  draw_parameters(*stack, c);
  return stack;
}

BlocksKey another_key(const BlocksKey& key, const nn::BlockConfig& config, KeyForm form, Case& c) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    BlocksKey other = BlocksKey::random(config, c.options.layers, form, c.key());
    if (other.residual != key.residual) return other;
  }
  BlocksKey other = key; // two heads of two features have one tied key
  other.residual = c.another(key.residual);
  return other;
}

AxisMap residual_axes(const nn::Module& blocks) {
  AxisMap map;
  for (const auto& [name, value] : blocks.state_dict()) {
    const bool reads = name.ends_with("qkv.weight") || name.ends_with("fc1.weight");
    const bool writes = name.ends_with("proj.weight") || name.ends_with("fc2.weight");
    const bool lies_on_it =
        name.ends_with("proj.bias") || name.ends_with("fc2.bias") || name.find("norm") != std::string::npos;
    if (reads) map.push_back({name, {"", "residual"}});
    if (writes) map.push_back({name, {"residual", ""}});
    if (lies_on_it) map.push_back({name, {"residual"}});
  }
  return map;
}

std::unique_ptr<BlockStack> residual_copy(const BlockStack& stack, const Permutation& p) {
  const nn::StateDict weights = stack.state_dict();
  auto copy = std::make_unique<BlockStack>(stack.config, static_cast<std::int64_t>(stack.blocks.size()),
                                           weights.front().second.dtype());
  PermutationSet set;
  set.emplace("residual", p);
  copy->load_state_dict(transform(weights, residual_axes(stack), set));
  return copy;
}

AxisMap stack_axes(std::int64_t layers) {
  AxisMap map;
  for (std::int64_t layer = 0; layer < layers; ++layer)
    for (ParameterAxes& axes : block_axes(layer, fmt::format("blocks.{}.", layer))) map.push_back(std::move(axes));
  return map;
}

std::unique_ptr<BlockStack> permuted_copy(const BlockStack& stack, const BlocksKey& key) {
  const auto layers = static_cast<std::int64_t>(stack.blocks.size());
  const nn::StateDict weights = stack.state_dict();
  auto copy = std::make_unique<BlockStack>(stack.config, layers, weights.front().second.dtype());
  copy->load_state_dict(transform(weights, stack_axes(layers), key.permutations(stack.config)));
  return copy;
}

Tensor Permuting::enter(const Tensor& z) const {
  const Tensor y = rows.defined() ? permute_rows(z, rows) : z;
  return columns ? permute_columns(y, columns->tensor()) : y;
}

Tensor Permuting::leave(const Tensor& z) const {
  if (!undo) return z;
  const Tensor y = rows.defined() ? permute_rows(z, invert_permutation(rows)) : z;
  return columns ? permute_columns(y, columns->inverse().tensor()) : y;
}

StackPass run_stack(const BlockStack& stack, const Tensor& z, const Tensor& g, const Permuting& permuting) {
  StackPass pass;
  Tape tape;
  pass.states.push_back(permuting.enter(z));
  for (const auto& block : stack.blocks) pass.states.push_back((*block)(pass.states.back()));
  pass.output = permuting.leave(pass.states.back());
  pass.loss = sum(g * gelu(pass.output));
  std::vector<Tensor> xs = {z};
  xs.insert(xs.end(), pass.states.begin(), pass.states.end());
  const nn::StateDict weights = stack.state_dict();
  for (const auto& [name, value] : weights) xs.push_back(value);
  const std::vector<Tensor> gradients = tape.gradient(pass.loss, xs);
  pass.input_gradient = gradients[0];
  pass.state_gradients.assign(gradients.begin() + 1,
                              gradients.begin() + 1 + static_cast<std::ptrdiff_t>(pass.states.size()));
  for (std::size_t i = 0; i < weights.size(); ++i)
    pass.gradients.emplace_back(weights[i].first, gradients[1 + pass.states.size() + i]);
  return pass;
}

std::unique_ptr<StackTwins> run_stack_twins(Case& c, KeyForm form, bool rows, std::int64_t head_dim) {
  auto t = std::make_unique<StackTwins>();
  t->config = encoder_config(c, head_dim);
  t->z = c.normal({c.options.batch, c.options.tokens, c.options.dim});
  t->g = c.normal({c.options.batch, c.options.tokens, c.options.dim});
  t->plain_stack = draw_stack(c, t->config);
  t->key = BlocksKey::random(t->config, c.options.layers, form, c.key());
  t->permuting.columns = &t->key.residual;
  if (rows) t->permuting.rows = c.rows();
  t->plain = run_stack(*t->plain_stack, t->z, t->g);
  t->permuted = run_stack(*permuted_copy(*t->plain_stack, t->key), t->z, t->g, t->permuting);
  return t;
}

void compare_gradients(Claim& claim, Case& c, const StackTwins& t, KeyForm form, std::string_view part) {
  const AxisMap axes = stack_axes(c.options.layers);
  const BlocksKey other = another_key(t.key, t.config, form, c);
  const nn::StateDict expected = transform(t.plain.gradients, axes, t.key.permutations(t.config));
  const nn::StateDict wrong = transform(t.plain.gradients, axes, other.permutations(t.config));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const std::string& name = expected[i].first;
    if (name.find(part) == std::string::npos) continue;
    claim.equal("dl/d " + name, t.permuted.gradients[i].second, expected[i].second);
    claim.differs("another key's permutations on the expected side", t.permuted.gradients[i].second, wrong[i].second);
  }
}

} // namespace eg::permute
