// The update rules that work element by element, and all rules by name.

#include "core/device/module.h"
#include "optim/kernels.h"
#include "optim/optimizer.h"
#include "optim/rule_checks.h"

#include <algorithm>

namespace eg::optim {
namespace {

class Sgd : public Optimizer {
public:
  Sgd(std::vector<Tensor> parameters, const SgdOptions& options)
      : Optimizer(std::move(parameters), options.momentum > 0.0 ? alike({"momentum"}) : alike({})), options_(options) {
    check_range("sgd", "momentum", options.momentum, 0.0, 1.0);
    check_not_negative("sgd", "weight_decay", options.weight_decay);
    if (options.nesterov && options.momentum == 0.0) throw ValueError("sgd: nesterov needs a momentum above 0");
  }
  std::string name() const override {
    if (options_.momentum == 0.0) return "sgd";
    return options_.nesterov ? "nesterov" : "momentum";
  }

private:
  SgdNumbers numbers_for(const Piece& p) const {
    return {.learning_rate = p.learning_rate,
            .weight_decay = options_.weight_decay * p.decay_factor,
            .momentum = options_.momentum,
            .nesterov = options_.nesterov};
  }
  void update_on_device(Device device, const Piece& alike, const device::UpdateParts& parts) const override {
    device::launch(device, writer(), &device::Table::update_sgd, device::SgdJob{numbers_for(alike), parts});
  }
  void update(const Piece& p) const override {
    const SgdNumbers numbers = numbers_for(p);
    if (p.dtype == DType::f32)
      sgd_update(numbers, as<float>(p.parameter), as<float>(p.state[0]), as<float>(p.gradient), p.count);
    else
      sgd_update(numbers, as<double>(p.parameter), as<double>(p.state[0]), as<double>(p.gradient), p.count);
  }
  const char* writer() const override { return "sgd"; }
  SgdOptions options_;
};

class RmsProp : public Optimizer {
public:
  RmsProp(std::vector<Tensor> parameters, const RmsPropOptions& options)
      : Optimizer(std::move(parameters),
                  options.momentum > 0.0 ? alike({"square_avg", "momentum"}) : alike({"square_avg"})),
        options_(options) {
    check_range("rmsprop", "alpha", options.alpha, 0.0, 1.0);
    check_not_negative("rmsprop", "eps", options.eps);
    check_range("rmsprop", "momentum", options.momentum, 0.0, 1.0);
    check_not_negative("rmsprop", "weight_decay", options.weight_decay);
  }
  std::string name() const override { return "rmsprop"; }

private:
  RmsPropNumbers numbers_for(const Piece& p) const {
    return {.learning_rate = p.learning_rate,
            .alpha = options_.alpha,
            .eps = options_.eps,
            .momentum = options_.momentum,
            .weight_decay = options_.weight_decay * p.decay_factor};
  }
  void update_on_device(Device device, const Piece& alike, const device::UpdateParts& parts) const override {
    device::launch(device, writer(), &device::Table::update_rmsprop, device::RmsPropJob{numbers_for(alike), parts});
  }
  void update(const Piece& p) const override {
    const RmsPropNumbers numbers = numbers_for(p);
    if (p.dtype == DType::f32)
      rmsprop_update(numbers, as<float>(p.parameter), as<float>(p.state[0]), as<float>(p.state[1]),
                     as<float>(p.gradient), p.count);
    else
      rmsprop_update(numbers, as<double>(p.parameter), as<double>(p.state[0]), as<double>(p.state[1]),
                     as<double>(p.gradient), p.count);
  }
  const char* writer() const override { return "rmsprop"; }
  RmsPropOptions options_;
};

class Lion : public Optimizer {
public:
  Lion(std::vector<Tensor> parameters, const LionOptions& options)
      : Optimizer(std::move(parameters), alike({"exp_avg"})), options_(options) {
    check_range("lion", "beta1", options.beta1, 0.0, 1.0);
    check_range("lion", "beta2", options.beta2, 0.0, 1.0);
    check_not_negative("lion", "weight_decay", options.weight_decay);
  }
  std::string name() const override { return "lion"; }

private:
  LionNumbers numbers_for(const Piece& p) const {
    return {.learning_rate = p.learning_rate,
            .beta1 = options_.beta1,
            .beta2 = options_.beta2,
            .keep = 1.0 - p.learning_rate * options_.weight_decay * p.decay_factor};
  }
  void update_on_device(Device device, const Piece& alike, const device::UpdateParts& parts) const override {
    device::launch(device, writer(), &device::Table::update_lion, device::LionJob{numbers_for(alike), parts});
  }
  void update(const Piece& p) const override {
    const LionNumbers numbers = numbers_for(p);
    if (p.dtype == DType::f32)
      lion_update(numbers, as<float>(p.parameter), as<float>(p.state[0]), as<float>(p.gradient), p.count);
    else
      lion_update(numbers, as<double>(p.parameter), as<double>(p.state[0]), as<double>(p.gradient), p.count);
  }
  const char* writer() const override { return "lion"; }
  LionOptions options_;
};

struct NamedRule {
  const char* name;
  RuleTraits traits;
  std::unique_ptr<Optimizer> (*make)(std::vector<Tensor> parameters, double weight_decay, double eps);
};

constexpr NamedRule named_rules[] = {
    {"sgd",
     {.state_per_element = 0},
     [](std::vector<Tensor> p, double decay, double) { return sgd(std::move(p), {.weight_decay = decay}); }},
    {"momentum",
     {},
     [](std::vector<Tensor> p, double decay, double) {
       return sgd(std::move(p), {.momentum = 0.9, .weight_decay = decay});
     }},
    {"nesterov",
     {},
     [](std::vector<Tensor> p, double decay, double) {
       return sgd(std::move(p), {.momentum = 0.9, .nesterov = true, .weight_decay = decay});
     }},
    {"adam",
     {.state_per_element = 2, .eps = true},
     [](std::vector<Tensor> p, double decay, double eps) {
       return adam(std::move(p), {.eps = eps, .weight_decay = decay});
     }},
    {"adamw",
     {.state_per_element = 2, .eps = true},
     [](std::vector<Tensor> p, double decay, double eps) {
       return adamw(std::move(p), {.eps = eps, .weight_decay = decay});
     }},
    {"rmsprop",
     {.eps = true},
     [](std::vector<Tensor> p, double decay, double eps) {
       return rmsprop(std::move(p), {.eps = eps, .weight_decay = decay});
     }},
    {"lion",
     {},
     [](std::vector<Tensor> p, double decay, double) { return lion(std::move(p), {.weight_decay = decay}); }},
    {"adafactor",
     {.whole = RuleTraits::Whole::parameters},
     [](std::vector<Tensor> p, double decay, double) { return adafactor(std::move(p), {.weight_decay = decay}); }},
    {"muon",
     {.state_per_element = 2, .eps = true, .whole = RuleTraits::Whole::matrices},
     [](std::vector<Tensor> p, double decay, double eps) {
       return muon(std::move(p), {.weight_decay = decay, .eps = eps});
     }},
};

const NamedRule& rule_named(const std::string& name) {
  std::string names;
  for (const NamedRule& rule : named_rules) {
    if (name == rule.name) return rule;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", rule.name);
  }
  throw ValueError(fmt::format("optimizer: '{}' is not one of {}", name, names));
}

} // namespace

std::unique_ptr<Optimizer> sgd(std::vector<Tensor> parameters, const SgdOptions& options) {
  return std::make_unique<Sgd>(std::move(parameters), options);
}

std::unique_ptr<Optimizer> rmsprop(std::vector<Tensor> parameters, const RmsPropOptions& options) {
  return std::make_unique<RmsProp>(std::move(parameters), options);
}

std::unique_ptr<Optimizer> lion(std::vector<Tensor> parameters, const LionOptions& options) {
  return std::make_unique<Lion>(std::move(parameters), options);
}

RuleTraits rule_traits(const std::string& name) { return rule_named(name).traits; }

std::unique_ptr<Optimizer> make_optimizer(const std::string& name, std::vector<Tensor> parameters, double weight_decay,
                                          double eps) {
  return rule_named(name).make(std::move(parameters), weight_decay, eps);
}

} // namespace eg::optim
