#pragma once
// Builds a stack of nn::Block with dense random parameters (gamma != 1, beta and biases != 0), run plainly and
// permuted.

#include "permute/catalogue/case.h"

#include <memory>

namespace eg::permute {

/// Parameters "blocks.0.norm1.weight" and so on, as in nn::Vit.
class BlockStack : public nn::Module {
public:
  BlockStack(const nn::BlockConfig& config, std::int64_t layers, DType dtype);
  Tensor operator()(const Tensor& z) const;
  const nn::BlockConfig config;
  std::vector<std::unique_ptr<nn::Block>> blocks;
};

/// The sizes of the case; head_dim 0 means dim / heads.
nn::BlockConfig encoder_config(const Case& c, std::int64_t head_dim = 0);

/// Fills a module's parameters: matrices 0.7/sqrt(in) (attention 1/sqrt(in), so that softmax is not uniform),
/// norm weights about 1, biases and embeddings about 0.3.
void draw_parameters(nn::Module& module, Case& c);

std::unique_ptr<BlockStack> draw_stack(Case& c, const nn::BlockConfig& config);
/// A key that moves the residual stream otherwise, for negative controls: of the same form, but where the model is so
/// small that there is none.
BlocksKey another_key(const BlocksKey& key, const nn::BlockConfig& config, KeyForm form, Case& c);
/// Axis map of blocks whose residual stream alone is permuted (group "residual"), whatever their kind: W' = W P_C where
/// a weight reads the stream, P_C^T W where it writes to it.
AxisMap residual_axes(const nn::Module& blocks);
/// A copy for a residual stream permuted by p: f'(x P) = f(x) P.
std::unique_ptr<BlockStack> residual_copy(const BlockStack& stack, const Permutation& p);
/// Axis map of a stack.
AxisMap stack_axes(std::int64_t layers);
/// A copy whose parameters the key has moved.
std::unique_ptr<BlockStack> permuted_copy(const BlockStack& stack, const BlocksKey& key);

/// How Z enters the blocks and leaves them: P_R (rows, [B, T], undefined: none) and P_C (columns, null: none).
struct Permuting {
  Tensor rows;
  const Permutation* columns = nullptr;
  bool undo = true; ///< false: the output is left permuted (negative controls)

  Tensor enter(const Tensor& z) const;
  Tensor leave(const Tensor& z) const;
};

struct StackPass {
  Tensor output; ///< what the head receives
  Tensor loss;
  std::vector<Tensor> states;          ///< Z as the blocks see it, then each block's output
  std::vector<Tensor> state_gradients; ///< dl/d(states)
  Tensor input_gradient;               ///< dl/dZ before it was permuted
  nn::StateDict gradients;             ///< dl/d(parameter)
};

/// l = sum(g * gelu(output)).
StackPass run_stack(const BlockStack& stack, const Tensor& z, const Tensor& g, const Permuting& permuting = {});

/// The plain stack on Z and its permuted copy on P_R Z P_C, sharing g.
struct StackTwins {
  nn::BlockConfig config;
  Tensor z, g;
  std::unique_ptr<BlockStack> plain_stack;
  BlocksKey key;
  Permuting permuting; ///< its columns point at key.residual
  StackPass plain, permuted;
};
/// Rows: every sample has its own P_R.
std::unique_ptr<StackTwins> run_stack_twins(Case& c, KeyForm form, bool rows, std::int64_t head_dim = 0);

/// dl/dW_(P) = P_out^T dl/dW P_in for every parameter whose name contains `part`; the control uses another key's
/// permutations on the expected side.
void compare_gradients(Claim& claim, Case& c, const StackTwins& t, KeyForm form, std::string_view part = "");

/// For 2 and 3 heads of 6 features and 50 drawn weights: of S_6 as many tied permutations are valid as S_dh wr S_h has
/// elements.
void search_tied(Case& c, Claim& claim);

} // namespace eg::permute
