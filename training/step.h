#pragma once
// Takes one step of an optimiser on a batch that is cut into parts.

#include "core/base/function_ref.h"
#include "core/tensor.h"
#include "optim/optimizer.h"
#include "training/task.h"

#include <cstdint>
#include <string>

namespace eg::training {

/// The mean loss over some samples of a batch, and what is counted beside it.
struct PartLoss {
  Tensor loss;
  double weight = 0.0, correct = 0.0; ///< predictions, and those among them that were right
};
/// Records that of samples [first, last) of a batch on the open tape.
using LossOfPart = FunctionRef<PartLoss(std::int64_t first, std::int64_t last)>;

/// The same of a whole batch, summed.
struct StepSums {
  double loss = 0.0, correct = 0.0, weight = 0.0; ///< loss: each part's mean times its weight

  void add(const PartLoss& part, double value) {
    loss += value * part.weight;
    correct += part.correct;
    weight += part.weight;
  }
};

/// Whether no update has to wait for the last gradient: one part, at most one shard, no clipping, a run that stops at a
/// gradient that is not finite, the CPU (options.device as Run sets it; "" counts as the CPU).
bool updates_in_backward(const RunOptions& options);

/// Cuts a batch of options.batch samples into options.accumulate parts, averages their losses and gradients with their
/// sizes for weights, clips the mean gradient (options.clip) and, unless context.guard skips it, lets the optimiser
/// step. With options.detect_anomaly every value is looked at. `who`, "" or which model, is for the guard's error.
/// Returns whether the optimiser stepped. An exception leaves the parameters as they were, unless
/// updates_in_backward().
///
/// Where updates_in_backward(), each parameter is updated as soon as the backward pass has its gradient
/// (Tape::gradient_each): the same bits, and gradients never stand side by side in memory. What is thrown after the
/// first of these updates leaves a step half taken: `torn` is true then.
bool take_step(optim::Optimizer& optimizer, const RunOptions& options, const StepContext& context, LossOfPart loss_of,
               StepSums& sums, bool& torn, const std::string& who = "");

} // namespace eg::training
