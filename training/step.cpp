#include "training/step.h"

#include "autograd/accumulation.h"
#include "autograd/anomaly.h"
#include "autograd/tape.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace eg::training {
namespace {

/// Updates each parameter when its gradient is there, up to the first gradient that is not finite. Returns the norm.
double step_in_backward(Tape& tape, const Tensor& loss, optim::Optimizer& optimizer, double lr, bool& torn) {
  double squares = 0.0;
  optim::Optimizer::Step step = optimizer.begin(lr);
  tape.gradient_each(loss, optimizer.parameters(), [&](std::size_t i, const Tensor& gradient) {
    const double norm = optim::gradient_norm({gradient});
    squares += norm * norm;
    if (!std::isfinite(squares)) return;
    torn = true;
    step.update(i, gradient);
  });
  return std::sqrt(squares);
}

} // namespace

bool updates_in_backward(const RunOptions& options) {
  // On a device each norm would wait for the gradient, and the next gradient for the norm.
  return options.accumulate == 1 && options.shards <= 1 && options.clip == 0.0 &&
         options.on_divergence == OnDivergence::stop &&
         (options.device.empty() || Device::parse(options.device).is_cpu());
}

bool take_step(optim::Optimizer& optimizer, const RunOptions& options, const StepContext& context, LossOfPart loss_of,
               StepSums& sums, bool& torn, const std::string& who) {
  std::optional<DetectAnomaly> watch;
  if (options.detect_anomaly) watch.emplace();
  StepGuard& guard = *context.guard;
  const std::int64_t samples = options.batch, part = (samples + options.accumulate - 1) / options.accumulate;
  GradientAccumulator accumulator(static_cast<double>(samples));
  double total = 0.0;
  for (std::int64_t first = 0; first < samples; first += part) {
    const std::int64_t last = std::min(samples, first + part);
    Tape tape;
    const PartLoss part_loss = loss_of(first, last);
    const Tensor& loss = part_loss.loss;
    const double value = loss.item(), weight = static_cast<double>(last - first);
    sums.add(part_loss, value);
    if (!guard.check_part(value, who)) return false;
    total += value * weight;
    if (updates_in_backward(options)) {
      if (!guard.check_loss(total / static_cast<double>(samples), who)) return false;
      const double norm = step_in_backward(tape, loss, optimizer, context.lr, torn);
      guard.check_gradients(norm, total / static_cast<double>(samples), who); // throws
      torn = false;
      return true;
    }
    accumulator.add(tape.gradient(loss, optimizer.parameters()), weight);
  }
  const double mean = total / static_cast<double>(samples);
  std::vector<Tensor> gradients = std::move(accumulator).mean();
  if (!guard.check_loss(mean, who)) return false;
  const double norm =
      options.clip > 0.0 ? optim::clip_gradients(gradients, options.clip) : optim::gradient_norm(gradients);
  if (!guard.check_gradients(norm, mean, who)) return false;
  optimizer.step(gradients, context.lr);
  return true;
}

} // namespace eg::training
