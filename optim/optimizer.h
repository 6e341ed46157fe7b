#pragma once
// Optimisers: in place on tensors, one fused pass per parameter, no knowledge of the tape.

#include "core/tensor.h"

#include <memory>
#include <string>
#include <vector>

namespace eg::optim {

/// State tensors of one parameter, by name ("momentum", "exp_avg", "exp_avg_sq"); same shape as the parameter.
using ParameterState = std::vector<std::pair<std::string, Tensor>>;

/// One update rule over a list of parameters. The learning rate is given with each step, so schedules are functions.
class Optimizer {
public:
  explicit Optimizer(std::vector<Tensor> parameters) : parameters_(std::move(parameters)) {}
  virtual ~Optimizer() = default;

  /// Updates every parameter from its gradient (same order, shapes and dtypes as the parameters; undefined: skipped).
  /// Throws ShapeError, DTypeError.
  void step(const std::vector<Tensor>& gradients, double learning_rate);

  /// Steps taken so far (t in Adam's bias correction).
  std::int64_t steps() const { return steps_; }
  void set_steps(std::int64_t steps) { steps_ = steps; }
  /// State of parameter i: handles, so it can be saved, permuted and restored.
  virtual ParameterState state(std::size_t i) const = 0;
  virtual std::string name() const = 0;
  const std::vector<Tensor>& parameters() const { return parameters_; }

protected:
  virtual void update(std::size_t i, Tensor& parameter, const Tensor& gradient, double learning_rate) = 0;
  std::vector<Tensor> parameters_;
  std::int64_t steps_ = 0;
};

struct SgdOptions {
  double momentum = 0.0;
  bool nesterov = false;
  double weight_decay = 0.0; ///< added to the gradient
};
struct AdamOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.0; ///< Adam: added to the gradient; AdamW: decoupled
};

/// v = momentum v + g; w -= lr (nesterov ? g + momentum v : v)
std::unique_ptr<Optimizer> sgd(std::vector<Tensor> parameters, const SgdOptions& options = {});
/// Kingma and Ba, ICLR 2015.
std::unique_ptr<Optimizer> adam(std::vector<Tensor> parameters, const AdamOptions& options = {});
/// Loshchilov and Hutter, ICLR 2019.
std::unique_ptr<Optimizer> adamw(std::vector<Tensor> parameters, const AdamOptions& options = {});
/// "sgd", "momentum" (sgd with momentum 0.9), "nesterov", "adam", "adamw". Throws ValueError that lists the names.
std::unique_ptr<Optimizer> make_optimizer(const std::string& name, std::vector<Tensor> parameters,
                                          double weight_decay = 0.0);

/// Scales gradients in place so that their joint 2-norm is at most max_norm; returns the norm before.
double clip_gradients(std::vector<Tensor>& gradients, double max_norm);

} // namespace eg::optim
