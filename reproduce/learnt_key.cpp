#include "reproduce/learnt_key.h"

#include "autograd/tape.h"
#include "core/assignment.h"
#include "core/metrics.h"
#include "core/ops.h"
#include "data/loader.h"
#include "optim/optimizer.h"
#include "permute/vision_model.h"

#include <fmt/format.h>

namespace eg::reproduce {
namespace {

constexpr int sinkhorn_rounds = 20;

Tensor doubly_stochastic(const Tensor& a, double temperature) {
  Tensor m = exp((a - amax(a, {-1}, true)) / temperature);
  for (int i = 0; i < sinkhorn_rounds; ++i) {
    m = m / sum(m, {1}, true);
    m = m / sum(m, {0}, true);
  }
  return m;
}

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

std::vector<std::int64_t> nearest_assignment(const Tensor& m) {
  // Row j of M^T says which of F1's features feature j of the encoder's input is.
  return hungarian(m.transpose(0, 1).contiguous().to(DType::f64), true).columns.to_vector<std::int64_t>();
}

double LearntKey::found(const permute::Permutation& truth) const {
  double right = 0.0;
  for (std::size_t j = 0; j < assignment.size(); ++j)
    right += assignment[j] == truth[static_cast<std::int64_t>(j)] ? 1.0 : 0.0;
  return assignment.empty() ? 0.0 : right / static_cast<double>(assignment.size());
}

LearntKey learn_key(const Plan& plan, const Workplace& work, const std::string& encrypted,
                    const std::pair<data::ImageDataset, data::ImageDataset>& images, std::uint64_t seed,
                    const std::function<void(double, const std::string&)>& tell) {
  const DType dtype = plan.train.dtype;
  const permute::ImageKind kind{images.first.height(), images.first.channels(), images.first.class_names()};
  const permute::VisionStart start = permute::open_vision_start({.from = encrypted, .fresh = {}, .freeze = {}}, "vit",
                                                                kind, 0.0, dtype, RandomKey{seed, 5});
  const nn::Vit& model = start.vit();
  const data::Normalization pixels = start.normalization.value_or(data::Normalization::standard(images.first));
  const std::int64_t dim = model.config.encoder.dim;
  Tensor a = (random_normal({dim, dim}, RandomKey{seed, 6}) * 0.1).to(dtype);
  std::vector<Tensor> parameters = head_of(model);
  parameters.push_back(a);
  const auto optimizer = optim::make_optimizer("adam", parameters);
  data::Loader loader(
      images.first,
      {.batch_size = plan.train.batch, .drop_last = true, .seed = seed, .normalization = pixels, .dtype = dtype});
  const double temperature = plan.number("learn_temperature");
  const auto leave_if_stopped = [&] {
    if (work.stop != nullptr && work.stop->load()) throw Interrupted("reproduce: interrupted while learning a key");
  };
  const std::int64_t steps = plan.count("learn_steps");
  for (std::int64_t step = 0; step < steps; ++step) {
    leave_if_stopped();
    tell(static_cast<double>(step) / static_cast<double>(steps), fmt::format("learning P_C, step {}/{}", step, steps));
    const data::Batch batch = loader.next();
    Tape tape;
    const Tensor loss = cross_entropy(logits_of(model, batch.images, doubly_stochastic(a, temperature)), batch.labels);
    optimizer->step(tape.gradient(loss, parameters), plan.number("learn_rate"));
  }
  const PauseRecording pause;
  const Tensor m = doubly_stochastic(a, temperature);
  const data::Loader tests(
      images.second, {.batch_size = 100, .shuffle = false, .normalization = pixels, .dtype = dtype, .workers = 0});
  std::int64_t right = 0;
  for (std::int64_t b = 0; b < tests.batches_per_epoch(); ++b) {
    leave_if_stopped();
    const data::Batch batch = tests.batch(0, b);
    right += count_in_top(logits_of(model, batch.images, m), batch.labels);
  }
  return {.accuracy = 100.0 * static_cast<double>(right) / static_cast<double>(images.second.size()),
          .assignment = nearest_assignment(m)};
}

} // namespace eg::reproduce
