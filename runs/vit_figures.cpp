#include "core/call.h"
#include "core/error.h"
#include "core/ops.h"
#include "data/loader.h"
#include "pages/pictures.h"
#include "permute/training.h"
#include "runs/attention_maps.h"
#include "runs/figures.h"
#include "runs/predictions.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

namespace eg::runs {
namespace {

using pages::Page;
using permute::VitTrainer;

/// The trainer of a run as its newest checkpoint left it; nothing is written.
std::unique_ptr<VitTrainer> opened(const RunFolder& run, const FigureOptions& o) {
  permute::TrainOptions options = permute::options_of_run(run.path);
  options.out.clear();
  options.checkpoint_every = 0;
  if (!o.data_dir.empty()) options.data_dir = o.data_dir;
  return std::make_unique<VitTrainer>(options, o.stop);
}

/// The run's main model on its test images. Rows are left in order: the encoder gives the same for any order of them.
class Subject {
public:
  explicit Subject(const VitTrainer& trainer)
      : trainer_(trainer), model_(trainer.model(trainer.variants() - 1)),
        key_(permute::permutes_columns(trainer.mode(trainer.variants() - 1)) ? trainer.column_key() : nullptr),
        loader_(trainer.test_data(), {.batch_size = trainer.options().batch,
                                      .shuffle = false,
                                      .normalization = data::Normalization::standard(trainer.train_data()),
                                      .dtype = trainer.options().dtype,
                                      .workers = 0}) {}

  const nn::Vit& model() const { return model_; }
  const data::ImageDataset& data() const { return trainer_.test_data(); }

  Predictions predict(std::int64_t samples, data::StopFlag stop) const {
    const PauseRecording pause;
    Predictions found{.classes = data().class_names()};
    const std::int64_t most = samples > 0 ? std::min(samples, data().size()) : data().size();
    for (std::int64_t b = 0; found.size() < most; ++b) {
      if (stop != nullptr && stop->load()) throw Interrupted("report: interrupted");
      data::Batch batch = loader_.batch(0, b);
      const std::int64_t count = std::min(batch.labels.numel(), most - found.size());
      found.add(permute::permuted_logits(model_, batch.images.slice(0, 0, count), {}, key_),
                batch.labels.slice(0, 0, count));
    }
    return found;
  }

  /// Attention of every layer for one image, [1, heads, T, T] each.
  std::vector<Tensor> attention(std::int64_t image) const {
    const PauseRecording pause;
    const std::int64_t batch = trainer_.options().batch;
    const Tensor images = loader_.batch(0, image / batch).images.slice(0, image % batch, image % batch + 1);
    Tensor z = model_.embed(images);
    if (key_ != nullptr) z = key_->apply_columns(z);
    std::vector<Tensor> scores;
    for (const auto& trace : model_.trace_encoder(z)) scores.push_back(trace.scores);
    return scores;
  }

private:
  const VitTrainer& trainer_;
  const nn::Vit& model_;
  const permute::VitKey* key_;
  data::Loader loader_;
};

void add_pictures(Page& page, const Subject& subject, const Predictions& p) {
  const auto figures = [&](const std::vector<std::size_t>& places) {
    std::vector<Page::Figure> list;
    for (const std::size_t i : places)
      list.push_back({subject.data().image(static_cast<std::int64_t>(i)), p.caption(i)});
    page.figures(list, 112);
  };
  page.paragraph("Test images and what the model says of them, with its probability:");
  figures(p.spread(14));
  const std::vector<std::size_t> mistakes = p.surest_mistakes(14);
  if (mistakes.empty()) return;
  page.paragraph("The surest mistakes:");
  figures(mistakes);
}

void add_attention(Page& page, const Subject& subject, const Predictions& p) {
  const nn::VitConfig& config = subject.model().config;
  const std::string who = config.pooling == nn::Pooling::cls ? "the class token" : "the mean of all tokens";
  page.paragraph(
      fmt::format("What {} takes from each patch, dark to bright: the mean of the heads of the last block, and "
                  "attention rollout over all {} blocks (Abnar and Zuidema, 2020), which follows the "
                  "residual connections too.",
                  who, config.layers));
  std::vector<Page::Figure> figures;
  for (const std::size_t i : p.spread(4)) {
    const std::vector<Tensor> scores = subject.attention(static_cast<std::int64_t>(i));
    const Tensor last = mean(scores.back().to(DType::f64), {0, 1});
    figures.push_back({subject.data().image(static_cast<std::int64_t>(i)), p.caption(i)});
    figures.push_back({pages::heat_map(patch_map(last, config)), "last block"});
    figures.push_back({pages::heat_map(patch_map(attention_rollout(scores).squeeze(0), config)), "rollout"});
  }
  page.figures(figures, 144);
  const std::size_t image = p.spread(1).front();
  const std::vector<Tensor> scores = subject.attention(static_cast<std::int64_t>(image));
  page.paragraph("The heads of every block one by one, for the first of these images:");
  for (std::size_t block = 0; block < scores.size(); ++block) {
    std::vector<Page::Figure> heads;
    for (std::int64_t h = 0; h < scores[block].size(1); ++h)
      heads.push_back({pages::heat_map(patch_map(scores[block].slice(1, h, h + 1).squeeze(1).squeeze(0), config)),
                       fmt::format("block {}, head {}", block + 1, h + 1)});
    page.figures(heads, 112);
  }
}

void add_positions(Page& page, const Subject& subject) {
  const nn::VitConfig& config = subject.model().config;
  if (!subject.model().position_embedding.defined() || config.height() != config.width()) return;
  const Tensor all = subject.model().position_embedding.squeeze(0);
  const std::int64_t side = config.height() / config.patch;
  const Tensor patches = all.slice(0, config.special_tokens(), all.size(0)).contiguous();
  page.paragraph(
      "Position embeddings: each small map is one position, and shows the cosine of its embedding with those "
      "of all positions, from -1 (dark) to 1 (bright).");
  page.figures({{pages::position_map(patches, side), fmt::format("{} x {} positions", side, side)}},
               static_cast<int>(std::clamp<std::int64_t>(side * (side + 1) * 6, 200, 560)));
}

} // namespace

void add_vit_figures(Page& page, const RunFolder& run, const FigureOptions& o) {
  if (o.tell) o.tell(run.name + ": reading the model and its images");
  const std::unique_ptr<VitTrainer> trainer = opened(run, o);
  const Subject subject(*trainer);
  if (o.tell) o.tell(run.name + ": predicting test images");
  const Predictions p = subject.predict(o.samples, o.stop);
  page.paragraph(fmt::format("The model of step {} on {} of {} test images of {}: {:.2f} % right.", trainer->step(),
                             p.size(), subject.data().size(), subject.data().name(),
                             100.0 * static_cast<double>(p.correct()) / static_cast<double>(p.size())));
  add_confusion(page, p);
  add_classes(page, p);
  add_pictures(page, subject, p);
  if (o.tell) o.tell(run.name + ": attention");
  add_attention(page, subject, p);
  add_positions(page, subject);
}

} // namespace eg::runs
