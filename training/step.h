#pragma once
// One step of an optimiser on a batch that is cut into parts.

#include "core/base/function_ref.h"
#include "core/tensor.h"
#include "optim/optimizer.h"
#include "training/task.h"

#include <cstdint>
#include <string>
#include <vector>

namespace eg::training {

/// The mean loss over some samples of a batch and its gradients, in the order of the parameters; no gradients where the
/// guard has refused the loss.
struct PartGradients {
  double loss = 0.0;
  std::vector<Tensor> gradients = {};
};
/// Of samples [first, last) of a batch. Asks place.guard about the loss before it computes gradients.
using GradientsOf = FunctionRef<PartGradients(std::int64_t first, std::int64_t last)>;

/// Cuts a batch of `samples` into options.accumulate parts, averages their losses and gradients with their sizes for
/// weights, clips the mean gradient (options.clip) and, if place.guard admits it, lets the optimiser step. With
/// options.detect_anomaly every value is looked at. Whatever is thrown leaves the parameters as they were; `who`, ""
/// or which model, is for the guard's error. Returns whether the
/// optimiser stepped.
bool take_step(optim::Optimizer& optimizer, const RunOptions& options, std::int64_t samples, const Place& place,
               GradientsOf gradients_of, const std::string& who = "");

} // namespace eg::training
