#include "training/model_task.h"

#include "core/base/bytes.h"
#include "core/base/crc32c.h"
#include "core/device/device.h"
#include "core/ops.h"
#include "data/safetensors.h"
#include "distributed/communicator.h"
#include "nn/mode_scope.h"
#include "training/parameter_groups.h"
#include "training/run.h"
#include "training/step.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

namespace eg::training {

using permute::PermuteMode;

std::vector<PermuteMode> modes_of(PermuteMode mode, bool twin) {
  return twin ? std::vector{PermuteMode::none, mode} : std::vector{mode};
}

ModelTask::ModelTask(const RunOptions& options, PermutedEncoder encoder, std::int64_t drift_every)
    : encoder_(std::move(encoder)), options_(options), device_(device::usable(options.device)), uploads_(device_),
      drift_every_(drift_every) {}

void ModelTask::add_variant(PermuteMode mode, std::shared_ptr<nn::Module> module, std::vector<std::string> trained) {
  Variant v{.mode = mode, .module = std::move(module)};
  names_ = std::move(trained);
  v.module->eval(); // between steps
  v.module->to(options_.dtype);
  v.module->to(device_);
  v.parameters = nn::parameters_named(*v.module, names_);
  variants_.push_back(std::move(v));
}

void ModelTask::join(distributed::Communicator& processes) {
  processes_ = &processes;
  if (!processes.alone() && encoder_.elsewhere())
    throw ValueError("train: with the encoder elsewhere one process trains; start it without mpirun");
  if (!processes.alone()) {
    const auto shards = static_cast<int>(options_.shards);
    const distributed::ShardRange mine = distributed::shards_of(processes.rank(), processes.size(), shards);
    take_part(distributed::shard_begin(options_.batch, mine.first, shards),
              distributed::shard_begin(options_.batch, mine.last, shards));
  }
  for (Variant& v : variants_) {
    share_weights(processes, *v.module);
    if (options_.shards > 0) v.sharded = std::make_unique<ShardedStep>(processes, options_, *v.module, names_);
    if (!v.sharded || v.sharded->divided() == nullptr) v.optimizer = optimizer_for(options_, *v.module, names_);
    if (options_.ema > 0.0) v.average.emplace(v.module->parameters(), options_.ema);
  }
}

hub::Model& ModelTask::model() { throw ValueError("train: the model is of none of Hugging Face's families"); }

std::string ModelTask::suffix(std::size_t variant) const {
  return variant + 1 == variants_.size() ? "" : fmt::format("_{}", name_of(variants_[variant].mode));
}

std::string ModelTask::name_in_errors(const Variant& variant) const {
  return variants_.size() > 1 ? fmt::format(" (variant {})", name_of(variant.mode)) : "";
}

std::vector<Tensor> ModelTask::average(std::size_t variant) const {
  const Variant& v = variants_.at(variant);
  return v.average ? v.average->values() : std::vector<Tensor>();
}

void ModelTask::begin_elsewhere() {
  if (!encoder_.elsewhere()) return;
  const nn::StateDict weights = take_initial_blocks();
  if (!options_.resume.empty()) return;
  const auto [config, layers] = blocks_config();
  encoder_.begin(weights, config, layers, total_steps());
}

void ModelTask::forget_key() {
  fetch_blocks();
  encoder_.forget_key();
}

void ModelTask::require_whole() const {
  if (torn_)
    throw ValueError("train: the step before ended half-way through its updates; resume from the last checkpoint");
}

void ModelTask::advance(Variant& v, const StepContext& context) {
  const nn::ModeScope learning(*v.module, true);
  const RandomKey dropout = key_of(options_, draw_dropout).fold(static_cast<std::uint64_t>(context.step));
  v.sums = {.counts = has_accuracy()};
  const auto part = [&](std::int64_t first, std::int64_t last) {
    return loss_of(v, first, last, dropout.fold(static_cast<std::uint64_t>(first)));
  };
  StepSums sums;
  const std::string who = name_in_errors(v);
  const bool taken = v.sharded ? v.sharded->take(v.optimizer.get(), options_, context, part, sums, torn_, who)
                               : take_step(*v.optimizer, options_, context, part, sums, torn_, who);
  v.sums.loss = sums.loss;
  v.sums.correct = sums.correct;
  v.sums.weight = sums.weight;
  if (v.average && taken) v.average->update(v.rule().steps());
}

std::int64_t ModelTask::train(const StepContext& context) {
  require_whole();
  const std::int64_t units = draw_batch(context.step);
  for (Variant& v : variants_) advance(v, context);
  step_ = context.step + 1;
  return units;
}

namespace {

/// A batch of a test as bytes: three numbers and the number of scores, then these.
std::string encoded(double loss, double correct, double weight, const std::vector<double>& scores) {
  std::vector<double> numbers = {loss, correct, weight, static_cast<double>(scores.size())};
  numbers.insert(numbers.end(), scores.begin(), scores.end());
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(double)};
}

std::vector<double> decoded(const std::string& bytes) {
  if (bytes.size() % sizeof(double) != 0) throw distributed::DistributedError("test: a process sent torn numbers");
  std::vector<double> numbers(bytes.size() / sizeof(double));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

} // namespace

/// Batch b is the work of process b mod N; the sums are joined in the order of batches.
void ModelTask::measure_all(const Variant& v, Sums& sums, StopFlag stop) {
  const std::int64_t batches = test_batches(), n = processes_->size();
  std::string mine;
  std::vector<double> scores;
  const auto add = [&](double loss, double correct, double weight, std::span<const double> more) {
    sums.loss += loss;
    sums.correct += correct;
    sums.weight += weight;
    scores.insert(scores.end(), more.begin(), more.end());
  };
  std::int64_t done = processes_->rank();
  for (; done < batches && (stop == nullptr || !stop->load()); done += n) {
    const TestBatch found = measure(v, done);
    if (n == 1)
      add(found.loss, found.correct, found.weight, found.scores);
    else
      mine += encoded(found.loss, found.correct, found.weight, found.scores);
    if (testing_) testing_(static_cast<double>(done) / static_cast<double>(batches));
  }
  bool whole = done >= batches;
  if (n > 1) {
    whole = !processes_->any(!whole);
    std::vector<std::vector<double>> all;
    for (const std::string& bytes : processes_->gather(mine)) all.push_back(decoded(bytes));
    std::vector<std::size_t> at(all.size());
    for (std::int64_t b = 0; whole && b < batches; ++b) {
      const auto p = static_cast<std::size_t>(b % n);
      const std::span<const double> left = std::span<const double>(all[p]).subspan(std::min(at[p], all[p].size()));
      if (left.size() < 4 || !(left[3] >= 0.0 && left[3] <= static_cast<double>(left.size() - 4)))
        throw distributed::DistributedError(fmt::format("test: process {} sent too few numbers", p));
      const auto more = static_cast<std::size_t>(left[3]);
      add(left[0], left[1], left[2], left.subspan(4, more));
      at[p] += 4 + more;
    }
  }
  if (whole && !scores.empty()) sums.auc = auc_of(scores);
}

std::int64_t ModelTask::test(StopFlag stop) {
  const PauseRecording pause;
  for (Variant& v : variants_) {
    v.sums = v.average_sums = {.counts = has_accuracy()};
    measure_all(v, v.sums, stop);
    if (!v.average) continue;
    const nn::ParameterScope averaged(*v.module, v.average->values());
    measure_all(v, v.average_sums, stop);
  }
  return test_units();
}

VariantRecord ModelTask::values_of(const Variant& v, data::Split split) const {
  VariantRecord values{.mode = v.mode,
                       .loss = v.sums.mean_loss(),
                       .accuracy = v.sums.accuracy(),
                       .auc = v.sums.auc,
                       .drift = not_measured};
  if (!v.average || split == data::Split::train) return values;
  values.ema_loss = v.average_sums.mean_loss();
  values.ema_accuracy = v.average_sums.accuracy();
  return values;
}

bool ModelTask::wants_drift(const MetricsContext& o) const {
  return variants_.size() > 1 &&
         (o.split == data::Split::test || o.step == total_steps() || (drift_every_ > 0 && o.step % drift_every_ == 0));
}

nlohmann::ordered_json ModelTask::record(const MetricsContext& o) {
  last_ = {};
  for (const Variant& v : variants_) last_.variants.push_back(values_of(v, o.split));
  if (wants_drift(o))
    for (std::size_t i = 0; i < variants_.size(); ++i) last_.variants[i].drift = drift(i);
  static_cast<VariantRecord&>(last_) = last_.variants.back();
  last_.split = o.split;
  last_.step = o.step;
  last_.epoch = o.epoch;
  last_.lr = o.lr;
  last_.per_s = o.per_s;
  return record_json(last_, unit());
}

double ModelTask::drift(std::size_t variant) const {
  const Variant& v = variants_.at(variant);
  const auto plain = std::find_if(variants_.begin(), variants_.end(),
                                  [](const Variant& other) { return other.mode == PermuteMode::none; });
  if (plain == variants_.end() || v.mode == PermuteMode::none) return not_measured;
  const PauseRecording pause;
  nn::StateDict mine = v.module->state_dict();
  for (auto& [name, value] : mine) value = value.to(Device::cpu()); // where the moves are made
  return weight_difference(permutes_columns(v.mode) ? encoder_.uncoupled(mine) : mine, plain->module->state_dict(),
                           blocks_config().first.rotary.on);
}

std::vector<std::string> ModelTask::checkpoint_files() const {
  std::vector<std::string> files;
  for (std::size_t i = 0; i < variants_.size(); ++i)
    for (const char* what : {"model", "optimizer", "ema"})
      if (what != std::string_view("ema") || variants_[i].average) files.push_back(what + suffix(i) + ".safetensors");
  return files;
}

void ModelTask::save(const CheckpointWriter& writer) const {
  require_whole();
  require_same_weights();
  encoder_.save(step_, writer.best());
  for (std::size_t i = 0; i < variants_.size(); ++i) {
    const Variant& v = variants_[i];
    const std::string tail = suffix(i) + ".safetensors";
    data::save_safetensors(writer.path("model" + tail), v.module->state_dict());
    if (v.optimizer)
      data::save_safetensors(writer.path("optimizer" + tail), optimizer_tensors(*v.optimizer, names_));
    else
      v.sharded->divided()->save(writer.path("optimizer" + tail));
    if (v.average)
      data::save_safetensors(writer.path("ema" + tail), average_tensors(*v.average, nn::parameter_names(*v.module)));
  }
}

void ModelTask::require_same_weights() const {
  if (processes_ == nullptr || processes_->alone()) return;
  const PauseRecording pause;
  std::uint32_t crc = 0;
  const auto add = [&crc](const Tensor& value) {
    const Tensor packed = value.to(Device::cpu()).contiguous();
    crc = crc32c({reinterpret_cast<const std::uint8_t*>(packed.bytes()),
                  static_cast<std::size_t>(packed.numel()) * size_of(packed.dtype())},
                 crc);
  };
  for (std::size_t i = 0; i < variants_.size(); ++i) {
    for (const auto& [name, value] : variants_[i].module->state_dict()) add(value);
    for (const Tensor& value : average(i)) add(value);
  }
  processes_->require_same("a weight", fmt::format("{:08x}", crc));
}

void ModelTask::help_to_save() const {
  require_same_weights();
  for (const Variant& v : variants_)
    if (!v.optimizer) v.sharded->divided()->help_to_save();
}

void ModelTask::load(const std::string& checkpoint, std::int64_t updates) {
  torn_ = false;
  for (std::size_t i = 0; i < variants_.size(); ++i) {
    Variant& v = variants_[i];
    const std::string tail = suffix(i) + ".safetensors";
    load_model(*v.module, join_path(checkpoint, "model" + tail));
    const std::string state = join_path(checkpoint, "optimizer" + tail);
    if (v.optimizer)
      load_optimizer(*v.optimizer, names_, state);
    else
      v.sharded->divided()->load(state);
    v.rule().set_steps(updates);
    if (v.average) load_average(*v.average, nn::parameter_names(*v.module), join_path(checkpoint, "ema" + tail));
  }
  const nlohmann::json state = read_checkpoint_state(checkpoint);
  step_ = state.at("step").get<std::int64_t>();
  if (!encoder_.elsewhere()) return;
  const auto [config, layers] = blocks_config();
  encoder_.resume(state, config, layers, total_steps());
}

void ModelTask::add_state(nlohmann::ordered_json& state) const {
  if (const nlohmann::json* config = remembered_config()) state["model"] = *config;
  remember_sources(state, data_fingerprint_);
  encoder_.add_state(state);
}

void ModelTask::check_state(const nlohmann::json& state, const std::string& checkpoint) const {
  if (const nlohmann::json* config = remembered_config()) require_same_model(state, checkpoint, *config);
  require_same_sources(state, checkpoint, data_fingerprint_);
  encoder_.check_state(state, checkpoint);
}

void ModelTask::with_average(const Variant& v, FunctionRef<void()> save) {
  if (!v.average) return;
  const nn::ParameterScope averaged(*v.module, v.average->values());
  save();
}

std::optional<BlocksMark> ModelTask::mark() const {
  return permutes_columns(variants_.back().mode) ? encoder_.mark() : std::nullopt;
}

namespace {

/// Relative difference of two tensors; of a fused qkv bias the K part is left out unless positions are rotary.
double parameter_difference(const std::string& name, const Tensor& a, const Tensor& b, bool rotary) {
  if (rotary || !name.ends_with("qkv.bias")) return relative_error(a, b);
  const std::int64_t third = a.size(0) / 3;
  const auto part = [third](const Tensor& x, std::int64_t i) { return x.slice(0, i * third, (i + 1) * third); };
  return std::max(relative_error(part(a, 0), part(b, 0)), relative_error(part(a, 2), part(b, 2)));
}

} // namespace

double weight_difference(const nn::StateDict& a, const nn::StateDict& b, bool rotary) {
  if (a.size() != b.size())
    throw ShapeError(fmt::format("weight_difference: {} parameters against {}", a.size(), b.size()));
  const PauseRecording pause;
  double worst = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].first != b[i].first)
      throw ValueError(fmt::format("weight_difference: '{}' against '{}'", a[i].first, b[i].first));
    worst = std::max(worst, parameter_difference(a[i].first, a[i].second, b[i].second, rotary));
  }
  return worst;
}

} // namespace eg::training
