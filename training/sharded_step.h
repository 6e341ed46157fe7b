#pragma once
// Takes one step of an optimiser on a batch that is cut into shards, by one process or many.

#include "distributed/gradient_sum.h"
#include "nn/module.h"
#include "training/step.h"

#include <string>
#include <vector>

namespace eg::training {

/// The steps of one model. Shard k of S has samples [B k / S, B (k + 1) / S) of a batch of B = options.batch. Each
/// shard's gradient is weighted with its samples, and they are summed along the tree of distributed/gradient_sum.h. So
/// losses, gradients and weights after a step have the same bits for any number of processes.
class ShardedStep {
public:
  /// For options.shards > 0. Throws ValueError for more processes than shards.
  ShardedStep(distributed::Communicator& processes, const RunOptions& options, std::vector<Tensor> parameters);

  /// As take_step(): every process calls it, computes its shards, and decides the same. Sets *context.stops where some
  /// process is to stop. An exception leaves the parameters as they were.
  bool take(optim::Optimizer& optimizer, const RunOptions& options, const StepContext& context, LossOfPart loss_of,
            StepSums& sums, const std::string& who = "");

private:
  distributed::Communicator& processes_;
  std::vector<Tensor> parameters_;
  distributed::GradientSum sum_;
};

/// Gives every process the weights of process 0.
void share_weights(distributed::Communicator& processes, const nn::Module& module);

} // namespace eg::training
