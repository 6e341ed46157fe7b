#include "optim/adam.h"

#include "core/device/module.h"
#include "core/exact/elementary.h"
#include "optim/rule_checks.h"

#include <cmath>

namespace eg::optim {

Adam::Adam(std::vector<Tensor> parameters, const AdamOptions& options, bool decoupled)
    : Adam(std::move(parameters), options, decoupled, moments()) {}

Adam::Adam(std::vector<Tensor> parameters, const AdamOptions& options, bool decoupled, StatePlan plan)
    : Optimizer(std::move(parameters), std::move(plan)), decoupled_(decoupled), options_(options) {
  const char* rule = decoupled ? "adamw" : "adam";
  check_range(rule, "beta1", options.beta1, 0.0, 1.0);
  check_range(rule, "beta2", options.beta2, 0.0, 1.0);
  check_not_negative(rule, "eps", options.eps);
  check_not_negative(rule, "weight_decay", options.weight_decay);
}

void Adam::begin_step(double) {
  const auto t = static_cast<double>(steps());
  first_correction_ = 1.0 - elementary::pow(options_.beta1, t);
  root_scale_ = 1.0 / std::sqrt(1.0 - elementary::pow(options_.beta2, t));
}

AdamNumbers Adam::numbers_for(const Piece& p) const {
  const double decay = options_.weight_decay * p.decay_factor;
  return {.beta1 = options_.beta1,
          .beta2 = options_.beta2,
          .eps = options_.eps,
          .weight_decay = decoupled_ ? 0.0 : decay,
          .keep = decoupled_ ? 1.0 - p.learning_rate * decay : 1.0,
          .step_size = p.learning_rate / first_correction_,
          .root_scale = root_scale_};
}

void Adam::update_on_device(Device device, const Piece& alike, const device::UpdateParts& parts) const {
  device::launch(device, writer(), &device::Table::update_adam, device::AdamJob{numbers_for(alike), parts});
}

void Adam::update(const Piece& p) const {
  const AdamNumbers numbers = numbers_for(p);
  if (p.dtype == DType::f32)
    adam_update(numbers, as<float>(p.parameter), as<float>(p.state[0]), as<float>(p.state[1]), as<float>(p.gradient),
                p.count);
  else
    adam_update(numbers, as<double>(p.parameter), as<double>(p.state[0]), as<double>(p.state[1]),
                as<double>(p.gradient), p.count);
}

std::unique_ptr<Optimizer> adam(std::vector<Tensor> parameters, const AdamOptions& options) {
  return std::make_unique<Adam>(std::move(parameters), options, false);
}

std::unique_ptr<Optimizer> adamw(std::vector<Tensor> parameters, const AdamOptions& options) {
  return std::make_unique<Adam>(std::move(parameters), options, true);
}

} // namespace eg::optim
