#pragma once
// Takes one step of an optimiser on a batch that is cut into shards, by one process or many.

#include "distributed/gradient_sum.h"
#include "nn/module.h"
#include "training/divided_optimizer.h"
#include "training/step.h"

#include <memory>
#include <string>
#include <vector>

namespace eg::training {

/// The steps of one model. Shard k of S has samples [B k / S, B (k + 1) / S) of a batch of B = options.batch. Each
/// shard's gradient is weighted with its samples, and they are summed along the tree of distributed/gradient_sum.h. So
/// losses, gradients and weights after a step have the same bits for any number of processes.
class ShardedStep {
public:
  /// For options.shards > 0; with options.shard_optimizer the optimiser is divided over the processes. `names`: of the
  /// module's parameters that learn. Throws ValueError for more processes than shards.
  ShardedStep(distributed::Communicator& processes, const RunOptions& options, const nn::Module& module,
              const std::vector<std::string>& names);

  /// The divided optimiser; null where every process has a whole one.
  DividedOptimizer* divided() { return divided_.get(); }
  const DividedOptimizer* divided() const { return divided_.get(); }

  /// As take_step(): every process calls it, computes its shards, and decides the same. Sets *context.stops where some
  /// process is to stop. `optimizer`: null where it is divided. An exception leaves the parameters as they were, unless
  /// `torn` is true then.
  bool take(optim::Optimizer* optimizer, const RunOptions& options, const StepContext& context, LossOfPart loss_of,
            StepSums& sums, bool& torn, const std::string& who = "");

private:
  distributed::Communicator& processes_;
  std::vector<Tensor> parameters_;
  distributed::GradientSum sum_;
  std::unique_ptr<DividedOptimizer> divided_;
};

/// Gives every process the weights of process 0.
void share_weights(distributed::Communicator& processes, const nn::Module& module);

} // namespace eg::training
