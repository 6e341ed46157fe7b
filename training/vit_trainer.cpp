#include "autograd/tape.h"
#include "core/base/bytes.h"
#include "core/base/function_ref.h"
#include "core/ops.h"
#include "nn/metrics.h"
#include "nn/mode_scope.h"
#include "training/step.h"
#include "training/vit_metrics.h"
#include "training/vit_state.h"

#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace eg::permute {
namespace {

/// Which model an error is about.
std::string in_variant(TrainMode mode) { return fmt::format(" (variant {})", name_of(mode)); }

/// Relative difference of two tensors; of a fused qkv bias, the K third is left out.
double parameter_difference(const std::string& name, const Tensor& a, const Tensor& b) {
  if (!name.ends_with("qkv.bias")) return relative_error(a, b);
  const std::int64_t third = a.size(0) / 3;
  const auto part = [third](const Tensor& x, std::int64_t i) { return x.slice(0, i * third, (i + 1) * third); };
  return std::max(relative_error(part(a, 0), part(b, 0)), relative_error(part(a, 2), part(b, 2)));
}

/// permuted_hidden with blocks of any kind.
Tensor hidden_through(const nn::Vit& model, const Tensor& images, const Tensor& rows, const VitKey* key,
                      RandomKey dropout_key, FunctionRef<Tensor(const Tensor& z)> encode) {
  Tensor z = model.embed(images, nn::Vit::embedding_key(dropout_key));
  if (rows.defined()) z = permute_rows(z, rows);
  if (key != nullptr) z = key->apply_columns(z);
  z = encode(z);
  if (key != nullptr) z = key->undo_columns(z);
  return rows.defined() ? permute_rows(z, invert_permutation(rows)) : z;
}

} // namespace

Tensor permuted_hidden(const nn::Vit& model, const Tensor& images, const Tensor& rows, const VitKey* key,
                       RandomKey dropout_key) {
  return hidden_through(model, images, rows, key, dropout_key,
                        [&](const Tensor& z) { return model.encode(z, dropout_key); });
}

Tensor permuted_logits(const nn::Vit& model, const Tensor& images, const Tensor& rows, const VitKey* key,
                       RandomKey dropout_key) {
  return model.head(permuted_hidden(model, images, rows, key, dropout_key));
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

namespace {

/// How many samples were right: of mixed ones, the shares that the largest logits name; of attributes, the share of
/// them that the logits' signs name.
double count_right(const Tensor& logits, const Samples& samples) {
  const PauseRecording pause;
  if (!samples.shares.defined()) return static_cast<double>(count_in_top(logits, samples.labels));
  if (!samples.attributes) return sum(gather(samples.shares, 1, argmax(logits, -1).unsqueeze(1))).item();
  const Tensor named = gt(logits, 0.0).to(logits.dtype());
  const Tensor right = named * samples.shares + affine(named, -1.0, 1.0) * affine(samples.shares, -1.0, 1.0);
  return sum(mean(right, {1})).item();
}

/// The mean loss over samples: cross-entropy of classes; of attributes the mean of their binary cross-entropies.
Tensor loss_of(const Tensor& logits, const Samples& samples, double label_smoothing) {
  if (!samples.shares.defined()) return cross_entropy(logits, samples.labels, label_smoothing);
  if (!samples.attributes) return soft_cross_entropy(logits, samples.shares, label_smoothing);
  return bce_with_logits(logits, affine(samples.shares, 1.0 - label_smoothing, 0.5 * label_smoothing));
}

/// What a model says of its encoder's output, and the loss of it. With a distillation token both classifiers' mean.
struct Said {
  Tensor logits, loss;
};
Said said_of(const nn::Vit& model, const Tensor& z, const Samples& samples, double label_smoothing) {
  if (!model.config.distillation) {
    const Tensor logits = model.head(z);
    return {logits, loss_of(logits, samples, label_smoothing)};
  }
  const nn::Vit::TwoLogits two = model.heads(z);
  const Tensor taught = samples.taught.defined() ? cross_entropy(two.distillation, samples.taught, label_smoothing)
                                                 : loss_of(two.distillation, samples, label_smoothing);
  return {(two.classes + two.distillation) * 0.5, (loss_of(two.classes, samples, label_smoothing) + taught) * 0.5};
}

} // namespace

Tensor VitTrainer::State::hidden(const Variant& v, const Tensor& images, const Tensor& all_rows, RandomKey dropout,
                                 std::int64_t step) const {
  const Tensor rows = permutes_rows(v.mode) ? all_rows : Tensor{};
  if (!split.encoder) return permuted_hidden(*v.model, images, rows, key_for(v), dropout);
  return hidden_through(*v.model, images, rows, key_for(v), dropout, [&](const Tensor& z) {
    return step == in_test ? split.encoder->evaluate(z, {}) : split.encoder->encode(z, {}, step);
  });
}

training::PartGradients VitTrainer::State::gradients_of(Variant& v, const Samples& samples, RandomKey dropout,
                                                        const training::Place& place, VariantValues& found) {
  Tape tape;
  const Tensor z = hidden(v, samples.images, samples.rows, dropout, place.step);
  const auto [logits, loss] = said_of(*v.model, z, samples, options.label_smoothing);
  found.loss += loss.item() * static_cast<double>(samples.size());
  found.accuracy += count_right(logits, samples);
  if (!place.guard->admits(loss.item(), in_variant(v.mode))) return {};
  return {.loss = loss.item(), .gradients = tape.gradient(loss, v.parameters)};
}

VariantValues VitTrainer::State::advance(Variant& v, const Samples& samples, const training::Place& place) {
  const nn::ModeScope learning(*v.model, true);
  const RandomKey dropout = training::dropout_key(options.seed, place.step);
  const std::int64_t images = samples.size();
  VariantValues found{.mode = v.mode};
  const auto part = [&](std::int64_t first, std::int64_t last) {
    const RandomKey key =
        first == 0 ? dropout : dropout.fold((std::uint64_t{1} << 32) + static_cast<std::uint64_t>(first));
    return gradients_of(v, samples.cut(first, last), key, place, found);
  };
  const bool taken = training::take_step(*v.optimizer, options, images, place, part, in_variant(v.mode));
  found.loss /= static_cast<double>(images);
  found.accuracy /= static_cast<double>(images);
  if (v.average && taken) v.average->update(v.optimizer->steps());
  return found;
}

bool VitTrainer::State::wants_drift(std::int64_t step) const {
  return step == run->total() || (options.drift_every > 0 && step % options.drift_every == 0);
}

void VitTrainer::State::seek(std::int64_t step) {
  loader_step = step;
  loader->seek(step / loader->batches_per_epoch(), step % loader->batches_per_epoch());
}

Samples VitTrainer::State::samples_of(const data::Batch& batch, std::int64_t step) const {
  const bool attributes = batch.attributes.defined();
  Samples samples{batch.images, batch.labels, batch.attributes, attributes};
  const data::Mixing mixing{options.mixup, options.cutmix};
  if (!mixing.any()) return samples;
  const Tensor targets = attributes ? batch.attributes : one_hot(batch.labels, train_images.classes(), options.dtype);
  data::MixedBatch mixed =
      data::mix(mixing, batch.images, targets, root.fold(draw_mix).fold(static_cast<std::uint64_t>(step)));
  samples.images = std::move(mixed.images);
  samples.shares = std::move(mixed.targets);
  return samples;
}

std::int64_t VitTrainer::State::train(const training::Place& place) {
  if (loader_step != place.step) seek(place.step); // the step was begun before, and failed
  loader_step = place.step + 1;
  const data::Batch batch = loader->next();
  Samples samples = samples_of(batch, place.step);
  samples.rows = rows(place.step * options.batch, batch.labels.numel(), draw_rows);
  if (teacher) samples.taught = teacher->classes(samples.images);
  values.clear();
  for (Variant& v : variants) values.push_back(advance(v, samples, place));
  return batch.labels.numel();
}

void VitTrainer::State::measure(const Variant& v, const data::Batch& batch, const Tensor& z, double& loss,
                                double& correct) const {
  const Tensor logits = v.model->head(z);
  const Samples samples{batch.images, batch.labels, batch.attributes, batch.attributes.defined()};
  loss += loss_of(logits, samples, 0.0).item() * static_cast<double>(samples.size());
  correct += count_right(logits, samples);
}

std::int64_t VitTrainer::State::test(StopFlag stop) {
  values.clear();
  for (const Variant& v : variants) {
    values.push_back({.mode = v.mode});
    if (v.average) values.back().ema_loss = values.back().ema_accuracy = 0.0;
  }
  const PauseRecording pause;
  for (std::int64_t b = 0; b < test_loader->batches_per_epoch(); ++b) {
    if (stop != nullptr && stop->load()) break;
    const data::Batch batch = test_loader->batch(0, b);
    const std::int64_t seen = run->step() * test_images.size() + b * options.batch; // each test has orders of its own
    const Tensor permuted = rows(seen, batch.labels.numel(), draw_test_rows);
    for (std::size_t i = 0; i < variants.size(); ++i) {
      const Variant& v = variants[i];
      measure(v, batch, hidden(v, batch.images, permuted, {}, in_test), values[i].loss, values[i].accuracy);
      if (!v.average) continue;
      const nn::ParameterScope averaged(*v.model, v.average->values());
      measure(v, batch, hidden(v, batch.images, permuted, {}, in_test), values[i].ema_loss, values[i].ema_accuracy);
    }
  }
  const auto count = static_cast<double>(test_images.size());
  for (VariantValues& v : values)
    for (double* sum : {&v.loss, &v.accuracy, &v.ema_loss, &v.ema_accuracy}) *sum /= count;
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
  calls.skipped = callbacks.skipped;
  s.run->run(calls, stop);
  result.steps = s.run->step();
  result.seconds = s.run->seconds();
  const auto images = static_cast<double>(s.run->steps_taken() * s.options.batch);
  result.images_per_s = result.seconds > 0.0 ? images / result.seconds : 0.0;
  result.test = s.told.variants;
  result.skipped = s.run->skipped();
  result.best = s.run->best_step();
  return result;
}

double VitTrainer::drift(std::size_t variant) const { return state_->drift(variant); }
std::vector<Tensor> VitTrainer::average(std::size_t variant) const {
  const Variant& v = state_->variants.at(variant);
  return v.average ? v.average->values() : std::vector<Tensor>();
}
std::string VitTrainer::save_checkpoint() { return state_->run->save_checkpoint(); }
const TrainOptions& VitTrainer::options() const { return state_->options; }
std::int64_t VitTrainer::step() const { return state_->run->step(); }
std::int64_t VitTrainer::total_steps() const { return state_->run->total(); }
std::int64_t VitTrainer::steps_per_epoch() const { return state_->loader->batches_per_epoch(); }
std::size_t VitTrainer::variants() const { return state_->variants.size(); }
TrainMode VitTrainer::mode(std::size_t variant) const { return state_->variants.at(variant).mode; }
const nn::Vit& VitTrainer::model(std::size_t variant) const { return *state_->variants.at(variant).model; }
nn::StateDict VitTrainer::weights(std::size_t variant) const {
  return state_->split.encoder ? state_->whole_model({})->state_dict() : model(variant).state_dict();
}
const VitKey* VitTrainer::column_key() const { return state_->column_key ? &*state_->column_key : nullptr; }
std::vector<TrainRecord> VitTrainer::history() const {
  const State& s = *state_;
  if (s.options.resume.empty() || s.options.out.empty()) return {};
  return read_metrics(join_path(s.options.out, "metrics.jsonl"), s.run->step(), s.variants.back().mode);
}
const std::vector<std::string>& VitTrainer::notes() const { return state_->run->notes(); }
const data::ImageDataset& VitTrainer::train_data() const { return state_->train_images; }
data::Normalization VitTrainer::pixels() const { return state_->pixels(); }
const data::ImageDataset& VitTrainer::test_data() const { return state_->test_images; }

} // namespace eg::permute
