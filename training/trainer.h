#pragma once
// Trains one model to the end: a run and its task together.

#include "core/base/interrupt.h"
#include "training/model_task.h"
#include "training/run.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace eg::training {

/// Functions that are called during a training; any may be empty.
struct Callbacks {
  std::function<void(const Record&)> step;
  std::function<void(const Record&)> test;
  std::function<void(const std::string& folder)> checkpoint;
  std::function<void(const std::string& why)> skipped; ///< after a step whose update was left out
  std::function<void(double share)> testing;           ///< from time to time during a test: how much of it is done
  std::function<void()> epoch; ///< after the last step of an epoch and the test that is due there
  std::function<bool()> ends;  ///< asked after every step (and its test): true ends the run as if it were the last one
};

struct Result {
  std::int64_t steps = 0;
  double seconds = 0.0;             ///< in training steps, of this process
  double per_s = 0.0;               ///< units a second, whatever the number of models
  Record train;                     ///< the last step of this process
  Record test;                      ///< at the end
  std::int64_t skipped = 0;         ///< steps since the run began whose update was left out
  std::optional<std::int64_t> best; ///< step of the checkpoint that did best in its test
};

/// Trains what a factory (training/language/language.h) put together. Everything drawn depends on seed and step alone,
/// so a resumed run has the bits of an uninterrupted one.
class Trainer {
public:
  /// Resumes from a checkpoint, if the options say so. Throws ValueError, FileError.
  Trainer(std::unique_ptr<Run> run, std::unique_ptr<ModelTask> task);
  virtual ~Trainer() = default;
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Trains to the last step (or to the one where callbacks.ends() says so), tests, and writes metrics, checkpoints and
  /// the final model into the run folder. When `stop` becomes true, writes a checkpoint after the present step and
  /// throws Interrupted. Throws ValueError when the loss stops being a finite number.
  Result run(const Callbacks& callbacks = {}, StopFlag stop = nullptr);
  /// One training step.
  Record train_step();
  /// Evaluates every model on the test data: loss, and accuracy or AUC where the task has them. If `stop` became true
  /// meanwhile, the values cover a part of the data; discard them.
  Record test(StopFlag stop = nullptr);
  /// Writes <out>/checkpoints/step-N: complete or not at all. Returns the folder.
  std::string save_checkpoint() { return run_->save_checkpoint(); }

  std::int64_t step() const { return run_->step(); }
  std::int64_t total_steps() const { return run_->total(); }
  std::int64_t steps_per_epoch() const { return task_->steps_per_epoch(); }
  const nn::Module& module() const { return task_->module(); }
  /// Throws ValueError where the model is of no family of Hugging Face's.
  const hub::Model& model() const { return std::as_const(*task_).model(); }
  /// For callers that give it other weights.
  hub::Model& model() { return task_->model(); }
  /// What speed is counted in: "tokens", "texts".
  const char* unit() const { return task_->unit(); }
  /// One line for people: data and model.
  std::string summary() const { return task_->summary(); }
  /// All options, as config.json holds them.
  nlohmann::ordered_json options_json() const;
  /// " of 64 images", behind the number of steps; "" where the unit says all.
  std::string step_words() const { return task_->step_words(); }
  std::size_t variants() const { return task_->variants(); }
  permute::PermuteMode mode(std::size_t variant) const { return task_->mode(variant); }
  const nn::Module& module(std::size_t variant) const { return task_->module(variant); }
  std::vector<Tensor> average(std::size_t variant) const { return task_->average(variant); }
  /// A variant's weights without the column key: those of the plain model that computes the same. Blocks that are
  /// elsewhere are not among them.
  nn::StateDict plain_weights(std::size_t variant) const;
  /// See ModelTask::drift.
  double drift(std::size_t variant) const { return task_->drift(variant); }
  /// P_C and the inner permutations of the variants that permute columns; null when none does.
  const permute::BlocksKey* column_key() const { return task_->encoder().column_key(); }
  /// Whether another party holds the blocks and sees permuted columns.
  bool hides_columns() const { return task_->encoder().elsewhere() && column_key() != nullptr; }
  /// Split learning: a test for a holder of the encoder without the key, its features going in as they are; computed
  /// here, on blocks that are fetched. The run is over then. Throws Interrupted.
  Record test_without_key(StopFlag stop = nullptr);
  /// Notes for people, to be shown before the first step. One sentence each.
  const std::vector<std::string>& notes() const { return run_->notes(); }

protected:
  const ModelTask& task() const { return *task_; }

private:
  std::unique_ptr<Run> run_;
  std::unique_ptr<ModelTask> task_;
};

} // namespace eg::training
