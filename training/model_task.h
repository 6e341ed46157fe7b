#pragma once
// Implements a task with one model: batches in parts, gradients, clipping, the optimiser, what is saved. A derived task
// defines the batch and its loss.

#include "core/base/function_ref.h"
#include "core/base/interrupt.h"
#include "core/device/uploads.h"
#include "nn/hub/model.h"
#include "optim/optimizer.h"
#include "training/checkpoint_state.h"
#include "training/fine_tuning.h"
#include "training/permuted_encoder.h"
#include "training/records.h"
#include "training/sharded_step.h"
#include "training/task.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace eg::training {

/// Which models a run trains side by side, from coupled initialisations: that of the mode alone, or beside it the plain
/// one (`twin`).
std::vector<permute::PermuteMode> modes_of(permute::PermuteMode mode, bool twin);

/// One model or several variants of it with batches, losses and optimisers. The subclass defines the
/// batch and its loss.
class ModelTask : public Task {
public:
  /// Sequences of random numbers of the run, by what they are for.
  enum Draw : std::uint64_t { draw_weights = 1, draw_samples, draw_dropout };
  static RandomKey key_of(const RunOptions& options, Draw draw) { return RandomKey{options.seed, 0}.fold(draw); }

  void join(distributed::Communicator& processes) final;
  std::int64_t train(const StepContext& context) final;
  std::int64_t test(StopFlag stop) final;
  nlohmann::ordered_json record(const MetricsContext& context) final;
  std::vector<std::string> checkpoint_files() const final;
  void save(const CheckpointWriter& writer) const override;
  void help_to_save() const final;
  void load(const std::string& checkpoint, std::int64_t updates) override;
  void add_state(nlohmann::ordered_json& state) const final;
  void check_state(const nlohmann::json& state, const std::string& checkpoint) const final;
  void seek(std::int64_t) override {} ///< batches are drawn by the number of their step

  /// What speed is counted in: "tokens", "texts".
  virtual const char* unit() const = 0;
  /// One line for people: data and model.
  virtual std::string summary() const = 0;
  /// What follows the number of steps: " of 64 images".
  virtual std::string step_words() const { return {}; }
  const Record& last() const { return last_; }
  /// Sets what is called from time to time during a test, with the share of it that is done.
  void on_testing(std::function<void(double share)> on_progress) { testing_ = std::move(on_progress); }

  std::size_t variants() const { return variants_.size(); }
  permute::PermuteMode mode(std::size_t variant) const { return variants_.at(variant).mode; }
  const nn::Module& module(std::size_t variant) const { return *variants_.at(variant).module; }
  const nn::Module& module() const { return *variants_.back().module; }
  /// The averages of its weights, in the order of module(variant).parameters(); empty without options.ema.
  std::vector<Tensor> average(std::size_t variant) const;
  /// How far a variant's weights without the column key are from the plain variant's (weight_difference); not_measured
  /// without a plain variant.
  double drift(std::size_t variant) const;
  /// The main model under the names of Hugging Face's. Throws ValueError where it is of none of their families.
  virtual hub::Model& model();
  const hub::Model& model() const { return const_cast<ModelTask*>(this)->model(); }
  const PermutedEncoder& encoder() const { return encoder_; }

  /// To be called when a run has begun and nothing was resumed: has the party with the blocks begin, if there is one.
  void begin_elsewhere();
  /// Split learning with permuted columns: from now on a test is that of a holder of the encoder who lacks the key.
  /// Fetches the blocks; the run is over.
  void forget_key();

protected:
  /// `options` must outlive the task. `drift_every`: steps between measurements of the drift; 0: at the end.
  ModelTask(const RunOptions& options, PermutedEncoder encoder, std::int64_t drift_every = 0);
  /// Adds a model, converted to the options' type and moved to their device, whose parameters called `trained` learn.
  /// The last one is the main one. Its blocks carry the column key already where the mode permutes columns.
  void add_variant(permute::PermuteMode mode, std::shared_ptr<nn::Module> module, std::vector<std::string> trained);

  /// Losses and hits of samples, summed.
  struct Sums {
    double loss = 0.0, correct = 0.0, weight = 0.0; ///< weight: predictions
    bool counts = false;                            ///< correct is counted
    double auc = not_measured;                      ///< of all samples, where a test measures it

    double mean_loss() const { return loss / std::max(weight, 1.0); }
    double accuracy() const { return counts ? correct / std::max(weight, 1.0) : not_measured; }
  };
  struct Variant {
    permute::PermuteMode mode = permute::PermuteMode::none;
    std::shared_ptr<nn::Module> module = {};
    std::vector<Tensor> parameters = {};
    std::unique_ptr<optim::Optimizer> optimizer = {}; ///< null where it is divided
    std::optional<optim::WeightAverage> average = {};
    std::unique_ptr<ShardedStep> sharded = {}; ///< where a batch has shards
    Sums sums = {}, average_sums = {};         ///< of the last step or test

    optim::Optimizer& rule() const { return optimizer ? *optimizer : sharded->divided()->optimizer(); }
  };
  /// Samples [first, last) of every batch are the only ones that loss_of() will be asked for.
  virtual void take_part(std::int64_t, std::int64_t) {}
  /// Makes the samples of a step the present batch. Returns units of the whole one.
  virtual std::int64_t draw_batch(std::int64_t step) = 0;
  /// The mean loss over samples [first, last) of the present batch, recorded by the open tape.
  virtual PartLoss loss_of(const Variant& variant, std::int64_t first, std::int64_t last, RandomKey dropout) = 0;
  /// What a batch of the test data gives.
  struct TestBatch {
    double loss = 0.0, correct = 0.0, weight = 0.0; ///< summed
    std::vector<double> scores = {};                ///< of each sample, where the task has an AUC
  };
  virtual std::int64_t test_batches() const = 0;
  virtual std::int64_t test_units() const = 0;
  /// Measures a model, which is in evaluation, on a batch of the test data.
  virtual TestBatch measure(const Variant& variant, std::int64_t batch) = 0;
  /// From the scores of all samples.
  virtual double auc_of(const std::vector<double>&) const { return not_measured; }
  /// Calls save() with the average of the weights in the model's place; not at all where there is none.
  static void with_average(const Variant& variant, FunctionRef<void()> save);
  /// Whether loss_of and measure count what was right.
  virtual bool has_accuracy() const = 0;
  /// Which model an error is about; "" where there is no doubt.
  virtual std::string name_in_errors(const Variant& variant) const;
  /// The config of a model of Hugging Face's families, so that no other one resumes; null of another model.
  virtual const nlohmann::json* remembered_config() const { return nullptr; }
  /// The blocks' config and number, for a party that has them.
  virtual std::pair<nn::BlockConfig, std::int64_t> blocks_config() const { return {}; }
  /// What blocks elsewhere begin from, among other weights; asked once.
  virtual nn::StateDict take_initial_blocks() { return module().state_dict(); }
  /// Puts blocks that were trained elsewhere into the main model.
  virtual void fetch_blocks() {}
  /// What the run folder says of the main model's blocks; nothing where they are plain.
  std::optional<BlocksMark> mark() const;

  const std::vector<Variant>& all_variants() const { return variants_; }
  Variant& main_variant() { return variants_.back(); }
  const Variant& main_variant() const { return variants_.back(); }
  /// Steps done.
  std::int64_t step() const { return step_; }
  /// Where the models are.
  Device device() const { return device_; }
  /// What a batch is made of, where the models are; undefined tensors stay undefined. On a device work that is queued
  /// goes on meanwhile.
  std::vector<Tensor> there(std::vector<Tensor> batch) const { return uploads_.begin(std::move(batch)).take(); }
  Tensor there(const Tensor& x) const { return there(std::vector{x}).front(); }
  /// Begins to copy a batch that is needed later.
  device::Uploads::Batch begin_upload(std::vector<Tensor> batch) const { return uploads_.begin(std::move(batch)); }
  std::int64_t total_steps() const { return options_.steps > 0 ? options_.steps : options_.epochs * steps_per_epoch(); }
  /// "" of the main variant, "_none" of a plain one beside it.
  std::string suffix(std::size_t variant) const;
  /// Throws DistributedError where a process has other weights than process 0.
  void require_same_weights() const;
  const std::vector<std::string>& learning() const { return names_; }
  PermutedEncoder encoder_;
  DataFingerprint data_fingerprint_; ///< what checkpoints remember of the data

private:
  void advance(Variant& variant, const StepContext& context);
  void measure_all(const Variant& variant, Sums& sums, StopFlag stop);
  /// Throws ValueError when a step has failed half-way through its updates.
  void require_whole() const;
  VariantRecord values_of(const Variant& variant, data::Split split) const;
  bool wants_drift(const MetricsContext& context) const;

  const RunOptions& options_;
  distributed::Communicator* processes_ = nullptr; ///< of the run
  Device device_;
  mutable device::Uploads uploads_;
  std::int64_t drift_every_;
  std::vector<Variant> variants_;
  std::vector<std::string> names_; ///< of the parameters that learn
  std::int64_t step_ = 0;
  bool torn_ = false; ///< a step has failed half-way through its updates
  Record last_;
  std::function<void(double)> testing_;
};

/// Largest relative difference |a - b| / max |b| over the parameters of two models of one config. b_K is left out where
/// positions are not rotary: its gradient is zero in theory, so that an adaptive optimiser moves it by rounding noise.
double weight_difference(const nn::StateDict& a, const nn::StateDict& b, bool rotary = false);

/// One whose models are of Hugging Face's families. RUN/model receives the main one, RUN/model-none a plain one beside
/// it, RUN/model-ema and so on their averages.
class HubModelTask : public ModelTask {
public:
  using ModelTask::model;
  hub::Model& model() override { return *models_.back(); }
  void save_result(const std::string& folder) const override;

protected:
  using ModelTask::ModelTask;
  /// Adds a model; with a mode that permutes columns, its blocks are moved by the column key.
  void add_model(permute::PermuteMode mode, std::shared_ptr<hub::Model> model, const FineTuning& start);
  const nlohmann::json* remembered_config() const override { return &models_.back()->config(); }
  void fetch_blocks() override;
  /// Writes a model into a folder of its own below the run's, as people and other programs read it.
  virtual void save_model(const hub::Model& model, const std::string& folder) const = 0;

private:
  std::vector<std::shared_ptr<hub::Model>> models_; ///< in the order of the variants
};

} // namespace eg::training
