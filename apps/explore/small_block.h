#pragma once
// Makes the small transformer blocks that pages compute with, with generic weights.

#include "apps/explore/question.h"

#include "core/reduction.h"
#include "nn/block.h"

#include <memory>

namespace eg::explore {

/// Gains about 1, every other parameter about 0 with deviation 0.4, none of them zero.
void draw_generic(nn::Module& module, DType dtype, RandomKey key);

/// A block of a page: `heads` heads, an MLP twice as wide as the residual, layer norms.
nn::BlockConfig small_config(std::int64_t dim, std::int64_t heads);

/// "dim" and "heads" of a question. Throws ValueError unless heads divide dim into even head widths.
nn::BlockConfig read_config(Question& question, std::int64_t dim, std::int64_t most);

/// Copies of a block's parameters, by name.
nn::StateDict copied(const nn::StateDict& state);

/// A block with the same config and other weights.
std::unique_ptr<nn::Block> block_with(const nn::BlockConfig& config, const nn::StateDict& weights, DType dtype);

/// dL/dx and dL/dW of L = sum(c * f(x)), and f(x). W: all parameters.
struct Pass {
  Tensor output, input_gradient;
  nn::StateDict gradients;
};
template <class F> Pass pass_of(const nn::Module& module, const Tensor& x, const Tensor& cotangent, F&& f);

/// Tokens [1, tokens, dim] that the page shows.
Tensor draw_tokens(std::int64_t tokens, std::int64_t dim, DType dtype, RandomKey key);

} // namespace eg::explore

#include "autograd/tape.h"

namespace eg::explore {

template <class F> Pass pass_of(const nn::Module& module, const Tensor& x, const Tensor& cotangent, F&& f) {
  std::vector<Tensor> wanted = module.parameters();
  wanted.push_back(x);
  Tape tape;
  const Tensor y = f(x);
  std::vector<Tensor> gradients = tape.gradient(y, wanted, cotangent);
  Pass pass{y, gradients.back(), module.state_dict()};
  for (std::size_t i = 0; i < pass.gradients.size(); ++i) pass.gradients[i].second = gradients[i];
  return pass;
}

} // namespace eg::explore
