#pragma once
// Optimisers: in place on tensors, one fused pass over all parameters, no knowledge of the tape.

#include "core/tensor.h"

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace eg::optim {

/// State tensors of one parameter, by name ("momentum", "exp_avg", "exp_avg_sq"); same shape as the parameter.
using ParameterState = std::vector<std::pair<std::string, Tensor>>;

/// One update rule over a list of parameters. The learning rate is given with each step, so schedules are functions.
/// Every rule works element by element, so the result has the same bits for any number of threads, and commutes with
/// any permutation of a parameter's elements.
class Optimizer {
public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Updates every parameter from its gradient (same order, shapes and dtypes as the parameters; undefined: skipped).
  /// Everything is checked before anything is written. Throws ShapeError, DTypeError.
  void step(const std::vector<Tensor>& gradients, double learning_rate);

  /// A step whose gradients come one by one, in any order: the bits are those of step(). It counts from begin() on, and
  /// what was updated stays so when the rest never comes.
  class Step {
  public:
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;
    /// Updates parameter i, once; one that never comes is skipped. Throws ShapeError, DTypeError as step() does,
    /// IndexError when there is no such parameter, ValueError when it came before or another step has begun.
    void update(std::size_t i, const Tensor& gradient);

  private:
    friend class Optimizer;
    explicit Step(Optimizer& optimizer)
        : optimizer_(optimizer), number_(optimizer.steps()), done_(optimizer.parameters().size()) {}
    Optimizer& optimizer_;
    std::int64_t number_;
    std::vector<bool> done_;
  };
  /// Begins the next step.
  Step begin(double learning_rate);

  /// Steps taken so far (t in Adam's bias correction).
  std::int64_t steps() const { return steps_; }
  void set_steps(std::int64_t steps) { steps_ = steps; }
  /// State of parameter i: handles, so it can be saved, permuted and restored.
  ParameterState state(std::size_t i) const;
  virtual std::string name() const = 0;
  const std::vector<Tensor>& parameters() const { return parameters_; }

protected:
  /// Part of one parameter: `count` elements of the same place in the parameter, its gradient and its state.
  struct Piece {
    DType dtype = DType::f32;
    std::int64_t count = 0;
    std::byte* parameter = nullptr;
    const std::byte* gradient = nullptr;
    std::array<std::byte*, 2> state{};
  };

  /// Makes a zero state tensor of each name (at most two) for each parameter. Throws DTypeError for a parameter that is
  /// not f32 or f64, ValueError for one that is not densely packed or is listed twice.
  Optimizer(std::vector<Tensor> parameters, std::vector<std::string> state_names);
  /// Called once before the pieces of a step, with steps() already counted up.
  virtual void begin_step(double learning_rate) = 0;
  /// Updates one piece; called from several threads at the same time.
  virtual void update(const Piece& piece) const = 0;
  /// What a tape reports as the writer of a value changed in place.
  virtual const char* writer() const = 0;

private:
  void check(std::size_t i, const Tensor& gradient) const;
  void add_pieces(std::size_t i, const Tensor& packed_gradient, std::vector<Piece>& pieces);
  void update_all(const std::vector<std::pair<std::size_t, Tensor>>& gradients);
  std::vector<Tensor> parameters_;
  std::vector<std::string> state_names_;
  std::vector<std::vector<Tensor>> state_;
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

/// v = momentum v + g; w -= lr (nesterov ? g + momentum v : v). Without momentum there is no state.
/// Throws ValueError for options out of range.
std::unique_ptr<Optimizer> sgd(std::vector<Tensor> parameters, const SgdOptions& options = {});
/// m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2; w -= lr/(1-b1^t) m / (sqrt(v)/sqrt(1-b2^t) + eps).
/// Kingma and Ba, ICLR 2015.
std::unique_ptr<Optimizer> adam(std::vector<Tensor> parameters, const AdamOptions& options = {});
/// The same after w *= 1 - lr weight_decay. Loshchilov and Hutter, ICLR 2019.
std::unique_ptr<Optimizer> adamw(std::vector<Tensor> parameters, const AdamOptions& options = {});
/// "sgd", "momentum" (sgd with momentum 0.9), "nesterov", "adam", "adamw"; `eps` is Adam's. Throws ValueError that
/// lists the names.
std::unique_ptr<Optimizer> make_optimizer(const std::string& name, std::vector<Tensor> parameters,
                                          double weight_decay = 0.0, double eps = 1e-8);

/// Replaces the gradients by copies scaled so that their joint 2-norm is at most max_norm (factor
/// max_norm / (norm + 1e-6) when below 1); returns the norm before. Undefined gradients are skipped. Summed in double
/// over fixed chunks: the same bits for any number of threads. Throws ValueError unless max_norm is positive.
double clip_gradients(std::vector<Tensor>& gradients, double max_norm);
/// sqrt(sum of squares of all elements of all gradients).
double gradient_norm(const std::vector<Tensor>& gradients);

} // namespace eg::optim
