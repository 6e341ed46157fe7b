#pragma once
// Trains a plain net and its permuted twin side by side with one recipe. They share the batches and the coupled initial
// weights; every sample of every step has a fresh P_R. What belongs to a position (dropout masks, rates of single
// elements) is permuted with it.

#include "permute/catalogue/stack.h"

#include "nn/norms.h"
#include "optim/optimizer.h"

namespace eg::permute {

/// What a rule of our own gets for one parameter and step.
struct RuleStep {
  Tensor weight, gradient;
  Tensor along; ///< what the recipe draws for this parameter, in the twin moved like it; may be undefined
  double rate;
  std::int64_t number; ///< 1, 2, ...
};
using RuleState = std::map<std::string, Tensor, std::less<>>;
/// The new weight.
using Rule = std::function<Tensor(RuleState& state, const RuleStep& step)>;

/// What a recipe draws for each parameter.
enum class Along { nothing, rate_of_element, matrix_of_columns };

/// How a net is trained.
struct Recipe {
  std::string optimizer = "sgd"; ///< of optim::make_optimizer, unless there is one of the following
  std::function<std::unique_ptr<optim::Optimizer>(std::vector<Tensor> parameters)> make;
  Rule rule;
  double rate = 0.02;
  std::function<double(std::int64_t step)> rate_at; ///< instead of the constant rate
  double weight_decay = 0.0;
  std::int64_t parts = 1, parts_used = 1;         ///< of a batch, for accumulation; fewer used: a control
  std::function<void(std::vector<Tensor>&)> clip; ///< what becomes of the gradients
  double ema = 0.0;                               ///< decay of the averaged weights
  double dropout = 0.0, drop_path = 0.0;          ///< behind each block; of each block's change
  bool batch_norm = false;                        ///< behind the blocks
  Along along = Along::nothing;
  bool moves = true;        ///< masks and the like are permuted with the twin; false: a control
  bool other_paths = false; ///< another draw of dropped paths: a control
};

/// A stack of blocks and, where the recipe has it, a batch norm "norm" over samples and tokens.
class TwinNet : public BlockStack {
public:
  TwinNet(const nn::BlockConfig& config, std::int64_t layers, DType dtype, bool batch_norm);
  std::unique_ptr<nn::BatchNorm> norm;
};

/// What training left beside the weights.
struct Trained {
  Tensor losses;                ///< one for each step
  nn::StateDict last_gradients; ///< of the parameters
  nn::StateDict averaged;       ///< of the parameters, where the recipe averages
};

/// The plain net, its twin, and a twin that the control's recipe trained.
struct TwinRun {
  std::unique_ptr<TwinNet> plain, moved, spoiled;
  Permutation columns;
  Trained a, b, wrong;
  nn::StateDict image;          ///< the plain net's weights, moved
  nn::StateDict image_averaged; ///< and their averages
};

/// Trains all three. spoil: what the control does otherwise.
TwinRun train_twins(Case& c, const Recipe& recipe, const std::function<void(Recipe&)>& spoil);

/// Losses, weights (b_K left out) and averages are each other's images; the control's are not.
Claim claim_of(const TwinRun& run, const char* control);

/// Weight by weight, without b_K, since these stacks have no rotary positions: its gradient is zero but for rounding,
/// which Adam scales up to full steps. With a
/// name, as controls.
void compare_weights(Claim& claim, const nn::StateDict& value, const nn::StateDict& expected,
                     const char* control = nullptr);
/// dl/db_K is zero, relative to the gradient of the biases beside it.
void check_bk(Claim& claim, const nn::StateDict& gradients);

} // namespace eg::permute
