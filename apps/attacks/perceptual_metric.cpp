#include "apps/attacks/perceptual_metric.h"

#include "autograd/tape.h"
#include "core/ops.h"
#include "data/loader.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"

#include <algorithm>
#include <fmt/format.h>

namespace eg::attacks {
namespace {

constexpr std::int64_t width = 32, groups = 8;

nn::Conv2d halving(std::int64_t in, std::int64_t out, RandomKey key) {
  return {in, out, 3, key, {.stride = 2, .padding = 1}};
}

Tensor passed(const nn::Conv2d& layer, const Tensor& x) { return gelu(group_norm(layer(x), groups)); }

} // namespace

PerceptualMetric::PerceptualMetric(std::int64_t channels, std::int64_t classes, RandomKey key)
    : first(halving(channels, width, key.fold(1))), second(halving(width, 2 * width, key.fold(2))),
      third(halving(2 * width, 4 * width, key.fold(3))), classifier(4 * width, classes, key.fold(4)) {
  register_module("first", first);
  register_module("second", second);
  register_module("third", third);
  register_module("classifier", classifier);
}

Tensor PerceptualMetric::features(const Tensor& pictures) const {
  return mean(passed(third, passed(second, passed(first, pictures))), {2, 3});
}

void train_perceptual_metric(PerceptualMetric& metric, const data::ImageDataset& images,
                             const PerceptualMetricTraining& t, RandomKey key) {
  data::Loader loader(images, {.batch_size = std::min(t.batch, images.size()),
                               .drop_last = true,
                               .seed = key.fold(1).stream,
                               .normalization = data::Normalization::half(images.channels())});
  const std::vector<Tensor> parameters = metric.parameters();
  const auto optimizer = optim::make_optimizer("adam", parameters);
  const optim::Schedule schedule{
      .kind = optim::Schedule::Kind::cosine, .base = t.lr, .warmup = t.steps / 10, .total_steps = t.steps};
  for (std::int64_t step = 0; step < t.steps; ++step) {
    if (t.on_progress) t.on_progress(step);
    const data::Batch batch = loader.next();
    Tape tape;
    const Tensor logits = metric(batch.images);
    const Tensor loss =
        images.has_attributes() ? bce_with_logits(logits, batch.attributes) : cross_entropy(logits, batch.labels);
    optimizer->step(tape.gradient(loss, parameters), schedule.at(step));
  }
}

Tensor f_sim(const PerceptualMetric& metric, const Tensor& x, const Tensor& y) {
  if (!(x.shape() == y.shape()))
    throw ShapeError(fmt::format("f_sim: pictures differ in shape: {} and {}", x.shape().str(), y.shape().str()));
  const PauseRecording pause;
  const auto features = [&](const Tensor& pictures) {
    return metric.features(pictures.to(metric.first.weight.dtype())).to(DType::f64);
  };
  return abs(cosine_similarity(features(x), features(y), 1));
}

} // namespace eg::attacks
