#pragma once
// Averages weights over the steps of a run.

#include "core/tensor.h"

#include <cstdint>
#include <vector>

namespace eg::optim {

/// Exponential averages of parameters: after step t = 1, 2, ... a = d a + (1 - d) w with
/// d = min(decay, (1 + t) / (10 + t)), so that the first weights are soon forgotten. Polyak and Juditsky, 1992; the
/// smaller decay of the first steps is that of TensorFlow's ExponentialMovingAverage.
class WeightAverage {
public:
  /// Begins with copies of the parameters, which must be f32 or f64 and densely packed, and keeps handles to them.
  /// Throws ValueError for others, and unless decay is in (0, 1).
  WeightAverage(const std::vector<Tensor>& parameters, double decay);

  /// Moves the averages towards the parameters' present values; `step` is t, the number of the step that was taken. The
  /// same bits for any number of threads.
  void update(std::int64_t step);
  /// The averages, one for each parameter: handles, so that they can be saved and restored.
  const std::vector<Tensor>& values() const { return values_; }

private:
  std::vector<Tensor> parameters_, values_;
  double decay_;
};

} // namespace eg::optim
