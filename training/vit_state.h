#pragma once
// What a VitTrainer holds; shared by training.cpp (steps), training_setup.cpp and training_files.cpp.

#include "core/base/interrupt.h"
#include "data/loader.h"
#include "data/mix.h"
#include "permute/key.h"
#include "training/checkpoint_state.h"
#include "training/run.h"
#include "training/step.h"
#include "training/vision_model.h"
#include "training/vit_trainer.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <optional>

namespace eg::permute {

/// Parts of the run that draw random numbers; each has a sequence of its own.
/// 4 is that of dropout (training/elsewhere.h).
enum Draw : std::uint64_t { draw_weights = 1, draw_columns, draw_rows, draw_test_rows = 5, draw_mix };

/// What the options ask of training images of that size.
data::Augmentation augmentation_of(const TrainOptions& options, std::int64_t side, std::int64_t channels);

/// One model in training.
struct Variant {
  TrainMode mode = TrainMode::none;
  std::unique_ptr<nn::Vit> model = {};
  std::unique_ptr<optim::Optimizer> optimizer = {};
  std::vector<Tensor> parameters = {};
  std::optional<optim::WeightAverage> average = {};
};

/// Images and what they show: labels [B]; or, where images are mixed or have attributes, shares of the classes
/// [B, classes] instead.
struct Samples {
  Tensor images, labels, shares;
  bool attributes = false;
  Tensor rows = {};   ///< order of the tokens of each image [B, T]; undefined: as they are
  Tensor taught = {}; ///< DeiT: the classes that a teacher sees [B]

  std::int64_t size() const { return labels.size(0); }
  Samples cut(std::int64_t first, std::int64_t last) const {
    const auto part = [&](const Tensor& x) { return x.defined() ? x.slice(0, first, last) : x; };
    return {part(images), part(labels), part(shares), attributes, part(rows), part(taught)};
  }
};

struct VitTrainer::State : training::Task {
  TrainOptions options;
  std::unique_ptr<training::Run> run;
  data::ImageDataset train_images, test_images;
  training::SourcePrint source_print = {}; ///< what checkpoints remember of the images, and of a teacher
  std::optional<data::Loader> loader;
  std::int64_t loader_step = 0; ///< which step its next batch is for
  std::optional<data::Loader> test_loader;
  std::optional<SecretKey> secret;
  std::optional<VitKey> column_key;
  AxisMap axes;
  PermutationSet columns;
  std::optional<VisionStart> start; ///< what the variants begin from
  std::unique_ptr<Teacher> teacher; ///< null: labels teach
  SplitTraining split;
  nn::StateDict split_start; ///< what the blocks elsewhere begin from
  std::vector<Variant> variants;
  std::vector<std::string> names; ///< of the parameters that learn
  RandomKey root;
  std::vector<VariantValues> values; ///< of the last step or test
  TrainRecord told;                  ///< the same, as callers get it

  State(const TrainOptions& o, std::unique_ptr<training::Run> r, data::ImageDataset train_, data::ImageDataset test_)
      : options(o), run(std::move(r)), train_images(std::move(train_)), test_images(std::move(test_)), root{o.seed, 0} {
  }

  nlohmann::ordered_json options_json() const override { return permute::options_json(options); }
  nlohmann::ordered_json default_options() const override {
    return permute::options_json(options.model.distillation ? deit_defaults() : TrainOptions());
  }
  std::vector<std::string> free_options() const override { return {"key", "drift_every", "workers", "bad_images"}; }
  std::int64_t steps_per_epoch() const override { return loader->batches_per_epoch(); }
  void seek(std::int64_t step) override;
  std::int64_t train(const training::Place& place) override;
  std::int64_t test(StopFlag stop) override;
  nlohmann::ordered_json record(const training::Occasion& occasion) override;
  std::vector<std::string> checkpoint_files() const override;
  void save(const training::CheckpointWriter& writer) const override;
  void load(const std::string& checkpoint, std::int64_t updates) override;
  void add_state(nlohmann::ordered_json& state) const override;
  void check_state(const nlohmann::json& state, const std::string& checkpoint) const override;
  void save_result(const std::string& folder) const override;

  /// A batch to learn from, mixed if the options say so, by the step's number.
  Samples samples_of(const data::Batch& batch, std::int64_t step) const;
  void print_sources();
  void make_loaders();
  void draw_key();
  void make_variants();
  void begin_from_start(nn::Vit& model, TrainMode mode) const;
  /// Leaves the model of the only variant without blocks, which are kept in split_start.
  void take_blocks_out(Variant& variant);
  training::EncoderRecipe recipe() const;
  /// The model with the blocks that are elsewhere, which `moved` takes to another key first (empty: as they are).
  std::unique_ptr<nn::Vit> whole_model(const PermutationSet& moved) const;
  /// Where split.ending moves the blocks that are elsewhere.
  PermutationSet ending_moves() const;
  data::Normalization pixels() const;
  /// Of the model folder that the run leaves; none where the model has no such format.
  std::optional<nlohmann::json> folder_config() const;
  void load_variant(Variant& variant, const std::string& folder, std::int64_t updates, bool main);
  Tensor rows(std::int64_t first_sample, std::int64_t samples, Draw draw) const;
  const VitKey* key_for(const Variant& v) const { return permutes_columns(v.mode) ? &*column_key : nullptr; }
  bool any(bool (*permutes)(TrainMode)) const {
    return std::any_of(variants.begin(), variants.end(), [&](const Variant& v) { return permutes(v.mode); });
  }
  /// d(mean loss)/dw over some images, none when the guard refuses their loss; adds their losses and how many were
  /// right to `found`.
  training::PartGradients gradients_of(Variant& variant, const Samples& samples, RandomKey dropout,
                                       const training::Place& place, VariantValues& found);
  static constexpr std::int64_t in_test = -1;
  /// The encoder's output, permuted back. `step`: the training step, for blocks that are elsewhere, or in_test.
  Tensor hidden(const Variant& variant, const Tensor& images, const Tensor& rows, RandomKey dropout,
                std::int64_t step) const;
  /// Adds the losses of a batch of test images, of which the encoder's output is `z`, and how many were right.
  void measure(const Variant& variant, const data::Batch& batch, const Tensor& z, double& loss, double& correct) const;
  VariantValues advance(Variant& variant, const Samples& samples, const training::Place& place);
  /// How far a variant is from the plain one; not_measured without a plain one.
  double drift(std::size_t variant) const;
  bool wants_drift(std::int64_t step) const;
  std::string suffix(std::size_t i) const {
    return i + 1 == variants.size() ? "" : fmt::format("_{}", name_of(variants[i].mode));
  }
};

} // namespace eg::permute
