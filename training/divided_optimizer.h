#pragma once
// Divides an optimiser over processes: each has the state of its part of the weights, and updates these.

#include "data/tensor_reader.h"
#include "distributed/gradient_sum.h"
#include "optim/optimizer.h"
#include "training/options.h"

#include <memory>
#include <string>
#include <vector>

namespace eg::training {

/// An optimiser over the parts of parameters that this process owns (GradientSum::part()). Rules that work element by
/// element own runs of elements, Muon whole hidden matrices, Adafactor whole parameters. After a step every process
/// has all weights. The bits are those of one optimiser over all of them, and so are its files.
class DividedOptimizer {
public:
  /// Which parameters one process must own whole.
  static std::vector<bool> whole_parameters(const RunOptions& options, const std::vector<Tensor>& parameters,
                                            const std::vector<optim::ParameterSettings>& settings);

  /// `parameters`, `settings` and `names`: of the whole model, in the order of `sum`. What is referred to must outlive
  /// it.
  DividedOptimizer(distributed::Communicator& processes, distributed::GradientSum& sum, const RunOptions& options,
                   std::vector<Tensor> parameters, const std::vector<optim::ParameterSettings>& settings,
                   std::vector<std::string> names);

  /// Of the parts: counts steps.
  optim::Optimizer& optimizer() { return *optimizer_; }
  /// optim::gradient_norm() of the whole gradients, of which this process has its part. All processes call it.
  double norm(const std::vector<Tensor>& gradients) const;
  /// Scales this process's part of the gradients, updates its part of the weights, and gives and receives weights.
  void step(const std::vector<Tensor>& gradients, double scale, double learning_rate);

  /// Writes the whole state, as optimizer_tensors() of one optimiser names it: process 0, while the others call
  /// help_to_save(). No more than one tensor at a time is whole.
  void save(const std::string& path) const;
  void help_to_save() const { save({}); }
  /// Reads this process's part of such a file. Throws FileError.
  void load(const std::string& path);

private:
  /// A tensor of the state of a whole parameter.
  struct State {
    std::size_t parameter = 0;
    std::string name;
    Shape shape;
  };
  Tensor own(const Tensor& whole, const distributed::ParameterPart& part) const;
  std::vector<State> agree_on_states() const;
  Tensor gathered(const State& state) const;
  /// The state of that name of one of this process's parts.
  Tensor state_of(std::size_t part, const std::string& name) const;

  distributed::Communicator& processes_;
  distributed::GradientSum& sum_;
  std::vector<Tensor> parameters_;
  std::vector<bool> whole_;
  std::vector<std::string> names_;
  std::unique_ptr<optim::Optimizer> optimizer_;
};

} // namespace eg::training
