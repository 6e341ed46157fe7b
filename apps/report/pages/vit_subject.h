#pragma once
// Evaluates the vision transformer of a run on its test images.

#include "apps/report/pages/figures.h"
#include "apps/report/pages/predictions.h"
#include "core/base/error.h"
#include "core/base/interrupt.h"
#include "core/call.h"
#include "data/loader.h"
#include "training/vit_trainer.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

namespace eg::pages {

/// The model of a run and its data.
struct OpenedVit {
  std::unique_ptr<training::VitTrainer> trainer;
  std::int64_t step = 0;
  bool split = false; ///< its blocks were trained by another party
};

/// A run as its newest checkpoint left it, or, where its blocks were elsewhere, as its final model.safetensors has it;
/// with its key, where it carries that. Nothing is written. Throws Error.
OpenedVit opened_vit(const RunFolder& run, const FigureOptions& o);

/// The run's main model on its test images. Rows are left in order: the encoder gives the same for any order of them.
class VitSubject {
public:
  explicit VitSubject(const OpenedVit& opened);

  const nn::Vit& model() const { return model_; }
  const training::VitOptions& options() const { return trainer_.options(); }
  const data::ImageDataset& data() const { return trainer_.test_data(); }
  const data::Normalization& pixels() const { return pixels_; }
  /// The first so many images (0: all) in batches.
  template <class Use> void each_batch(std::int64_t samples, StopFlag stop, Use&& use) const {
    const PauseRecording pause;
    const std::int64_t most = samples > 0 ? std::min(samples, data().size()) : data().size();
    for (std::int64_t b = 0, seen = 0; seen < most; ++b) {
      if (stop != nullptr && stop->load()) throw Interrupted("report: interrupted");
      const data::Batch batch = loader_.batch(0, b);
      const std::int64_t count = std::min(batch.labels.numel(), most - seen);
      use(batch.images.slice(0, 0, count), batch.labels.slice(0, 0, count));
      seen += count;
    }
  }
  std::int64_t step() const { return step_; }
  Tensor logits(const Tensor& images) const { return training::permuted_logits(model_, images, {}, key_); }
  /// What the encoder makes of images, [B, T, dim].
  Tensor encoded(const Tensor& images) const { return training::permuted_hidden(model_, images, {}, key_); }
  Predictions predict(std::int64_t samples, StopFlag stop) const;
  /// Attention of every layer for one image, [1, heads, T, T] each.
  std::vector<Tensor> attention(std::int64_t image) const;

private:
  const training::VitTrainer& trainer_;
  std::int64_t step_;
  const nn::Vit& model_;
  const permute::BlocksKey* key_;
  data::Normalization pixels_;
  data::Loader loader_;
};

} // namespace eg::pages
