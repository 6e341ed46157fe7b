// The update rules: what numbers each step takes.

#include "optim/kernels.h"
#include "optim/optimizer.h"

#include <fmt/format.h>

#include <cmath>

namespace eg::optim {
namespace {

template <class T> T* as(std::byte* p) { return reinterpret_cast<T*>(p); }
template <class T> const T* as(const std::byte* p) { return reinterpret_cast<const T*>(p); }

void check_range(const char* rule, const char* option, double value, double low, double high) {
  if (!(value >= low && value < high))
    throw ValueError(fmt::format("{}: {} must be in [{}, {}), not {}", rule, option, low, high, value));
}

void check_not_negative(const char* rule, const char* option, double value) {
  if (!(value >= 0.0 && std::isfinite(value)))
    throw ValueError(fmt::format("{}: {} must be finite and not negative, not {}", rule, option, value));
}

class Sgd : public Optimizer {
public:
  Sgd(std::vector<Tensor> parameters, const SgdOptions& options)
      : Optimizer(std::move(parameters),
                  options.momentum > 0.0 ? std::vector<std::string>{"momentum"} : std::vector<std::string>{}) {
    check_range("sgd", "momentum", options.momentum, 0.0, 1.0);
    check_not_negative("sgd", "weight_decay", options.weight_decay);
    if (options.nesterov && options.momentum == 0.0) throw ValueError("sgd: nesterov needs a momentum above 0");
    numbers_.momentum = options.momentum;
    numbers_.nesterov = options.nesterov;
    numbers_.weight_decay = options.weight_decay;
  }
  std::string name() const override {
    if (numbers_.momentum == 0.0) return "sgd";
    return numbers_.nesterov ? "nesterov" : "momentum";
  }

private:
  void begin_step(double learning_rate) override { numbers_.learning_rate = learning_rate; }
  void update(const Piece& p) const override {
    if (p.dtype == DType::f32)
      sgd_update(numbers_, as<float>(p.parameter), as<float>(p.state[0]), as<float>(p.gradient), p.count);
    else
      sgd_update(numbers_, as<double>(p.parameter), as<double>(p.state[0]), as<double>(p.gradient), p.count);
  }
  const char* writer() const override { return "sgd"; }
  SgdNumbers numbers_;
};

class Adam : public Optimizer {
public:
  Adam(std::vector<Tensor> parameters, const AdamOptions& options, bool decoupled)
      : Optimizer(std::move(parameters), {"exp_avg", "exp_avg_sq"}), decoupled_(decoupled), options_(options) {
    check_range(writer(), "beta1", options.beta1, 0.0, 1.0);
    check_range(writer(), "beta2", options.beta2, 0.0, 1.0);
    check_not_negative(writer(), "eps", options.eps);
    check_not_negative(writer(), "weight_decay", options.weight_decay);
    numbers_.beta1 = options.beta1;
    numbers_.beta2 = options.beta2;
    numbers_.eps = options.eps;
    numbers_.weight_decay = decoupled ? 0.0 : options.weight_decay;
  }
  std::string name() const override { return writer(); }

private:
  void begin_step(double learning_rate) override {
    const auto t = static_cast<double>(steps());
    numbers_.keep = decoupled_ ? 1.0 - learning_rate * options_.weight_decay : 1.0;
    numbers_.step_size = learning_rate / (1.0 - std::pow(options_.beta1, t));
    numbers_.root_scale = 1.0 / std::sqrt(1.0 - std::pow(options_.beta2, t));
  }
  void update(const Piece& p) const override {
    if (p.dtype == DType::f32)
      adam_update(numbers_, as<float>(p.parameter), as<float>(p.state[0]), as<float>(p.state[1]), as<float>(p.gradient),
                  p.count);
    else
      adam_update(numbers_, as<double>(p.parameter), as<double>(p.state[0]), as<double>(p.state[1]),
                  as<double>(p.gradient), p.count);
  }
  const char* writer() const override { return decoupled_ ? "adamw" : "adam"; }
  bool decoupled_;
  AdamOptions options_;
  AdamNumbers numbers_;
};

} // namespace

std::unique_ptr<Optimizer> sgd(std::vector<Tensor> parameters, const SgdOptions& options) {
  return std::make_unique<Sgd>(std::move(parameters), options);
}

std::unique_ptr<Optimizer> adam(std::vector<Tensor> parameters, const AdamOptions& options) {
  return std::make_unique<Adam>(std::move(parameters), options, false);
}

std::unique_ptr<Optimizer> adamw(std::vector<Tensor> parameters, const AdamOptions& options) {
  return std::make_unique<Adam>(std::move(parameters), options, true);
}

std::unique_ptr<Optimizer> make_optimizer(const std::string& name, std::vector<Tensor> parameters, double weight_decay,
                                          double eps) {
  const AdamOptions adam_options{.eps = eps, .weight_decay = weight_decay};
  if (name == "adam") return adam(std::move(parameters), adam_options);
  if (name == "adamw") return adamw(std::move(parameters), adam_options);
  if (name == "sgd") return sgd(std::move(parameters), {.weight_decay = weight_decay});
  if (name == "momentum" || name == "nesterov")
    return sgd(std::move(parameters), {.momentum = 0.9, .nesterov = name == "nesterov", .weight_decay = weight_decay});
  throw ValueError(fmt::format("optimizer: '{}' is not one of sgd, momentum, nesterov, adam, adamw", name));
}

} // namespace eg::optim
