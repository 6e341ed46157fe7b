#include "training/step.h"

#include "autograd/accumulation.h"
#include "autograd/anomaly.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace eg::training {

void take_step(optim::Optimizer& optimizer, const RunOptions& options, std::int64_t samples, double lr,
               PartGradients gradients_of) {
  std::optional<DetectAnomaly> watch;
  if (options.detect_anomaly) watch.emplace();
  const std::int64_t part = (samples + options.accumulate - 1) / options.accumulate;
  GradientAccumulator accumulator(static_cast<double>(samples));
  for (std::int64_t first = 0; first < samples; first += part) {
    const std::int64_t last = std::min(samples, first + part);
    accumulator.add(gradients_of(first, last), static_cast<double>(last - first));
  }
  std::vector<Tensor> gradients = std::move(accumulator).mean();
  if (options.clip > 0.0) optim::clip_gradients(gradients, options.clip);
  optimizer.step(gradients, lr);
}

} // namespace eg::training
