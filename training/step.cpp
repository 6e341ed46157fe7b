#include "training/step.h"

#include "autograd/accumulation.h"
#include "autograd/anomaly.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace eg::training {

bool take_step(optim::Optimizer& optimizer, const RunOptions& options, std::int64_t samples, const Place& place,
               GradientsOf gradients_of, const std::string& who) {
  std::optional<DetectAnomaly> watch;
  if (options.detect_anomaly) watch.emplace();
  const std::int64_t part = (samples + options.accumulate - 1) / options.accumulate;
  GradientAccumulator accumulator(static_cast<double>(samples));
  double loss = 0.0;
  for (std::int64_t first = 0; first < samples; first += part) {
    const std::int64_t last = std::min(samples, first + part);
    PartGradients found = gradients_of(first, last);
    if (found.gradients.empty()) return false;
    loss += found.loss * static_cast<double>(last - first);
    accumulator.add(std::move(found.gradients), static_cast<double>(last - first));
  }
  std::vector<Tensor> gradients = std::move(accumulator).mean();
  if (!place.guard->admits(loss / static_cast<double>(samples), gradients, who)) return false;
  optimizer.step(gradients, place.lr);
  return true;
}

} // namespace eg::training
