#include "apps/reproduce/learnt_key.h"

#include "core/ops.h"
#include "data/loader.h"
#include "nn/metrics.h"
#include "training/vision_model.h"

#include <fmt/format.h>

namespace eg::reproduce {
namespace {

/// F2(Enc(F1(x) M) M^T)
Tensor logits_of(const nn::Vit& model, const Tensor& images, const Tensor& m) {
  const Tensor z = matmul(model.embed(images), m);
  return model.head(matmul(model.encode(z), m, false, true));
}

/// What behind the encoder may learn: final norm and classifier.
std::vector<Tensor> head_of(const nn::Vit& model) {
  std::vector<Tensor> found;
  for (const nn::Parameter& p : model.named_parameters())
    if (p.name.starts_with("norm.") || p.name.starts_with("classifier.")) found.push_back(p.value);
  return found;
}

} // namespace

LearntKey learn_key(const Plan& plan, const RunContext& work, const std::string& encrypted,
                    const std::pair<data::ImageDataset, data::ImageDataset>& images, std::uint64_t seed,
                    const std::function<void(double, const std::string&)>& on_progress) {
  const DType dtype = plan.train.dtype;
  const training::ImageKind kind{images.first.height(), images.first.channels(), images.first.class_names()};
  const training::VisionStart start = training::open_vision_start({.from = encrypted, .fresh = {}, .freeze = {}}, "vit",
                                                                  kind, 0.0, dtype, RandomKey{seed, 5});
  const nn::Vit& model = start.vit();
  const data::Normalization pixels = start.normalization.value_or(data::Normalization::standard(images.first));
  const std::int64_t dim = model.config.encoder.dim;
  data::Loader loader(
      images.first,
      {.batch_size = plan.train.batch, .drop_last = true, .seed = seed, .normalization = pixels, .dtype = dtype});
  const auto leave_if_stopped = [&] {
    if (work.stop != nullptr && work.stop->load()) throw Interrupted("reproduce: interrupted while learning a key");
  };
  const std::int64_t steps = plan.count("learn_steps");
  LearntKey learnt;
  learnt.columns = attacks::learn_columns(
      dim, dtype,
      {.steps = steps,
       .lr = plan.number("learn_rate"),
       .temperature = plan.number("learn_temperature"),
       .on_progress =
           [&](std::int64_t step) {
             leave_if_stopped();
             on_progress(static_cast<double>(step) / static_cast<double>(steps),
                         fmt::format("learning P_C, step {}/{}", step, steps));
           }},
      head_of(model),
      [&](const Tensor& m, std::int64_t) {
        const data::Batch batch = loader.next();
        return cross_entropy(logits_of(model, batch.images, m), batch.labels);
      },
      RandomKey{seed, 6});
  const PauseRecording pause;
  const data::Loader tests(
      images.second, {.batch_size = 100, .shuffle = false, .normalization = pixels, .dtype = dtype, .workers = 0});
  std::int64_t right = 0;
  for (std::int64_t b = 0; b < tests.batches_per_epoch(); ++b) {
    leave_if_stopped();
    const data::Batch batch = tests.batch(0, b);
    right += nn::count_in_top(logits_of(model, batch.images, learnt.columns.matrix), batch.labels);
  }
  learnt.accuracy = 100.0 * static_cast<double>(right) / static_cast<double>(images.second.size());
  return learnt;
}

} // namespace eg::reproduce
