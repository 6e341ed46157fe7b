
#include "autograd/accumulation.h"
#include "autograd/anomaly.h"
#include "autograd/tape.h"
#include "core/ops.h"
#include "data/bytes.h"
#include "data/json.h"
#include "permute/checkpoint.h"
#include "permute/metrics.h"
#include "permute/training_state.h"

#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

namespace eg::permute {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// Number of rows of `logits` [B, C] whose largest entry is at the label.
std::int64_t count_correct(const Tensor& logits, const Tensor& labels) {
  const PauseRecording pause;
  const std::vector<std::int64_t> found = argmax(logits, -1).to_vector<std::int64_t>();
  const std::vector<std::int64_t> wanted = labels.to_vector<std::int64_t>();
  std::int64_t correct = 0;
  for (std::size_t i = 0; i < found.size(); ++i) correct += found[i] == wanted[i] ? 1 : 0;
  return correct;
}

/// How to train again after the loss stopped being finite.
std::string after_divergence(const std::string& out) {
  if (out.empty()) return {};
  const std::vector<std::int64_t> steps = checkpoint_steps(out);
  if (steps.empty())
    return fmt::format("; {} holds no checkpoint, so that --out {} can be used again", out, data::shell_word(out));
  return fmt::format("; {} keeps its checkpoint of step {}: give another --out, or --overwrite", out, steps.back());
}

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
                                                    RandomKey dropout, VariantValues& values) {
  Tape tape;
  const Tensor logits =
      permuted_logits(*v.model, batch.images, permutes_rows(v.mode) ? batch_rows : Tensor{}, key_for(v), dropout);
  const Tensor loss = cross_entropy(logits, batch.labels, options.label_smoothing);
  if (!std::isfinite(loss.item()))
    throw ValueError(fmt::format("train: the loss is {} at step {} (variant {}); use a smaller lr or clip{}",
                                 loss.item(), step, name_of(v.mode), after_divergence(options.out)));
  values.loss += loss.item() * static_cast<double>(batch.labels.numel());
  values.accuracy += static_cast<double>(count_correct(logits, batch.labels));
  return tape.gradient(loss, v.parameters);
}

VariantValues VitTrainer::State::advance(Variant& v, const data::Batch& batch, const Tensor& batch_rows, double lr) {
  std::optional<DetectAnomaly> watch;
  if (options.detect_anomaly) watch.emplace();
  const RandomKey dropout = root.fold(draw_dropout).fold(static_cast<std::uint64_t>(step));
  const std::int64_t images = batch.labels.numel();
  const std::int64_t part = (images + options.accumulate - 1) / options.accumulate;
  VariantValues values{.mode = v.mode};
  GradientAccumulator accumulator(static_cast<double>(images));
  for (std::int64_t first = 0; first < images; first += part) {
    const std::int64_t last = std::min(images, first + part);
    data::Batch cut = batch;
    cut.images = batch.images.slice(0, first, last);
    cut.labels = batch.labels.slice(0, first, last);
    const Tensor rows = batch_rows.defined() ? batch_rows.slice(0, first, last) : Tensor{};
    const RandomKey key =
        first == 0 ? dropout : dropout.fold((std::uint64_t{1} << 32) + static_cast<std::uint64_t>(first));
    accumulator.add(gradients_of(v, cut, rows, key, values), static_cast<double>(last - first));
  }
  values.loss /= static_cast<double>(images);
  values.accuracy /= static_cast<double>(images);
  std::vector<Tensor> gradients = std::move(accumulator).mean();
  if (options.clip > 0.0) optim::clip_gradients(gradients, options.clip);
  v.optimizer->step(gradients, lr);
  return values;
}

bool VitTrainer::State::wants_drift() const {
  return step == total || (options.drift_every > 0 && step % options.drift_every == 0);
}

bool VitTrainer::State::wants_test() const {
  if (step == total) return false; // the last test belongs to the result
  if (options.evaluate_every > 0) return step % options.evaluate_every == 0;
  return options.epochs > 0 && step % loader->batches_per_epoch() == 0;
}

VitTrainer::~VitTrainer() = default;

TrainRecord VitTrainer::train_step() {
  State& s = *state_;
  const ProductsScope products(s.options.precision);
  const Clock::time_point begin = Clock::now();
  const data::Batch batch = s.loader->next();
  const Tensor rows = s.rows(s.step * s.options.batch, batch.labels.numel(), draw_rows);
  TrainRecord record;
  record.epoch = s.epoch_of(s.step);
  record.lr = s.schedule.at(s.step);
  for (Variant& v : s.variants) record.variants.push_back(s.advance(v, batch, rows, record.lr));
  record.step = ++s.step;
  const double seconds = seconds_since(begin);
  s.seconds += seconds;
  record.images_per_s = static_cast<double>(batch.labels.numel()) / seconds;
  if (s.wants_drift())
    for (std::size_t i = 0; i < s.variants.size(); ++i) record.variants[i].drift = drift(i);
  return record;
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

TrainRecord VitTrainer::test(const std::atomic<bool>* stop) {
  State& s = *state_;
  const ProductsScope products(s.options.precision);
  const Clock::time_point begin = Clock::now();
  TrainRecord record;
  record.split = data::Split::test;
  record.step = s.step;
  record.epoch = s.epoch_of(std::max<std::int64_t>(s.step, 1) - 1);
  record.lr = s.schedule.at(std::max<std::int64_t>(s.step, 1) - 1);
  std::vector<std::int64_t> correct(s.variants.size());
  for (const Variant& v : s.variants) record.variants.push_back({.mode = v.mode});
  const Evaluating evaluating(s.variants);
  const PauseRecording pause;
  for (std::int64_t b = 0; b < s.test_loader->batches_per_epoch(); ++b) {
    if (stop != nullptr && stop->load()) break;
    const data::Batch batch = s.test_loader->batch(0, b);
    const Tensor rows = s.rows(b * s.options.batch, batch.labels.numel(), draw_test_rows);
    for (std::size_t i = 0; i < s.variants.size(); ++i) {
      const Variant& v = s.variants[i];
      const Tensor logits =
          permuted_logits(*v.model, batch.images, permutes_rows(v.mode) ? rows : Tensor{}, s.key_for(v));
      record.variants[i].loss += cross_entropy(logits, batch.labels, 0.0, -100, "sum").item();
      correct[i] += count_correct(logits, batch.labels);
    }
  }
  const auto count = static_cast<double>(s.test.size());
  for (std::size_t i = 0; i < s.variants.size(); ++i) {
    record.variants[i].loss /= count;
    record.variants[i].accuracy = static_cast<double>(correct[i]) / count;
    record.variants[i].drift = drift(i);
  }
  record.images_per_s = count / seconds_since(begin);
  return record;
}

double VitTrainer::drift(std::size_t variant) const {
  const State& s = *state_;
  const Variant& v = s.variants.at(variant);
  const auto plain = std::find_if(s.variants.begin(), s.variants.end(),
                                  [](const Variant& other) { return other.mode == TrainMode::none; });
  if (plain == s.variants.end() || v.mode == TrainMode::none) return not_measured;
  const nn::StateDict mine = v.model->state_dict();
  return weight_difference(permutes_columns(v.mode) ? transform(mine, s.axes, inverse(s.columns)) : mine,
                           plain->model->state_dict());
}

namespace {

/// What a run leaves behind besides checkpoints.
class RunFolder {
public:
  RunFolder(const TrainOptions& options, std::int64_t step, std::int64_t total) : folder_(options.out) {
    if (folder_.empty()) return;
    TrainOptions kept = options;
    kept.overwrite = false; // a permission for one run
    data::write_json(data::join_path(folder_, "config.json"), options_json(kept));
    metrics_.emplace(data::join_path(folder_, "metrics.jsonl"), options.resume.empty() ? -1 : step, step == total);
  }
  void write(const TrainRecord& record) {
    if (metrics_) metrics_->write(record);
  }
  explicit operator bool() const { return !folder_.empty(); }

private:
  std::string folder_;
  std::optional<MetricsFile> metrics_;
};

} // namespace

TrainResult VitTrainer::run(const TrainCallbacks& callbacks, const std::atomic<bool>* stop) {
  State& s = *state_;
  if (!s.options.out.empty()) s.claim_folder();
  RunFolder folder(s.options, s.step, s.total);
  const auto stopped = [stop] { return stop != nullptr && stop->load(); };
  const auto tell = [&](const std::function<void(const TrainRecord&)>& callback, const TrainRecord& record) {
    folder.write(record);
    if (callback) callback(record);
  };
  const auto checkpoint = [&] {
    if (!folder) return std::string();
    const std::string path = save_checkpoint();
    if (callbacks.checkpoint) callbacks.checkpoint(path);
    return path;
  };
  const auto leave_if_stopped = [&] {
    if (!stopped()) return;
    const std::string path = checkpoint();
    throw Interrupted(fmt::format("train: interrupted at step {} of {}{}", s.step, s.total,
                                  path.empty() ? std::string() : "; checkpoint " + path));
  };

  TrainResult result;
  const std::int64_t first = s.step;
  while (s.step < s.total) {
    leave_if_stopped();
    const TrainRecord record = train_step();
    tell(callbacks.step, record);
    result.train = record.variants;
    if (s.step < s.total && s.options.checkpoint_every > 0 && s.step % s.options.checkpoint_every == 0) checkpoint();
    if (!s.wants_test()) continue;
    const TrainRecord tested = test(stop);
    leave_if_stopped();
    tell(callbacks.test, tested);
  }
  if (s.step > first || !s.saved) checkpoint();
  TrainRecord tested = test(stop);
  leave_if_stopped();
  tell(callbacks.test, tested);
  if (folder)
    for (std::size_t i = 0; i < s.variants.size(); ++i)
      data::save_safetensors(data::join_path(s.options.out, "model" + s.suffix(i) + ".safetensors"),
                             s.variants[i].model->state_dict());
  result.steps = s.step;
  result.seconds = s.seconds;
  result.images_per_s = s.seconds > 0.0 ? static_cast<double>((s.step - first) * s.options.batch) / s.seconds : 0.0;
  result.test = tested.variants;
  return result;
}

const TrainOptions& VitTrainer::options() const { return state_->options; }
std::int64_t VitTrainer::step() const { return state_->step; }
std::int64_t VitTrainer::total_steps() const { return state_->total; }
std::int64_t VitTrainer::steps_per_epoch() const { return state_->loader->batches_per_epoch(); }
std::size_t VitTrainer::variants() const { return state_->variants.size(); }
TrainMode VitTrainer::mode(std::size_t variant) const { return state_->variants.at(variant).mode; }
const nn::Vit& VitTrainer::model(std::size_t variant) const { return *state_->variants.at(variant).model; }
const VitKey* VitTrainer::column_key() const { return state_->column_key ? &*state_->column_key : nullptr; }
std::vector<TrainRecord> VitTrainer::history() const {
  const State& s = *state_;
  if (s.options.resume.empty() || s.options.out.empty()) return {};
  return read_metrics(data::join_path(s.options.out, "metrics.jsonl"), s.step, s.variants.back().mode);
}
const std::vector<std::string>& VitTrainer::notes() const { return state_->notes; }
const data::ImageDataset& VitTrainer::train_data() const { return state_->train; }
const data::ImageDataset& VitTrainer::test_data() const { return state_->test; }

} // namespace eg::permute
