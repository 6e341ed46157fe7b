#pragma once
// A task with one model: batches in parts, gradients, clipping, the optimiser, what is saved. What a batch is and what
// is lost on it is for the task to say.

#include "core/base/function_ref.h"
#include "core/base/interrupt.h"
#include "nn/hub/model.h"
#include "optim/optimizer.h"
#include "training/fine_tuning.h"
#include "training/task.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
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
  double auc = no_accuracy;      ///< area under the ROC curve; NaN where that is not measured
  double ema_loss = no_accuracy; ///< of a test with the average of the weights; NaN where there is none
  double ema_accuracy = no_accuracy;
  double lr = 0.0;
  double per_s = 0.0; ///< units a second
};

class ModelTask : public Task {
public:
  /// Sequences of random numbers of the run, by what they are for.
  enum Draw : std::uint64_t { draw_weights = 1, draw_samples, draw_dropout };
  static RandomKey key_of(const RunOptions& options, Draw draw) { return RandomKey{options.seed, 0}.fold(draw); }

  std::int64_t train(const Place& place) final;
  std::int64_t test(StopFlag stop) final;
  nlohmann::ordered_json record(const Occasion& occasion) final;
  std::vector<std::string> checkpoint_files() const final;
  void save(const CheckpointWriter& writer) const override;
  void load(const std::string& checkpoint, std::int64_t updates) override;
  void save_result(const std::string& folder) const override;
  void seek(std::int64_t) override {} ///< batches are drawn by the number of their step

  /// What speed is counted in: "tokens", "texts".
  virtual const char* unit() const = 0;
  /// One line for people: data and model.
  virtual std::string summary() const = 0;
  const Record& last() const { return last_; }
  /// Calls `told` now and then during a test with the share of it that is done.
  void on_testing(std::function<void(double share)> told) { testing_ = std::move(told); }
  const nn::Module& module() const { return *module_; }
  /// The model under the names of Hugging Face's. Throws ValueError where it is of none of their families.
  virtual hub::Model& model();
  const hub::Model& model() const { return const_cast<ModelTask*>(this)->model(); }

protected:
  /// Converts the model to the options' type; the parameters called `trained` learn. `options` must outlive the task.
  ModelTask(const RunOptions& options, std::shared_ptr<nn::Module> module, std::vector<std::string> trained);

  /// Losses and hits of samples, summed.
  struct Sums {
    double loss = 0.0, correct = 0.0, weight = 0.0; ///< weight: predictions
    bool counts = false;                            ///< correct is counted
    double auc = no_accuracy;                       ///< of all samples, where a test measures it

    double mean_loss() const { return loss / std::max(weight, 1.0); }
    double accuracy() const { return counts ? correct / std::max(weight, 1.0) : no_accuracy; }
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
  virtual std::int64_t measure(Sums& sums, StopFlag stop) = 0;
  /// For measure(): so much of it is done.
  void tell_tested(std::int64_t done, std::int64_t total) const {
    if (testing_) testing_(static_cast<double>(done) / static_cast<double>(total));
  }
  /// Writes the model into a folder of its own below the run's, as people and other programs read it.
  virtual void save_model(const std::string& folder) const = 0;
  /// Calls save() with the average of the weights in the model's place; not at all where there is none.
  void with_average(FunctionRef<void()> save) const;
  /// Whether loss_of and measure count what was right.
  virtual bool has_accuracy() const = 0;

private:
  const RunOptions& options_;
  std::shared_ptr<nn::Module> module_;
  std::vector<std::string> names_; ///< of the parameters that learn
  std::vector<Tensor> parameters_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::optional<optim::WeightAverage> average_;
  Sums sums_;
  Sums average_sums_; ///< of the last test, with the average
  Record last_;
  std::function<void(double)> testing_;
};

/// One whose model is of Hugging Face's families.
class HubModelTask : public ModelTask {
public:
  using ModelTask::model;
  hub::Model& model() override { return *model_; }
  /// The model's config, so that no other model goes on.
  void add_state(nlohmann::ordered_json& state) const override;
  void check_state(const nlohmann::json& state, const std::string& checkpoint) const override;

protected:
  /// The names of the parameters that learn -> of those that do so here.
  using LearningHere = std::function<std::vector<std::string>(std::vector<std::string> learning, const hub::Model&)>;

  /// `here` empty: all do.
  HubModelTask(const RunOptions& options, const FineTuning& start, std::shared_ptr<hub::Model> model,
               const LearningHere& here = {});

private:
  std::shared_ptr<hub::Model> model_;
};

} // namespace eg::training
