#pragma once
// Training vision transformers plain and permuted (Algorithm 1 of paper 000), one alone or several variants of one
// model side by side from coupled initialisations.

#include "core/base/interrupt.h"
#include "data/dataset.h"
#include "nn/vit.h"
#include "permute/vit_key.h"
#include "training/elsewhere.h"
#include "training/fine_tuning.h"
#include "training/options.h"

#include <nlohmann/json_fwd.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace eg::training {
class Run;
}

namespace eg::data {
struct Normalization;
} // namespace eg::data

namespace eg::permute {

/// What is permuted on the way through the encoder: nothing, tokens (a fresh P_R for every image and step), features
/// (one P_C, with the weights coupled to it), or both.
enum class TrainMode : std::uint8_t { none, rows, columns, both };
/// "none", "rows", "columns" or "both". Throws ValueError that lists them.
TrainMode train_mode_named(std::string_view name);
std::string_view name_of(TrainMode mode);
constexpr bool permutes_rows(TrainMode mode) { return mode == TrainMode::rows || mode == TrainMode::both; }
constexpr bool permutes_columns(TrainMode mode) { return mode == TrainMode::columns || mode == TrainMode::both; }

/// All that determines a run. The fields that are not model settings have the command line's names. A larger eps keeps
/// f32 twins closer together: the rounding of a gradient far below eps moves a weight by far less than the learning
/// rate.
struct TrainOptions : training::RunOptions {
  TrainOptions() { data = "cifar10"; } ///< see data::open_dataset
  nn::VitConfig model;                 ///< image, channels and classes are taken from the data
  std::int64_t train_limit = 0;        ///< at most that many training images; 0: all
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
  TrainMode permute = TrainMode::none;
  KeyForm key_form = KeyForm::decoupled;
  std::string key;   ///< secret key file (permute/key.h); empty: permutations are drawn from the seed, publicly
  bool twin = false; ///< train the plain model beside the permuted one
  std::vector<TrainMode> variants; ///< several variants instead of permute and twin; the last one is the main one
  std::int64_t drift_every = 10;   ///< steps between measurements of the drift; 0: at the end only
  training::FineTuning start;      ///< from a model, whose sizes count then
  bool from_permuted = false; ///< the encoder of that model carries the key already: nothing is moved before step 1
  std::string teacher;        ///< DeiT: model folder or run whose classes the distillation token learns; empty: labels

  /// What is trained: "vit", or with a distillation token "deit".
  std::string family() const { return model.distillation ? "deit" : "vit"; }
};

/// The options of a DeiT unless told otherwise.
TrainOptions deit_defaults();

/// Throws ValueError that names the option when a value is out of range or options contradict each other.
void check(const TrainOptions& options);
/// The options as one flat JSON object, keys named as the command line's flags with '_' for '-'.
nlohmann::ordered_json options_json(const TrainOptions& options);
/// Overrides the options that `json` names. Throws ValueError, beginning with `source`, for an unknown key, a value of
/// another kind or a word that no option knows.
void apply_options(TrainOptions& options, const nlohmann::json& json, const std::string& source);
/// The options that a run or checkpoint folder was made with, `resume` set to the folder and `out` to the run's own. Of
/// a run, those of its newest checkpoint that is not damaged. Throws FileError; one that a newer equigrad wrote, or
/// that may not be read, is an error and never passed over.
TrainOptions options_of_run(const std::string& folder, const TrainOptions& defaults = {});
/// Whether `options.out` holds a run with these very options (but for paths) that has a checkpoint and no final model:
/// one that was interrupted and can be resumed. Throws FileError as options_of_run, but not for damage.
bool unfinished_run(const TrainOptions& options);

/// Bytes that a training step needs at once.
struct MemoryEstimate {
  std::size_t parameters = 0;  ///< weights, gradients and optimiser state of all variants
  std::size_t activations = 0; ///< what a tape keeps and a backward pass touches, for one batch of one variant
  std::size_t input = 0;       ///< batches lying ready, and the decoded images
  std::size_t total() const { return parameters + activations + input; }
};
/// From the model's sizes and the batch alone: about the allocator's peak, from a tenth below it to a fifth above. A
/// teacher, and the model that a run begins from, come on top. `images`: bytes of the data.
MemoryEstimate estimate_memory(const TrainOptions& options, std::size_t images = 0);
/// Throws MemoryError with the estimate, the limit and what would fit, when the step does not fit in `limit` bytes.
void require_memory(const TrainOptions& options, std::size_t images, std::size_t limit);

inline constexpr double not_measured = std::numeric_limits<double>::quiet_NaN();

/// What one variant did in a step or a test.
struct VariantValues {
  TrainMode mode = TrainMode::none;
  double loss = 0.0;              ///< mean over the images
  double accuracy = 0.0;          ///< fraction of images whose largest logit is the label's
  double drift = not_measured;    ///< see VitTrainer::drift
  double ema_loss = not_measured; ///< of a test with the average of the weights (options.ema)
  double ema_accuracy = not_measured;
};
/// After every step (split train, the batch) and every test (split test, all test images).
struct TrainRecord {
  data::Split split = data::Split::train;
  std::int64_t step = 0;  ///< steps done
  std::int64_t epoch = 0; ///< epochs begun, from 0
  double lr = 0.0;
  double images_per_s = 0.0; ///< batches of images, whatever the number of variants
  std::vector<VariantValues> variants;
};
struct TrainResult {
  std::int64_t steps = 0;
  double seconds = 0.0; ///< in training steps, of this process
  double images_per_s = 0.0;
  std::vector<VariantValues> train; ///< of the last step
  std::vector<VariantValues> test;  ///< at the end, with the drift
  std::int64_t skipped = 0;         ///< steps since the run began whose update was left out
  std::optional<std::int64_t> best; ///< step of the checkpoint that did best in its test
};

/// What is told while training goes on; any may be empty.
struct TrainCallbacks {
  std::function<void(const TrainRecord&)> step;
  std::function<void(const TrainRecord&)> test;
  std::function<void(const std::string& folder)> checkpoint;
  std::function<void(const std::string& why)> skipped; ///< after a step whose update was left out
};

/// The encoder's output for images whose tokens pass it permuted, permuted back: P_R^T Enc(P_R F1(x) P_C) P_C^T; see
/// permuted_logits.
Tensor permuted_hidden(const nn::Vit& model, const Tensor& images, const Tensor& rows, const VitKey* key,
                       RandomKey dropout_key = {});
/// The logits of images whose tokens pass the encoder permuted: F2(P_R^T Enc(P_R F1(x) P_C) P_C^T). `rows` [B, T] or
/// undefined, `key` null for no column permutation. The encoder's weights must be coupled to the key.
Tensor permuted_logits(const nn::Vit& model, const Tensor& images, const Tensor& rows, const VitKey* key,
                       RandomKey dropout_key = {});

/// What is kept of an encoder that was trained elsewhere under a key: the plain weights, the weights as they were
/// trained, or the weights moved to another key for another holder (paper 001, section 5.1).
enum class Ending : std::uint8_t { decrypted, encrypted, rekeyed };

/// Split learning: embedding, head, labels and keys here, the encoder's blocks elsewhere (paper 001, Fig. 3).
struct SplitTraining {
  std::shared_ptr<training::EncoderElsewhere> encoder; ///< null: everything is here
  Ending ending = Ending::decrypted;
  std::string next_key; ///< of Ending::rekeyed: the secret key file of the next holder
};

/// What a run with its blocks elsewhere is to leave, as its newest checkpoint says; nothing when it does not. Throws
/// FileError.
std::optional<Ending> ending_of_run(const std::string& folder);

/// Throws ValueError that names the option when a run with its blocks elsewhere cannot be what it is in one process:
/// clipping by a joint norm, parts of a batch, averages of weights, several variants, updates that one side leaves out.
void check_split(const TrainOptions& options, const SplitTraining& split);
/// The same of what all models' options share; `mode`: what is permuted.
void check_split(const training::RunOptions& options, TrainMode mode, const SplitTraining& split);

/// Largest relative difference |a - b| / max |b| of any parameter between two models of one config, b_K excluded: its
/// gradient is zero in theory, so that an adaptive optimiser moves it by rounding noise.
double weight_difference(const nn::StateDict& a, const nn::StateDict& b);

/// Trains the variants that the options ask for. Everything drawn (initial weights, order, augmentation, permutations,
/// dropout) depends on seed and step alone, so a resumed run goes on bit for bit.
class VitTrainer {
public:
  /// Locks the run folder for as long as the trainer lives (it is made when it is missing), opens the data, refuses
  /// what cannot fit in memory or would overwrite another run, builds the models and resumes; from the newest
  /// checkpoint that is whole when a damaged one is later. Throws ValueError, FileError, MemoryError; Interrupted when
  /// `stop` becomes true while the data is read.
  explicit VitTrainer(const TrainOptions& options, const std::atomic<bool>* stop = nullptr,
                      const SplitTraining& split = {});
  /// The same with these images instead of those that options.data names; limits and size are not looked at.
  VitTrainer(const TrainOptions& options, data::ImageDataset train, data::ImageDataset test,
             const SplitTraining& split = {});
  ~VitTrainer();
  VitTrainer(const VitTrainer&) = delete;
  VitTrainer& operator=(const VitTrainer&) = delete;

  /// Trains to the last step, tests, and writes metrics, checkpoints and the final models into the run folder. When
  /// `stop` becomes true, writes a checkpoint after the present step and throws Interrupted. Throws ValueError when the
  /// loss stops being a finite number.
  TrainResult run(const TrainCallbacks& callbacks = {}, const std::atomic<bool>* stop = nullptr);

  /// One training step of every variant on the next batch.
  TrainRecord train_step();
  /// Mean loss and accuracy of every variant over the test images, permuted as in training, and its drift.
  TrainRecord test(const std::atomic<bool>* stop = nullptr);
  /// How far a variant's weights, mapped back, are from the plain variant's (weight_difference); not_measured without a
  /// plain variant.
  double drift(std::size_t variant) const;
  /// Writes <out>/checkpoints/step-N: complete or not at all. Returns the folder.
  std::string save_checkpoint();

  /// The options, completed from the data; precision is what is used: full where gemm::bf16_refusal() refuses bf16.
  const TrainOptions& options() const;
  std::int64_t step() const;
  std::int64_t total_steps() const;
  std::int64_t steps_per_epoch() const;
  std::size_t variants() const;
  TrainMode mode(std::size_t variant) const;
  /// In eval(), but while a step is taken. With its blocks elsewhere a model without blocks.
  const nn::Vit& model(std::size_t variant) const;
  /// All weights of a variant as they are trained (permuted, where it permutes columns), blocks that are elsewhere
  /// fetched.
  nn::StateDict weights(std::size_t variant) const;
  /// Split learning: loss and accuracy over the test images for a holder of the encoder without the key: features go in
  /// as they are. Computed here; nothing unpermuted is sent.
  VariantValues test_without_key(StopFlag stop = nullptr) const;
  /// The averages of its weights, in the order of model(variant).parameters(); empty without options.ema.
  std::vector<Tensor> average(std::size_t variant) const;
  /// P_C and the inner permutations of the variants that permute columns; null when none does.
  const VitKey* column_key() const;
  /// What the run recorded up to the present step in an earlier process, from its metrics.jsonl; empty unless it is
  /// resumed in its own folder.
  std::vector<TrainRecord> history() const;
  /// What a person should be told before the first step: a damaged checkpoint that was passed over, a run that will be
  /// overwritten or is already complete, bf16 that is not used. One sentence each.
  const std::vector<std::string>& notes() const;
  const data::ImageDataset& train_data() const;
  /// How pixels are scaled before the model sees them.
  data::Normalization pixels() const;
  const data::ImageDataset& test_data() const;

private:
  struct State;
  void begin(const TrainOptions& options, std::unique_ptr<training::Run> run, data::ImageDataset train,
             data::ImageDataset test, const SplitTraining& split);
  std::unique_ptr<State> state_;
};

} // namespace eg::permute
