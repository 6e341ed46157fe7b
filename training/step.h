#pragma once
// One step of an optimiser on a batch that is cut into parts.

#include "core/function_ref.h"
#include "core/tensor.h"
#include "optim/optimizer.h"
#include "training/options.h"

#include <cstdint>
#include <vector>

namespace eg::training {

/// Gradients of the mean loss over samples [first, last) of a batch, in the order of the parameters.
using PartGradients = FunctionRef<std::vector<Tensor>(std::int64_t first, std::int64_t last)>;

/// Cuts a batch of `samples` into options.accumulate parts, averages their gradients with their sizes for weights,
/// clips the mean (options.clip) and lets the optimiser step. With options.detect_anomaly every value is looked at.
/// Whatever is thrown leaves the parameters as they were.
void take_step(optim::Optimizer& optimizer, const RunOptions& options, std::int64_t samples, double lr,
               PartGradients gradients_of);

} // namespace eg::training
