#pragma once
// A task with one model of Hugging Face's families: batches in parts, gradients, clipping, the optimiser, what is
// saved. What a batch is and what is lost on it is for the task to say.

#include "hub/model.h"
#include "optim/optimizer.h"
#include "training/task.h"

#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace eg::training {

inline constexpr double no_accuracy = std::numeric_limits<double>::quiet_NaN();

/// What a step or a test gave.
struct Record {
  data::Split split = data::Split::train;
  std::int64_t step = 0;         ///< steps done
  std::int64_t epoch = 0;        ///< epochs begun, from 0
  double loss = 0.0;             ///< mean, in nats
  double accuracy = no_accuracy; ///< share of samples that were right; NaN where that is not measured
  double lr = 0.0;
  double per_s = 0.0; ///< units a second
};

class ModelTask : public Task {
public:
  std::int64_t train(const Place& place) final;
  std::int64_t test(data::StopFlag stop) final;
  nlohmann::ordered_json record(const Occasion& occasion) final;
  std::vector<std::string> checkpoint_files() const final;
  void save(const CheckpointWriter& writer) const final;
  void load(const std::string& checkpoint, std::int64_t step) final;
  void seek(std::int64_t) override {} ///< batches are drawn by the number of their step

  /// What speed is counted in: "tokens", "texts".
  virtual const char* unit() const = 0;
  /// One line for people: data and model.
  virtual std::string summary() const = 0;
  const Record& last() const { return last_; }
  /// Calls `told` now and then during a test with the share of it that is done.
  void on_testing(std::function<void(double share)> told) { testing_ = std::move(told); }
  const hub::Model& model() const { return *model_; }
  hub::Model& model() { return *model_; }

protected:
  /// Takes over a model in evaluation or training, of the options' type. `options` must outlive the task.
  ModelTask(const RunOptions& options, std::unique_ptr<hub::Model> model);

  /// Losses and hits of samples, summed.
  struct Sums {
    double loss = 0.0, correct = 0.0, weight = 0.0; ///< weight: predictions
    bool counts = false;                            ///< correct is counted
  };
  /// Makes the samples of a step the present batch. Returns units.
  virtual std::int64_t draw_batch(std::int64_t step) = 0;
  /// The mean loss over samples [first, last) of the present batch, which are `weight` predictions, recorded by the
  /// open tape.
  struct PartLoss {
    Tensor loss;
    double weight = 0.0, correct = 0.0;
  };
  virtual PartLoss loss_of(std::int64_t first, std::int64_t last, RandomKey dropout) = 0;
  /// Measures the model, which is in evaluation, on the test data. Returns units.
  virtual std::int64_t measure(Sums& sums, data::StopFlag stop) = 0;
  /// For measure(): so much of it is done.
  void tell_tested(std::int64_t done, std::int64_t total) const {
    if (testing_) testing_(static_cast<double>(done) / static_cast<double>(total));
  }
  /// Whether loss_of and measure count what was right.
  virtual bool has_accuracy() const = 0;

  /// Sequences of random numbers of the run, by what they are for.
  enum Draw : std::uint64_t { draw_weights = 1, draw_samples, draw_dropout };
  static RandomKey key_of(const RunOptions& options, Draw draw) { return RandomKey{options.seed, 0}.fold(draw); }

private:
  const RunOptions& options_;
  std::unique_ptr<hub::Model> model_;
  std::vector<std::string> names_; ///< of the parameters
  std::vector<Tensor> parameters_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  Sums sums_;
  Record last_;
  std::function<void(double)> testing_;
};

} // namespace eg::training
