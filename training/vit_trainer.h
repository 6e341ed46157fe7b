#pragma once
// Trains vision transformers plain and permuted, alone or side by side from coupled initialisations (Algorithm 1 of Xu
// et al., CVPR 2024).

#include "core/base/interrupt.h"
#include "data/dataset.h"
#include "nn/vit.h"
#include "permute/blocks_key.h"
#include "training/fine_tuning.h"
#include "training/options.h"
#include "training/remote_encoder.h"
#include "training/trainer.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace eg::data {
struct Normalization;
} // namespace eg::data

namespace eg::training {

/// All that determines a run. The fields that are not model settings have the command line's names. A larger eps keeps
/// f32 twins closer together: the rounding of a gradient far below eps moves a weight by far less than the learning
/// rate.
struct VitOptions : RunOptions {
  VitOptions() { data = "cifar10"; } ///< see data::open_dataset
  nn::VitConfig model;               ///< image, channels and classes are taken from the data
  std::int64_t train_limit = 0;      ///< at most that many training images; 0: all
  std::int64_t test_limit = 0;
  std::int64_t size = 0;    ///< side to which images of a folder are resized, or side of generated ones; 0: as they are
  std::int64_t workers = 1; ///< threads that make batches ahead; 0: none. No bit depends on it
  data::BadImages bad_images = data::BadImages::refuse; ///< of a folder
  bool augment = false;     ///< random crops (side/8 of padding, unless crop_area), and flips of colour images
  double crop_area = 0.0;   ///< data::Augmentation; with them, other changes to training images
  double randaugment = 0.0; ///< magnitude
  std::int64_t randaugment_ops = 2;
  double erasing = 0.0;
  double mixup = 0.0; ///< data::Mixing: batches whose images are blends of two
  double cutmix = 0.0;
  permute::PermuteMode permute = permute::PermuteMode::none;
  permute::KeyForm key_form = permute::KeyForm::decoupled;
  std::string key;   ///< secret key file (permute/key.h); empty: permutations are drawn from the seed, publicly
  bool twin = false; ///< train the plain model beside the permuted one
  std::vector<permute::PermuteMode>
      variants;                  ///< several variants instead of permute and twin; the last one is the main one
  std::int64_t drift_every = 10; ///< steps between measurements of the drift; 0: at the end only
  FineTuning start;              ///< from a model, whose sizes count then
  bool from_permuted = false;    ///< the encoder of that model carries the key already: nothing is moved before step 1
  std::string teacher; ///< DeiT: model folder or run whose classes the distillation token learns; empty: labels

  /// What is trained: "vit", or with a distillation token "deit".
  std::string family() const { return model.distillation ? "deit" : "vit"; }
};

/// The default options of a DeiT.
VitOptions deit_defaults();

/// The rows of these options (training/option.h).
const OptionTable<VitOptions>& option_table(const VitOptions& options);
/// Throws ValueError that names the option when a value is out of range or options contradict each other.
void check(const VitOptions& options);
/// The options as one flat JSON object, keys named as the command line's flags with '_' for '-'.
nlohmann::ordered_json options_json(const VitOptions& options);
/// Overrides the options that `json` names. Throws ValueError, beginning with `source`, for an unknown key, a value of
/// another kind or a word that no option knows.
void apply_options(VitOptions& options, const nlohmann::json& json, const std::string& source);
/// The options that a run or checkpoint folder was made with, `resume` set to the folder and `out` to the run's own. Of
/// a run, those of its newest checkpoint that is not damaged. Throws FileError; one that a newer equigrad wrote, or
/// that may not be read, is an error and never passed over.
VitOptions options_of_run(const std::string& folder, const VitOptions& defaults = {});
/// Whether `options.out` holds a run with these very options (but for paths) that has a checkpoint and no final model:
/// one that was interrupted and can be resumed. Throws FileError as options_of_run, but not for damage.
bool unfinished_run(const VitOptions& options);

/// Bytes that a training step needs at once.
struct MemoryEstimate {
  std::size_t parameters = 0;  ///< weights, gradients and optimiser state of all variants
  std::size_t activations = 0; ///< what a tape keeps and a backward pass touches, for one batch of one variant
  std::size_t input = 0;       ///< batches lying ready, and the decoded images
  std::size_t total() const { return parameters + activations + input; }
};
/// From the model's sizes and the batch alone: about the allocator's peak, from a tenth below it to a fifth above. A
/// teacher, and the model that a run begins from, come on top. `images`: bytes of the data. Of one of `processes`, with
/// options.shards > 0 where there are several.
MemoryEstimate estimate_memory(const VitOptions& options, std::size_t images = 0, int processes = 1);
/// Throws MemoryError with the estimate, the limit and what would fit, when the step does not fit in `limit` bytes.
void require_memory(const VitOptions& options, std::size_t images, std::size_t limit, int processes = 1);

/// The encoder's output for images whose tokens pass it permuted, permuted back: P_R^T Enc(P_R F1(x) P_C) P_C^T; see
/// permuted_logits.
Tensor permuted_hidden(const nn::Vit& model, const Tensor& images, const Tensor& rows, const permute::BlocksKey* key,
                       RandomKey dropout_key = {});
/// The logits of images whose tokens pass the encoder permuted: F2(P_R^T Enc(P_R F1(x) P_C) P_C^T). `rows` [B, T] or
/// undefined, `key` null for no column permutation. The encoder's weights must be coupled to the key.
Tensor permuted_logits(const nn::Vit& model, const Tensor& images, const Tensor& rows, const permute::BlocksKey* key,
                       RandomKey dropout_key = {});

/// Throws ValueError that names the option when a run with its blocks elsewhere cannot be what it is in one process;
/// beside the rules of all models (training/remote_encoder.h) those of a ViT: several variants, blocks computed again.
void check_split(const VitOptions& options, const SplitTraining& split);

class VitTask;

/// Trains the variants of a ViT that the options ask for (Algorithm 1 of Xu et al., CVPR 2024). Everything drawn
/// (initial weights, order, augmentation, permutations, dropout) depends on seed and step alone, so a resumed run has
/// the same bits.
class VitTrainer : public Trainer {
public:
  /// Locks the run folder for as long as the trainer lives (it is made when it is missing), opens the data, refuses
  /// what cannot fit in memory or would overwrite another run, builds the models and resumes; from the newest
  /// checkpoint that is whole when a damaged one is later. Throws ValueError, FileError, MemoryError; Interrupted when
  /// `stop` becomes true while the data is read.
  explicit VitTrainer(const VitOptions& options, StopFlag stop = nullptr, const SplitTraining& split = {},
                      distributed::Communicator* processes = nullptr);
  /// The same with these images instead of those that options.data names; limits and size are not looked at.
  VitTrainer(const VitOptions& options, data::ImageDataset train, data::ImageDataset test,
             const SplitTraining& split = {});

  /// The options, completed from the data; precision is what is used: full where gemm::bf16_refusal() refuses bf16.
  const VitOptions& options() const;
  /// In eval(), but while a step is taken. With its blocks elsewhere a model without blocks.
  const nn::Vit& model(std::size_t variant) const;
  /// All weights of a variant as they are trained (permuted, where it permutes columns), blocks that are elsewhere
  /// fetched.
  nn::StateDict weights(std::size_t variant) const;
  /// What the run recorded up to the present step in an earlier process, from its metrics.jsonl; empty unless it is
  /// resumed in its own folder.
  std::vector<Record> history() const;
  const data::ImageDataset& train_data() const;
  /// How pixels are scaled before the model sees them.
  data::Normalization pixels() const;
  const data::ImageDataset& test_data() const;

private:
  struct Parts {
    std::unique_ptr<Run> run;
    std::unique_ptr<VitTask> task;
  };
  explicit VitTrainer(Parts parts);
  static Parts parts_of(VitOptions options, StopFlag stop, const SplitTraining& split,
                        distributed::Communicator* processes);
  static Parts parts_of(VitOptions options, std::unique_ptr<Run> run, data::ImageDataset train, data::ImageDataset test,
                        const SplitTraining& split);
  const VitTask* task_; ///< the trainer's
};

} // namespace eg::training
