#pragma once
// Lists the models of `bench step` with their data.

#include "autograd/tape.h"
#include "core/base/function_ref.h"
#include "core/ops.h"
#include "nn/narrow_weight.h"
#include "optim/optimizer.h"

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace eg::cli::bench {

/// One thing to do again and again.
class Workload {
public:
  Workload() = default;
  virtual ~Workload() = default;
  Workload(const Workload&) = delete;
  Workload& operator=(const Workload&) = delete;
  virtual void run() = 0;
  /// Equal parts of a run whose time is wanted: decoded tokens, else 1.
  virtual int parts() const { return 1; }
  /// What is in memory between runs is written as well as read: weights and an optimiser's state.
  virtual bool trains() const { return true; }
};

/// Sizes and randomness of a workload.
struct Setting {
  std::int64_t batch;
  RandomKey key;
  DType dtype;
  bool checkpoint = false;                             ///< blocks keep their input alone and compute the rest again
  nn::WeightStorage weights = nn::WeightStorage::full; ///< of a model that decodes
};

struct StepCase {
  std::string_view name;
  std::int64_t batch;
  std::unique_ptr<Workload> (*make)(const Setting&);
  bool decodes = false; ///< can keep its weights in fewer bits
};

/// Training of vision transformers.
std::vector<StepCase> vit_cases();
/// Training, inference and decoding of language models.
std::vector<StepCase> text_cases();

/// Forward and backward pass, with the optimiser's updates during the backward pass, so that not all gradients exist at
/// once.
class TrainingStep {
public:
  TrainingStep(const char* optimizer, std::vector<Tensor> parameters)
      : parameters_(std::move(parameters)), optimizer_(optim::make_optimizer(optimizer, parameters_)) {}
  void operator()(FunctionRef<Tensor()> loss) const {
    Tape tape;
    const Tensor value = loss();
    optim::Optimizer::Step step = optimizer_->begin(1e-4);
    tape.gradient_each(value, parameters_, [&](std::size_t i, const Tensor& gradient) { step.update(i, gradient); });
  }

private:
  std::vector<Tensor> parameters_;
  std::unique_ptr<optim::Optimizer> optimizer_;
};

} // namespace eg::cli::bench
