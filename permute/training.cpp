
#include "autograd/tape.h"
#include "core/metrics.h"
#include "core/ops.h"
#include "data/bytes.h"
#include "permute/metrics.h"
#include "permute/training_state.h"
#include "training/step.h"

#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace eg::permute {
namespace {

/// Relative difference of two tensors; of a fused qkv bias, the K third is left out.
double parameter_difference(const std::string& name, const Tensor& a, const Tensor& b) {
  if (!name.ends_with("qkv.bias")) return relative_error(a, b);
  const std::int64_t third = a.size(0) / 3;
  const auto part = [third](const Tensor& x, std::int64_t i) { return x.slice(0, i * third, (i + 1) * third); };
  return std::max(relative_error(part(a, 0), part(b, 0)), relative_error(part(a, 2), part(b, 2)));
}

} // namespace

Tensor permuted_logits(const nn::Vit& model, const Tensor& images, const Tensor& rows, const VitKey* key,
                       RandomKey dropout_key) {
  Tensor z = model.embed(images);
  if (rows.defined()) z = permute_rows(z, rows);
  if (key != nullptr) z = key->apply_columns(z);
  z = model.encode(z, dropout_key);
  if (key != nullptr) z = key->undo_columns(z);
  if (rows.defined()) z = permute_rows(z, invert_permutation(rows));
  return model.head(z);
}

double weight_difference(const nn::StateDict& a, const nn::StateDict& b) {
  if (a.size() != b.size())
    throw ShapeError(fmt::format("weight_difference: {} parameters against {}", a.size(), b.size()));
  const PauseRecording pause;
  double worst = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].first != b[i].first)
      throw ValueError(fmt::format("weight_difference: '{}' against '{}'", a[i].first, b[i].first));
    worst = std::max(worst, parameter_difference(a[i].first, a[i].second, b[i].second));
  }
  return worst;
}

Tensor VitTrainer::State::rows(std::int64_t first_sample, std::int64_t samples, Draw draw) const {
  if (!any(permutes_rows)) return {};
  const std::int64_t tokens = options.model.tokens();
  if (secret)
    return secret->row_permutations(samples, tokens, draw == draw_rows ? "vit.train" : "vit.test",
                                    static_cast<std::uint64_t>(first_sample));
  return row_permutations(samples, tokens, root.fold(draw).fold(static_cast<std::uint64_t>(first_sample)));
}

std::vector<Tensor> VitTrainer::State::gradients_of(Variant& v, const data::Batch& batch, const Tensor& batch_rows,
                                                    RandomKey dropout, std::int64_t step, VariantValues& found) {
  Tape tape;
  const Tensor logits =
      permuted_logits(*v.model, batch.images, permutes_rows(v.mode) ? batch_rows : Tensor{}, key_for(v), dropout);
  const Tensor loss = cross_entropy(logits, batch.labels, options.label_smoothing);
  if (!std::isfinite(loss.item()))
    training::throw_diverged(options, loss.item(), step, fmt::format(" (variant {})", name_of(v.mode)));
  found.loss += loss.item() * static_cast<double>(batch.labels.numel());
  found.accuracy += static_cast<double>(count_in_top(logits, batch.labels));
  return tape.gradient(loss, v.parameters);
}

VariantValues VitTrainer::State::advance(Variant& v, const data::Batch& batch, const Tensor& batch_rows,
                                         const training::Place& place) {
  const RandomKey dropout = root.fold(draw_dropout).fold(static_cast<std::uint64_t>(place.step));
  const std::int64_t images = batch.labels.numel();
  VariantValues found{.mode = v.mode};
  training::take_step(*v.optimizer, options, images, place.lr, [&](std::int64_t first, std::int64_t last) {
    data::Batch cut = batch;
    cut.images = batch.images.slice(0, first, last);
    cut.labels = batch.labels.slice(0, first, last);
    const Tensor rows = batch_rows.defined() ? batch_rows.slice(0, first, last) : Tensor{};
    const RandomKey key =
        first == 0 ? dropout : dropout.fold((std::uint64_t{1} << 32) + static_cast<std::uint64_t>(first));
    return gradients_of(v, cut, rows, key, place.step, found);
  });
  found.loss /= static_cast<double>(images);
  found.accuracy /= static_cast<double>(images);
  return found;
}

bool VitTrainer::State::wants_drift(std::int64_t step) const {
  return step == run->total() || (options.drift_every > 0 && step % options.drift_every == 0);
}

void VitTrainer::State::seek(std::int64_t step) {
  loader->seek(step / loader->batches_per_epoch(), step % loader->batches_per_epoch());
}

std::int64_t VitTrainer::State::train(const training::Place& place) {
  const data::Batch batch = loader->next();
  const Tensor permuted = rows(place.step * options.batch, batch.labels.numel(), draw_rows);
  values.clear();
  for (Variant& v : variants) values.push_back(advance(v, batch, permuted, place));
  return batch.labels.numel();
}

namespace {

/// Models in eval() while this lives, in train() afterwards, whatever was thrown.
class Evaluating {
public:
  explicit Evaluating(const std::vector<Variant>& variants) : variants_(variants) {
    for (const Variant& v : variants_) v.model->eval();
  }
  ~Evaluating() {
    for (const Variant& v : variants_) v.model->train();
  }
  Evaluating(const Evaluating&) = delete;
  Evaluating& operator=(const Evaluating&) = delete;

private:
  const std::vector<Variant>& variants_;
};

} // namespace

std::int64_t VitTrainer::State::test(data::StopFlag stop) {
  std::vector<std::int64_t> correct(variants.size());
  values.clear();
  for (const Variant& v : variants) values.push_back({.mode = v.mode});
  const Evaluating evaluating(variants);
  const PauseRecording pause;
  for (std::int64_t b = 0; b < test_loader->batches_per_epoch(); ++b) {
    if (stop != nullptr && stop->load()) break;
    const data::Batch batch = test_loader->batch(0, b);
    const Tensor permuted = rows(b * options.batch, batch.labels.numel(), draw_test_rows);
    for (std::size_t i = 0; i < variants.size(); ++i) {
      const Variant& v = variants[i];
      const Tensor logits =
          permuted_logits(*v.model, batch.images, permutes_rows(v.mode) ? permuted : Tensor{}, key_for(v));
      values[i].loss += cross_entropy(logits, batch.labels, 0.0, -100, "sum").item();
      correct[i] += count_in_top(logits, batch.labels);
    }
  }
  const auto count = static_cast<double>(test_images.size());
  for (std::size_t i = 0; i < variants.size(); ++i) {
    values[i].loss /= count;
    values[i].accuracy = static_cast<double>(correct[i]) / count;
  }
  return test_images.size();
}

nlohmann::ordered_json VitTrainer::State::record(const training::Occasion& o) {
  if (o.split == data::Split::test || wants_drift(o.step))
    for (std::size_t i = 0; i < variants.size(); ++i) values[i].drift = drift(i);
  told = {.split = o.split, .step = o.step, .epoch = o.epoch, .lr = o.lr, .images_per_s = o.per_s, .variants = values};
  return record_json(told);
}

double VitTrainer::State::drift(std::size_t variant) const {
  const Variant& v = variants.at(variant);
  const auto plain = std::find_if(variants.begin(), variants.end(),
                                  [](const Variant& other) { return other.mode == TrainMode::none; });
  if (plain == variants.end() || v.mode == TrainMode::none) return not_measured;
  const nn::StateDict mine = v.model->state_dict();
  return weight_difference(permutes_columns(v.mode) ? transform(mine, axes, inverse(columns)) : mine,
                           plain->model->state_dict());
}

VitTrainer::~VitTrainer() = default;

TrainRecord VitTrainer::train_step() {
  state_->run->train_step();
  return state_->told;
}

TrainRecord VitTrainer::test(const std::atomic<bool>* stop) {
  state_->run->test(stop);
  return state_->told;
}

TrainResult VitTrainer::run(const TrainCallbacks& callbacks, const std::atomic<bool>* stop) {
  State& s = *state_;
  TrainResult result;
  training::RunCallbacks calls;
  calls.step = [&] {
    result.train = s.told.variants;
    if (callbacks.step) callbacks.step(s.told);
  };
  calls.test = [&] {
    if (callbacks.test) callbacks.test(s.told);
  };
  calls.checkpoint = callbacks.checkpoint;
  s.run->run(calls, stop);
  result.steps = s.run->step();
  result.seconds = s.run->seconds();
  const auto images = static_cast<double>(s.run->steps_taken() * s.options.batch);
  result.images_per_s = result.seconds > 0.0 ? images / result.seconds : 0.0;
  result.test = s.told.variants;
  return result;
}

double VitTrainer::drift(std::size_t variant) const { return state_->drift(variant); }
std::string VitTrainer::save_checkpoint() { return state_->run->save_checkpoint(); }
const TrainOptions& VitTrainer::options() const { return state_->options; }
std::int64_t VitTrainer::step() const { return state_->run->step(); }
std::int64_t VitTrainer::total_steps() const { return state_->run->total(); }
std::int64_t VitTrainer::steps_per_epoch() const { return state_->loader->batches_per_epoch(); }
std::size_t VitTrainer::variants() const { return state_->variants.size(); }
TrainMode VitTrainer::mode(std::size_t variant) const { return state_->variants.at(variant).mode; }
const nn::Vit& VitTrainer::model(std::size_t variant) const { return *state_->variants.at(variant).model; }
const VitKey* VitTrainer::column_key() const { return state_->column_key ? &*state_->column_key : nullptr; }
std::vector<TrainRecord> VitTrainer::history() const {
  const State& s = *state_;
  if (s.options.resume.empty() || s.options.out.empty()) return {};
  return read_metrics(data::join_path(s.options.out, "metrics.jsonl"), s.run->step(), s.variants.back().mode);
}
const std::vector<std::string>& VitTrainer::notes() const { return state_->run->notes(); }
const data::ImageDataset& VitTrainer::train_data() const { return state_->train_images; }
const data::ImageDataset& VitTrainer::test_data() const { return state_->test_images; }

} // namespace eg::permute
