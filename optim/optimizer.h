#pragma once
// Defines the optimisers, which update parameters in place from their gradients. They do not know the tape.

#include "core/device/update_jobs.h"
#include "core/tensor.h"

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace eg::optim {

/// State tensors of one parameter, by name ("momentum", "exp_avg", "exp_avg_sq"); of the parameter's rank, every extent
/// being the parameter's or 1.
using ParameterState = std::vector<std::pair<std::string, Tensor>>;

/// How one parameter is treated: what other libraries call parameter groups, one for each parameter.
struct ParameterSettings {
  double learning_rate = 1.0; ///< times each step's learning rate; 0: the parameter and its state stay as they are
  double weight_decay = 1.0;  ///< times the rule's weight decay
  /// A matrix between hidden features, whose updates Muon makes orthogonal if it has two axes. False for embeddings and
  /// classifiers.
  bool hidden = true;
};

/// One update rule over a list of parameters. The learning rate is given with each step, so schedules are functions.
/// The result has the same bits for any number of threads; of rules that work element by element also on a device,
/// where parameters, gradients and state are on the same one. Rules that work element by element commute with any
/// permutation of a parameter's elements, Adafactor and Muon with any permutation along its axes.
class Optimizer {
public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Updates every parameter from its gradient (same order, shapes and dtypes as the parameters; undefined: skipped).
  /// Everything is checked before anything is written. Throws ShapeError, DTypeError; DeviceError for a gradient that
  /// is not where its parameter is.
  void step(const std::vector<Tensor>& gradients, double learning_rate);

  /// A step whose gradients come one by one, in any order: the bits are those of step(). steps() counts it from begin()
  /// on. Parameters that get no gradient in it stay unchanged, the others keep their updates.
  class Step {
  public:
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;
    /// Updates parameter i, at most once. Throws ShapeError, DTypeError, DeviceError as step() does, IndexError when
    /// there is no such parameter, ValueError when it was updated in this step already or another step has begun.
    void update(std::size_t i, const Tensor& gradient);

  private:
    friend class Optimizer;
    explicit Step(Optimizer& optimizer)
        : optimizer_(optimizer), number_(optimizer.steps()), done_(optimizer.parameters().size()) {}
    Optimizer& optimizer_;
    std::int64_t number_;
    std::vector<bool> done_;
  };
  /// Begins the next step. Throws ValueError for a learning rate that is negative or not finite, as step() does.
  Step begin(double learning_rate);

  /// Takes one for each parameter, before the first step. Resets the state. Throws ValueError for another number of
  /// them, a factor that is negative or not finite, or when steps have been taken.
  void set_settings(std::vector<ParameterSettings> settings);
  const std::vector<ParameterSettings>& settings() const { return settings_; }

  /// Steps taken so far (t in Adam's bias correction).
  std::int64_t steps() const { return steps_; }
  /// Sets that number, when a run is resumed.
  void set_steps(std::int64_t steps) { steps_ = steps; }
  /// State of parameter i: handles, so it can be saved, permuted and restored. Throws IndexError.
  ParameterState state(std::size_t i) const;
  /// The rule's name, as in make_optimizer().
  virtual std::string name() const = 0;
  const std::vector<Tensor>& parameters() const { return parameters_; }

protected:
  /// Part of one parameter: `count` elements of the same place in the parameter, its gradient and its state, in the
  /// memory of their device.
  struct Piece {
    DType dtype = DType::f32;
    std::int64_t count = 0;
    std::byte* parameter = nullptr;
    const std::byte* gradient = nullptr;
    std::array<std::byte*, 2> state{};
    double learning_rate = 0.0; ///< of this parameter in this step
    double decay_factor = 1.0;  ///< ParameterSettings::weight_decay
  };
  /// One parameter, for rules that look at all of it.
  struct Whole {
    Tensor parameter, gradient;
    std::vector<Tensor> state;
    double learning_rate = 0.0;
    double decay_factor = 1.0;
  };
  /// New values of a parameter and its state.
  struct Updated {
    Tensor parameter;
    std::vector<Tensor> state;
  };
  struct StateShape {
    std::string name;
    Shape shape;
  };
  /// The state of a parameter. Of one that is updated in pieces at most two tensors, both of its shape.
  using StatePlan = std::function<std::vector<StateShape>(const Tensor& parameter, const ParameterSettings& settings)>;

  /// Makes the state that `plan` asks for, zeros. Throws DTypeError for a parameter that is not f32 or f64, ValueError
  /// for one that is not densely packed or is listed twice.
  Optimizer(std::vector<Tensor> parameters, StatePlan plan);
  /// State tensors of the parameter's shape, by name.
  static StatePlan alike(std::vector<std::string> names);
  /// Called once before the updates of a step, when steps() counts that step already.
  virtual void begin_step(double) {}
  /// Whether parameter i is given to updated(), not cut into pieces.
  virtual bool takes_whole(std::size_t) const { return false; }
  /// Updates one piece; called from several threads at the same time.
  virtual void update(const Piece&) const {}
  /// Updates parameters on a device by one launch, with the bits of update(). `alike` has their learning rate and decay
  /// factor. Throws DeviceError unless the rule has a kernel.
  virtual void update_on_device(Device device, const Piece& alike, const device::UpdateParts& parts) const;
  /// What one parameter and its state become, computed by operations of core: these have the same bits for any number
  /// of threads, and in exact mode sums that do not depend on the order of their terms. Called while recording is
  /// paused. Must not change `whole`, so that a step that runs out of memory changes nothing.
  virtual Updated updated(const Whole& whole) const { return {whole.parameter, whole.state}; }
  /// What a tape reports as the writer of a value changed in place.
  virtual const char* writer() const = 0;

private:
  void check(std::size_t i, const Tensor& gradient) const;
  void make_state();
  Whole whole_of(std::size_t i, const Tensor& gradient) const;
  Piece piece_of(std::size_t i, const Tensor& packed_gradient);
  static void add_pieces(const Piece& whole, std::vector<Piece>& pieces);
  void launch_updates(const std::vector<std::pair<Device, Piece>>& there) const;
  void update_all(const std::vector<std::pair<std::size_t, Tensor>>& gradients);
  std::vector<Tensor> parameters_;
  std::vector<ParameterSettings> settings_;
  StatePlan plan_;
  std::vector<ParameterState> state_;
  std::int64_t steps_ = 0;
  double learning_rate_ = 0.0; ///< of the current step
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
struct RmsPropOptions {
  double alpha = 0.99;
  double eps = 1e-8;
  double momentum = 0.0;
  double weight_decay = 0.0; ///< added to the gradient
};
struct LionOptions {
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0.0; ///< decoupled
};
struct AdafactorOptions {
  double decay_power = 0.8;    ///< step t keeps 1 - t^-decay_power of the moments
  double eps_squares = 1e-30;  ///< added to squared gradients
  double eps_scale = 1e-3;     ///< least scale of a parameter's steps
  double clip = 1.0;           ///< largest root mean square of a parameter's direction; 0: no clipping
  bool scale_parameter = true; ///< steps are relative to the parameter's root mean square
  double weight_decay = 0.0;   ///< decoupled
};
struct MuonOptions {
  double momentum = 0.95;
  bool nesterov = true;
  int iterations = 5;        ///< of orthogonalized()
  double weight_decay = 0.0; ///< decoupled, of every parameter
  double eps = 1e-8;         ///< of AdamW, for what is not a hidden matrix
};

/// v = momentum v + g; w -= lr (nesterov ? g + momentum v : v). Without momentum there is no state.
/// Throws ValueError for options out of range.
std::unique_ptr<Optimizer> sgd(std::vector<Tensor> parameters, const SgdOptions& options = {});
/// m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2; w -= lr/(1-b1^t) m / (sqrt(v)/sqrt(1-b2^t) + eps).
/// Kingma and Ba, ICLR 2015.
std::unique_ptr<Optimizer> adam(std::vector<Tensor> parameters, const AdamOptions& options = {});
/// The same after w *= 1 - lr weight_decay. Loshchilov and Hutter, ICLR 2019.
std::unique_ptr<Optimizer> adamw(std::vector<Tensor> parameters, const AdamOptions& options = {});
/// v = alpha v + (1-alpha) g^2; u = g / (sqrt(v) + eps); with momentum u = b = momentum b + u; w -= lr u. Tieleman and
/// Hinton, Coursera lecture 6.5, 2012; eps outside the root, as PyTorch has it.
std::unique_ptr<Optimizer> rmsprop(std::vector<Tensor> parameters, const RmsPropOptions& options = {});
/// w = (1 - lr weight_decay) w - lr sign(b1 m + (1-b1) g); m = b2 m + (1-b2) g. Chen et al., "Symbolic Discovery of
/// Optimization Algorithms", 2023, algorithm 2. The usual learning rate is a third to a tenth of AdamW's.
std::unique_ptr<Optimizer> lion(std::vector<Tensor> parameters, const LionOptions& options = {});
/// For parameters with two axes or more the state is one number for each row and column: r and c are running means of
/// g^2 + eps_squares over the last axis and over the one before it, V = r c / mean(r). For others V is a running mean
/// for each element. In step t new values have the weight t^-decay_power. U = g / sqrt(V), divided by max(1, rms(U) /
/// clip); w = (1 - lr weight_decay) w - lr max(eps_scale, rms(w)) U. Shazeer and Stern, "Adafactor", ICML 2018,
/// algorithms 4 and 5, the relative step size being the schedule's. With lr 1e-2, the usual one, a step changes weights
/// by about a hundredth.
std::unique_ptr<Optimizer> adafactor(std::vector<Tensor> parameters, const AdafactorOptions& options = {});
/// Matrices (ParameterSettings::hidden, two axes): m = momentum m + (1-momentum) g; O = orthogonalized(nesterov ?
/// (1-momentum) g + momentum m : m); w = (1 - lr weight_decay) w - lr 0.2 sqrt(max(rows, columns)) O. Jordan et al.,
/// "Muon", 2024; the factor, with which AdamW's learning rate can be used, is that of Liu et al., "Muon is scalable for
/// LLM training", 2025, equation 4. Other parameters: AdamW with betas 0.9 and 0.95 at the same learning rate.
std::unique_ptr<Optimizer> muon(std::vector<Tensor> parameters, const MuonOptions& options = {});
/// Close to the nearest matrix with orthonormal rows or columns, by a Newton-Schulz iteration: y = x / |x| (Frobenius
/// norm), then y = a y + (b y y^T + c (y y^T)^2) y `iterations` times with (a, b, c) = (3.4445, -4.7750, 2.0315);
/// singular values end between about 0.7 and 1.2. Zero stays zero. Throws ShapeError unless x has two axes.
Tensor orthogonalized(const Tensor& x, int iterations = 5);

/// What is known of a rule before parameters exist.
struct RuleTraits {
  /// What must be together to be updated: an element, a hidden matrix (ParameterSettings::hidden) or a parameter.
  enum class Whole : std::uint8_t { elements, matrices, parameters };
  int state_per_element = 1; ///< most elements of state for each element of a parameter
  bool eps = false;          ///< make_optimizer's eps is used
  Whole whole = Whole::elements;
};
/// Of the rules of make_optimizer. Throws ValueError that lists their names.
RuleTraits rule_traits(const std::string& name);
/// "sgd", "momentum" (sgd with momentum 0.9), "nesterov", "adam", "adamw", "rmsprop", "lion", "adafactor", "muon";
/// `eps` is that of Adam, AdamW, RMSprop, and of Muon's AdamW. Throws ValueError that lists the names.
std::unique_ptr<Optimizer> make_optimizer(const std::string& name, std::vector<Tensor> parameters,
                                          double weight_decay = 0.0, double eps = 1e-8);

/// What clipping multiplies gradients of this joint norm by: max_norm / (norm + 1e-6), at most 1.
double clip_factor(double norm, double max_norm);

/// Replaces the gradients by copies scaled so that their joint 2-norm is at most max_norm (clip_factor()); returns the
/// norm before. Undefined gradients are skipped. Summed in double over fixed chunks: the same bits for any number of
/// threads. Throws ValueError unless max_norm is positive, DTypeError as gradient_norm() does.
double clip_gradients(std::vector<Tensor>& gradients, double max_norm);
/// sqrt(sum of squares of all elements of all gradients), in double. Throws DTypeError for a gradient that is not
/// floating.
double gradient_norm(const std::vector<Tensor>& gradients);
/// How many elements gradient_norm() sums up at a time, outside exact mode.
inline constexpr std::int64_t norm_chunk = 32768;
/// The sums of squares of a gradient's chunks of norm_chunk elements, in row-major order, as gradient_norm() adds them:
/// for parties that each have a part of a gradient. On the CPU.
std::vector<double> chunk_squares(const Tensor& gradient);

} // namespace eg::optim
