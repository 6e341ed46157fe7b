#pragma once
// Holds what a VitTrainer trains: images, models, losses. For the files of this folder that are named vit_*.

#include "data/loader.h"
#include "training/model_task.h"
#include "training/vision_model.h"
#include "training/vit_trainer.h"

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace eg::training {

/// What the options ask of training images of that size.
data::Augmentation augmentation_of(const VitOptions& options, std::int64_t side, std::int64_t channels);

/// Images and what they show: labels [B], all 0 where they have attributes. Where images are mixed or have attributes,
/// shares of the classes [B, classes] take the labels' place in the loss.
struct Samples {
  Tensor images, labels, shares;
  bool attributes = false;
  Tensor rows = {};   ///< order of the tokens of each image [B, T]; undefined: as they are
  Tensor taught = {}; ///< DeiT: the classes that a teacher sees [B]

  std::int64_t size() const { return labels.size(0); }
  Samples cut(std::int64_t first, std::int64_t last) const;
  /// All tensors, and the samples with others in their places.
  std::vector<Tensor> tensors() const { return {images, labels, shares, rows, taught}; }
  Samples with(const std::vector<Tensor>& others) const {
    return {others[0], others[1], others[2], attributes, others[3], others[4]};
  }
};

class VitTask final : public ModelTask {
public:
  /// What the options and the data give, before models are made.
  struct Material {
    data::ImageDataset train, test;
    std::optional<VisionStart> start = {}; ///< what the variants begin from
  };
  /// `options` must be those of `run`, completed from the data.
  VitTask(std::unique_ptr<const VitOptions> options, Material material, const SplitTraining& split);

  nlohmann::ordered_json options_json() const override;
  nlohmann::ordered_json default_options() const override;
  std::vector<OptionInfo> option_infos() const override;
  std::int64_t steps_per_epoch() const override { return loader_->batches_per_epoch(); }
  void seek(std::int64_t step) override;
  const char* unit() const override { return "images"; }
  std::string summary() const override;
  std::string step_words() const override;
  void save_result(const std::string& folder) const override;

  const VitOptions& options() const { return *o_; }
  const data::ImageDataset& train_data() const { return material_.train; }
  const data::ImageDataset& test_data() const { return material_.test; }
  const nn::Vit& vit(std::size_t variant) const { return vit_of(all_variants().at(variant)); }
  data::Normalization pixels() const;
  /// Of the model folder that the run leaves; null where the model has no such format.
  nlohmann::json folder_config() const;
  /// The main model with the blocks that are elsewhere, as they were trained.
  std::unique_ptr<nn::Vit> whole_model() const;

protected:
  void take_part(std::int64_t first, std::int64_t last) override;
  std::int64_t draw_batch(std::int64_t step) override;
  PartLoss loss_of(const Variant& variant, std::int64_t first, std::int64_t last, RandomKey) override;
  std::int64_t test_batches() const override { return test_loader_->batches_per_epoch(); }
  std::int64_t test_units() const override { return material_.test.size(); }
  TestBatch measure(const Variant& variant, std::int64_t batch) override;
  bool has_accuracy() const override { return true; }
  std::string name_in_errors(const Variant& variant) const override;
  const nlohmann::json* remembered_config() const override;
  std::pair<nn::BlockConfig, std::int64_t> blocks_config() const override;
  nn::StateDict take_initial_blocks() override { return std::exchange(split_start_, {}); }
  void fetch_blocks() override;

private:
  static const nn::Vit& vit_of(const Variant& v) { return static_cast<const nn::Vit&>(*v.module); }
  static PermutedEncoder encoder_of(const VitOptions& options, const SplitTraining& split);
  void open_loaders();
  /// The samples of a step, from the loader, on the CPU.
  Samples made_samples(std::int64_t step);
  /// On a device: makes the samples of a step and begins to copy them, unless that is done. What it throws is kept for
  /// draw_batch().
  void make_ahead(std::int64_t step);
  void make_variants();
  std::shared_ptr<nn::Vit> made_model(permute::PermuteMode mode) const;
  void begin_from_start(nn::Vit& model, permute::PermuteMode mode) const;
  /// The model without its blocks, which are kept in split_start_.
  std::shared_ptr<nn::Vit> without_blocks(const nn::Vit& whole);
  Tensor rows(std::int64_t first_sample, std::int64_t samples, data::Split split) const;
  /// The encoder's output, permuted back. `step`: of training; none in a test.
  Tensor hidden(const Variant& variant, const Tensor& images, const Tensor& rows, RandomKey dropout,
                std::optional<std::int64_t> step) const;

  std::unique_ptr<const VitOptions> o_;
  Material material_;
  std::unique_ptr<Teacher> teacher_; ///< null: labels teach
  std::optional<data::Loader> loader_, test_loader_;
  std::int64_t loader_step_ = 0;               ///< which step its next batch is for
  std::int64_t batch_step_ = 0;                ///< which step `samples_` is of
  Samples samples_;                            ///< the present batch, from sample `part_begin_` on
  std::int64_t part_begin_ = 0, part_end_ = 0; ///< what is made of a batch; end 0: all
  /// The batch of a step to come, on its way to the device.
  struct Ahead {
    std::int64_t step = 0;
    Samples samples = {}; ///< without tensors
    std::optional<device::Uploads::Batch> tensors = {};
    std::exception_ptr error = {};
  };
  std::optional<Ahead> ahead_;
  nn::StateDict split_start_; ///< what the blocks elsewhere begin from
};

} // namespace eg::training
