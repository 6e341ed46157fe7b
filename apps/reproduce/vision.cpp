#include "apps/reproduce/vision.h"

#include "apps/reproduce/bits.h"
#include "core/base/bytes.h"
#include "core/ops.h"
#include "core/reduction.h"
#include "data/loader.h"
#include "training/run.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace eg::reproduce {
namespace {

using permute::BlocksKey;

/// Row orders of test images are drawn separately from those of training.
constexpr std::uint64_t draw_test_rows = 77;

/// A copy of a model's config and weights.
std::unique_ptr<nn::Vit> copy_of(const nn::Vit& model, const VitOptions& options) {
  auto copy = std::make_unique<nn::Vit>(options.model, RandomKey{});
  copy->to(options.dtype);
  copy->load_state_dict(model.state_dict());
  return copy;
}

} // namespace

Answers answers_from(Tensor logits, const Tensor& labels) {
  const bool attributes = labels.rank() == 2;
  Answers answers{.logits = std::move(logits), .classes = {}};
  const Tensor said = attributes ? gt(answers.logits, 0.0).to(DType::i64).reshape({-1}) : argmax(answers.logits, -1);
  answers.classes = said.to_vector<std::int64_t>();
  const std::vector<std::int64_t> wanted = labels.to(DType::i64).reshape({-1}).to_vector<std::int64_t>();
  std::int64_t right = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) right += answers.classes[i] == wanted[i] ? 1 : 0;
  answers.accuracy = 100.0 * static_cast<double>(right) / static_cast<double>(wanted.size());
  return answers;
}

void Parts::report(double share_of_part, const std::string& what) const {
  if (work_.on_progress) work_.on_progress((done_ + share_of_part) / parts_, what);
}

VitOptions options_for(const Plan& plan, const RunContext& work, std::uint64_t seed,
                       std::vector<PermuteMode> variants) {
  VitOptions options = plan.train;
  options.seed = seed;
  options.data_dir = work.data_dir;
  options.variants = std::move(variants);
  return options;
}

std::unique_ptr<VitTrainer> trained(VitOptions options, const RunContext& work, const std::string& name, Parts& parts,
                                    std::optional<std::pair<data::ImageDataset, data::ImageDataset>> images) {
  options.out = join_path(work.folder, name);
  training::resume_or_restart(options, [](const std::string& at) { return training::options_of_run(at); });
  auto trainer = images ? std::make_unique<VitTrainer>(options, images->first, images->second)
                        : std::make_unique<VitTrainer>(options, work.stop);
  const auto total = static_cast<double>(trainer->total_steps());
  training::Callbacks callbacks;
  callbacks.step = [&](const training::Record& r) {
    parts.report(static_cast<double>(r.step) / total,
                 fmt::format("{}, step {}/{}", name, r.step, trainer->total_steps()));
  };
  trainer->run(callbacks, work.stop); // also at its last step: whoever was interrupted may owe the test and the model
  parts.next();
  return trainer;
}

Answers answers_of(const VitTrainer& trainer, const nn::Vit& model, const Shuffle& shuffle, const RunContext& work) {
  const VitOptions& o = trainer.options();
  const data::Loader loader(
      trainer.test_data(),
      {.batch_size = 100, .shuffle = false, .normalization = trainer.pixels(), .dtype = o.dtype, .workers = 0});
  const PauseRecording pause;
  std::vector<Tensor> logits, labels;
  const_cast<nn::Vit&>(model).eval();
  for (std::int64_t b = 0; b < loader.batches_per_epoch(); ++b) {
    if (work.stop != nullptr && work.stop->load()) throw Interrupted("reproduce: interrupted while testing");
    const data::Batch batch = loader.batch(0, b);
    const RandomKey key = RandomKey{o.seed, draw_test_rows}.fold(static_cast<std::uint64_t>(b));
    const Tensor rows =
        shuffle.rows ? permute::row_permutations(batch.labels.numel(), o.model.tokens(), key) : Tensor();
    logits.push_back(training::permuted_logits(model, batch.images, rows, shuffle.key));
    labels.push_back(batch.attributes.defined() ? batch.attributes : batch.labels);
  }
  return answers_from(concat(logits, 0), concat(labels, 0));
}

double blind_accuracy(const data::ImageDataset& images) {
  if (!images.has_attributes()) return 100.0 / static_cast<double>(images.classes());
  std::vector<double> ones(static_cast<std::size_t>(images.classes()));
  for (std::int64_t i = 0; i < images.size(); ++i)
    for (std::size_t a = 0; a < ones.size(); ++a) ones[a] += images.attributes(i)[a];
  double sum = 0.0;
  for (const double count : ones) {
    const double share = count / static_cast<double>(images.size());
    sum += std::max(share, 1.0 - share);
  }
  return 100.0 * sum / static_cast<double>(ones.size());
}

double differing(const Answers& a, const Answers& b) {
  double count = 0.0;
  for (std::size_t i = 0; i < a.classes.size(); ++i) count += a.classes[i] == b.classes[i] ? 0.0 : 1.0;
  return count;
}

Claim none_differ(const std::string& what, double differing, const std::string& because) {
  return {.what = what + ": test images seen differently", .value = differing, .bound = 0.0, .because = because};
}

double logit_difference(const Answers& a, const Answers& b) { return relative_error(a.logits, b.logits); }

std::unique_ptr<nn::Vit> moved_by(const nn::Vit& model, const VitOptions& options, const BlocksKey& key) {
  auto moved = copy_of(model, options);
  permute::transform_module(*moved, permute::vit_axes(options.model), key.permutations(options.model.encoder));
  return moved;
}

double differing_bits_in_exact_mode(const Plan& plan, const RunContext& work,
                                    const std::vector<PermuteMode>& variants) {
  VitOptions options = options_for(plan, work, plan.seeds.front(), variants);
  options.epochs = 0;
  options.steps = plan.count("exact_steps");
  options.batch = plan.count("exact_batch");
  options.train_limit = options.batch * 4;
  options.test_limit = 10;
  options.checkpoint_every = 0;
  const ReductionScope exact(Reduction::exact);
  VitTrainer trainer(options, work.stop);
  while (trainer.step() < trainer.total_steps()) {
    if (work.stop != nullptr && work.stop->load()) throw Interrupted("reproduce: interrupted in exact mode");
    trainer.train_step();
  }
  const nn::StateDict plain = trainer.model(0).state_dict();
  double count = 0.0;
  for (std::size_t v = 1; v < trainer.variants(); ++v) {
    const bool columns = permute::permutes_columns(trainer.mode(v));
    const auto back =
        columns ? moved_by(trainer.model(v), trainer.options(), trainer.column_key()->inverse()) : nullptr;
    count += differing_bits(plain, back ? back->state_dict() : trainer.model(v).state_dict());
  }
  return count;
}

std::string setting_of(const VitTrainer& trainer, std::size_t seeds) {
  const VitOptions& o = trainer.options();
  return fmt::format("{}: {} training and {} test images; ViT of {} blocks, width {}, {} heads, patches of {} x {} ({} "
                     "tokens), {} parameters; {} steps of {} images, {}, {}; {} seed{}",
                     trainer.train_data().name(), trainer.train_data().size(), trainer.test_data().size(),
                     o.model.layers, o.model.encoder.dim, o.model.encoder.heads, o.model.patch, o.model.patch,
                     o.model.tokens(), trainer.model(0).parameter_count(), trainer.total_steps(), o.batch, o.optimizer,
                     eg::name_of(o.dtype), seeds, seeds == 1 ? "" : "s");
}

} // namespace eg::reproduce
