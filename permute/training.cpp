#include "permute/training.h"

#include "autograd/tape.h"
#include "core/allocator.h"
#include "core/ops.h"
#include "data/bytes.h"
#include "data/json.h"
#include "data/loader.h"
#include "permute/checkpoint.h"
#include "permute/key.h"
#include "permute/metrics.h"

#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

namespace eg::permute {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// Parts of the run that draw random numbers; each has a sequence of its own.
enum Draw : std::uint64_t { draw_weights = 1, draw_columns, draw_rows, draw_dropout, draw_test_rows };

std::vector<TrainMode> modes_of(const TrainOptions& o) {
  if (!o.variants.empty()) return o.variants;
  if (o.twin) return {TrainMode::none, o.permute};
  return {o.permute};
}

/// Number of rows of `logits` [B, C] whose largest entry is at the label.
std::int64_t count_correct(const Tensor& logits, const Tensor& labels) {
  const PauseRecording pause;
  const std::vector<std::int64_t> found = argmax(logits, -1).to_vector<std::int64_t>();
  const std::vector<std::int64_t> wanted = labels.to_vector<std::int64_t>();
  std::int64_t correct = 0;
  for (std::size_t i = 0; i < found.size(); ++i) correct += found[i] == wanted[i] ? 1 : 0;
  return correct;
}

/// Relative difference of two tensors; of a fused qkv bias, the K third is left out.
double parameter_difference(const std::string& name, const Tensor& a, const Tensor& b) {
  if (!name.ends_with("qkv.bias")) return relative_error(a, b);
  const std::int64_t third = a.size(0) / 3;
  const auto part = [third](const Tensor& x, std::int64_t i) { return x.slice(0, i * third, (i + 1) * third); };
  return std::max(relative_error(part(a, 0), part(b, 0)), relative_error(part(a, 2), part(b, 2)));
}

data::ImageDataset open(TrainOptions& o, data::Split split) {
  data::DatasetOptions options;
  options.limit = split == data::Split::train ? o.train_limit : o.test_limit;
  options.size = o.size;
  options.seed = o.seed;
  data::ImageDataset set = data::open_dataset(o.data, o.data_dir, split, options);
  if (set.height() != set.width())
    throw ValueError(fmt::format("train: the images of '{}' are {} x {}; a ViT here takes square ones (give size)",
                                 o.data, set.height(), set.width()));
  o.model.image = set.height();
  o.model.channels = set.channels();
  o.model.classes = set.classes();
  return set;
}

std::size_t image_bytes(const data::ImageDataset& set) { return static_cast<std::size_t>(set.size() * set.image_bytes()); }

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

/// One model in training.
struct Variant {
  TrainMode mode = TrainMode::none;
  std::unique_ptr<nn::Vit> model = {};
  std::unique_ptr<optim::Optimizer> optimizer = {};
  std::vector<Tensor> parameters = {};
};

struct VitTrainer::State {
  TrainOptions options;
  data::ImageDataset train, test;
  std::optional<data::Loader> loader;
  std::optional<data::Loader> test_loader;
  std::optional<SecretKey> secret;
  std::optional<VitKey> column_key;
  AxisMap axes;
  PermutationSet columns;
  std::vector<Variant> variants;
  std::vector<std::string> names; ///< of the parameters
  optim::Schedule schedule;
  RandomKey root;
  std::int64_t step = 0, total = 0;
  double seconds = 0.0;
  std::vector<std::int64_t> saved; ///< steps of the checkpoints that this process has written

  State(const TrainOptions& o, data::ImageDataset train_, data::ImageDataset test_)
      : options(o), train(std::move(train_)), test(std::move(test_)), root{o.seed, 0} {}

  void make_loaders();
  void draw_key();
  void make_variants();
  void resume(const std::string& folder);
  void load_variant(Variant& variant, const std::string& folder, bool main);
  Tensor rows(std::int64_t first_sample, std::int64_t samples, Draw draw) const;
  const VitKey* key_for(const Variant& v) const { return permutes_columns(v.mode) ? &*column_key : nullptr; }
  bool any(bool (*permutes)(TrainMode)) const {
    return std::any_of(variants.begin(), variants.end(), [&](const Variant& v) { return permutes(v.mode); });
  }
  std::int64_t epoch_of(std::int64_t at) const { return at / loader->batches_per_epoch(); }
  VariantValues train(Variant& variant, const data::Batch& batch, const Tensor& batch_rows, double lr);
  bool wants_drift() const;
  bool wants_test() const;
  std::string suffix(std::size_t i) const {
    return i + 1 == variants.size() ? "" : fmt::format("_{}", name_of(variants[i].mode));
  }
  std::string state_text() const;
};

void VitTrainer::State::make_loaders() {
  data::LoaderOptions l;
  l.batch_size = options.batch;
  l.drop_last = true;
  l.seed = options.seed;
  l.dtype = options.dtype;
  l.normalization = data::Normalization::standard(train);
  if (options.augment) l.augmentation = {std::max<std::int64_t>(train.height() / 8, 1), train.channels() == 3};
  loader.emplace(train, l);
  l.drop_last = false;
  l.shuffle = false;
  l.augmentation = {};
  l.workers = 0;
  test_loader.emplace(test, l);
  total = options.steps > 0 ? options.steps : options.epochs * loader->batches_per_epoch();
  schedule = {.kind = options.schedule,
              .base = options.lr,
              .warmup = options.warmup,
              .total_steps = total,
              .final_fraction = options.final_fraction};
}

void VitTrainer::State::draw_key() {
  const std::vector<TrainMode> modes = modes_of(options);
  if (!options.key.empty()) secret.emplace(SecretKey::load(options.key));
  if (std::any_of(modes.begin(), modes.end(), permutes_rows) && options.model.tokens() < 2)
    throw ValueError("train: one token cannot be permuted; use a smaller patch or no row permutation");
  if (std::none_of(modes.begin(), modes.end(), permutes_columns)) return;
  const PermutationSource source = secret ? secret->source("vit") : public_source(root.fold(draw_columns));
  column_key = VitKey::draw(options.model.encoder, options.model.layers, options.key_form, source);
  axes = vit_axes(options.model, KeyScope::encoder);
  columns = column_key->permutations(options.model.encoder);
}

void VitTrainer::State::make_variants() {
  for (const TrainMode mode : modes_of(options)) {
    Variant v{.mode = mode};
    // The same initial weights for all, moved by the key where columns are permuted: coupled initialisations.
    v.model = std::make_unique<nn::Vit>(options.model, root.fold(draw_weights));
    v.model->to(options.dtype);
    if (permutes_columns(mode)) transform_module(*v.model, axes, columns);
    v.parameters = v.model->parameters();
    v.optimizer = optim::make_optimizer(options.optimizer, v.parameters, options.weight_decay);
    variants.push_back(std::move(v));
  }
  for (const nn::Parameter& p : variants.front().model->named_parameters()) names.push_back(p.name);
}

Tensor VitTrainer::State::rows(std::int64_t first_sample, std::int64_t samples, Draw draw) const {
  if (!any(permutes_rows)) return {};
  const std::int64_t tokens = options.model.tokens();
  if (secret)
    return secret->row_permutations(samples, tokens, draw == draw_rows ? "vit.train" : "vit.test",
                                    static_cast<std::uint64_t>(first_sample));
  return row_permutations(samples, tokens, root.fold(draw).fold(static_cast<std::uint64_t>(first_sample)));
}

VariantValues VitTrainer::State::train(Variant& v, const data::Batch& batch, const Tensor& batch_rows, double lr) {
  const auto at = static_cast<std::uint64_t>(step);
  Tape tape;
  const Tensor logits =
      permuted_logits(*v.model, batch.images, permutes_rows(v.mode) ? batch_rows : Tensor{}, key_for(v),
                      root.fold(draw_dropout).fold(at));
  const Tensor loss = cross_entropy(logits, batch.labels, options.label_smoothing);
  VariantValues values{.mode = v.mode, .loss = loss.item()};
  if (!std::isfinite(values.loss))
    throw ValueError(fmt::format("train: the loss is {} at step {} (variant {}); use a smaller lr or clip", values.loss,
                                 step, name_of(v.mode)));
  values.accuracy =
      static_cast<double>(count_correct(logits, batch.labels)) / static_cast<double>(batch.labels.numel());
  std::vector<Tensor> gradients = tape.gradient(loss, v.parameters);
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

std::string VitTrainer::State::state_text() const {
  TrainOptions kept = options;
  kept.resume.clear();
  nlohmann::ordered_json state{{"format", "equigrad-checkpoint"}, {"version", 1}, {"step", step},
                               {"options", options_json(kept)}};
  if (secret) state["key_fingerprint"] = secret->fingerprint();
  return state.dump(2);
}

namespace {

/// Options that may differ between a checkpoint and the run that goes on from it: they do not change what was computed.
constexpr const char* free_options[] = {"steps",          "epochs",           "out",    "resume", "data_dir",
                                        "evaluate_every", "checkpoint_every", "key",    "drift_every"};

void require_same_options(const nlohmann::json& then, const TrainOptions& now, const std::string& source) {
  nlohmann::json present = nlohmann::json::parse(options_json(now).dump());
  std::string different;
  for (const auto& [key, value] : present.items()) {
    if (std::find(std::begin(free_options), std::end(free_options), key) != std::end(free_options)) continue;
    const std::string before = then.contains(key) ? then.at(key).dump() : "nothing";
    if (before != value.dump())
      different += fmt::format("{}{} {} (now {})", different.empty() ? "" : ", ", key, before, value.dump());
  }
  if (!different.empty())
    throw ValueError(fmt::format("train: {} was made with other options: {}", source, different));
}

} // namespace

void VitTrainer::State::load_variant(Variant& v, const std::string& folder, bool main) {
  const std::string tail = (main ? std::string() : fmt::format("_{}", name_of(v.mode))) + ".safetensors";
  const std::string model_path = data::join_path(folder, "model" + tail);
  try {
    v.model->load_state_dict(data::load_safetensors(model_path).tensors);
  } catch (const FileError&) {
    throw;
  } catch (const Error& e) {
    throw FileError(fmt::format("{}: {}", model_path, e.what()));
  }
  const std::string optimizer_path = data::join_path(folder, "optimizer" + tail);
  load_optimizer_tensors(*v.optimizer, names, data::load_safetensors(optimizer_path).tensors, optimizer_path);
  v.optimizer->set_steps(step);
}

void VitTrainer::State::resume(const std::string& folder) {
  const std::string checkpoint = find_checkpoint(folder);
  const std::string path = data::join_path(checkpoint, "state.json");
  const nlohmann::json state = data::read_json(path);
  const auto text = [&](const char* key) { return state.value(key, std::string()); };
  if (!state.is_object() || text("format") != "equigrad-checkpoint" || state.value("version", 0) != 1 ||
      !state.contains("step") || !state["step"].is_number_unsigned() || !state.contains("options"))
    throw FileError(path + ": not the state of an equigrad checkpoint of version 1");
  require_same_options(state["options"], options, checkpoint);
  if (text("key_fingerprint") != (secret ? secret->fingerprint() : ""))
    throw ValueError(fmt::format("train: {} was made with {}", checkpoint,
                                 state.contains("key_fingerprint") ? "another secret key (or none is given now)"
                                                                   : "no secret key, but one is given now"));
  step = state["step"].get<std::int64_t>();
  for (std::size_t i = 0; i < variants.size(); ++i) load_variant(variants[i], checkpoint, i + 1 == variants.size());
  loader->seek(epoch_of(step), step % loader->batches_per_epoch());
}

VitTrainer::VitTrainer(const TrainOptions& given) {
  TrainOptions options = given;
  check(options);
  data::ImageDataset train = open(options, data::Split::train);
  const std::int64_t side = options.model.image, channels = options.model.channels;
  data::ImageDataset test = open(options, data::Split::test);
  if (options.model.image != side || options.model.channels != channels || test.classes() != train.classes())
    throw ValueError(fmt::format("train: the training images of '{}' are [{}, {}, {}] in {} classes, the test images "
                                 "[{}, {}, {}] in {}",
                                 options.data, channels, side, side, train.classes(), options.model.channels,
                                 options.model.image, options.model.image, test.classes()));
  nn::check(options.model);
  const std::size_t images = image_bytes(train) + image_bytes(test);
  require_memory(options, images, allocator::limit());
  state_ = std::make_unique<State>(options, std::move(train), std::move(test));
  state_->make_loaders();
  state_->draw_key();
  state_->make_variants();
  if (!options.resume.empty()) state_->resume(options.resume);
}

VitTrainer::~VitTrainer() = default;

TrainRecord VitTrainer::train_step() {
  State& s = *state_;
  const Clock::time_point begin = Clock::now();
  const data::Batch batch = s.loader->next();
  const Tensor rows = s.rows(s.step * s.options.batch, batch.labels.numel(), draw_rows);
  TrainRecord record;
  record.epoch = s.epoch_of(s.step);
  record.lr = s.schedule.at(s.step);
  for (Variant& v : s.variants) record.variants.push_back(s.train(v, batch, rows, record.lr));
  record.step = ++s.step;
  const double seconds = seconds_since(begin);
  s.seconds += seconds;
  record.images_per_s = static_cast<double>(batch.labels.numel()) / seconds;
  if (s.wants_drift())
    for (std::size_t i = 0; i < s.variants.size(); ++i) record.variants[i].drift = drift(i);
  return record;
}

TrainRecord VitTrainer::test(const std::atomic<bool>* stop) {
  State& s = *state_;
  const Clock::time_point begin = Clock::now();
  TrainRecord record{.split = data::Split::test, .step = s.step, .epoch = s.epoch_of(std::max<std::int64_t>(s.step, 1) - 1)};
  record.lr = s.schedule.at(std::max<std::int64_t>(s.step, 1) - 1);
  std::vector<std::int64_t> correct(s.variants.size());
  for (const Variant& v : s.variants) {
    v.model->eval();
    record.variants.push_back({.mode = v.mode});
  }
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
    s.variants[i].model->train();
    record.variants[i].loss /= count;
    record.variants[i].accuracy = static_cast<double>(correct[i]) / count;
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

std::string VitTrainer::save_checkpoint() {
  State& s = *state_;
  if (s.options.out.empty()) throw ValueError("train: a checkpoint needs a run folder: give out");
  CheckpointWriter writer(s.options.out, s.step);
  for (std::size_t i = 0; i < s.variants.size(); ++i) {
    const std::string tail = s.suffix(i) + ".safetensors";
    data::save_safetensors(writer.path("model" + tail), s.variants[i].model->state_dict());
    data::save_safetensors(writer.path("optimizer" + tail), optimizer_tensors(*s.variants[i].optimizer, s.names));
  }
  data::write_file(writer.path("state.json"), std::string_view(s.state_text() + "\n"));
  const std::string folder = writer.commit();
  // The newest two stay, so that a damaged disk block does not cost the run.
  if (s.saved.empty() || s.saved.back() != s.step) s.saved.push_back(s.step);
  while (s.saved.size() > 2) {
    remove_checkpoint(s.options.out, s.saved.front());
    s.saved.erase(s.saved.begin());
  }
  return folder;
}

namespace {

/// What a run leaves behind besides checkpoints.
class RunFolder {
public:
  RunFolder(const TrainOptions& options, std::int64_t step) : folder_(options.out) {
    if (folder_.empty()) return;
    make_folders(folder_);
    data::write_json(data::join_path(folder_, "config.json"), options_json(options));
    metrics_.emplace(data::join_path(folder_, "metrics.jsonl"), options.resume.empty() ? -1 : step);
  }
  void write(const TrainRecord& record) {
    if (metrics_) metrics_->write(record);
  }
  explicit operator bool() const { return !folder_.empty(); }

private:
  static void make_folders(const std::string& path);
  std::string folder_;
  std::optional<MetricsFile> metrics_;
};

} // namespace

TrainResult VitTrainer::run(const TrainCallbacks& callbacks, const std::atomic<bool>* stop) {
  State& s = *state_;
  RunFolder folder(s.options, s.step);
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
                                  path.empty() ? std::string() : "; go on with --resume " + path));
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
  if (s.step > first || s.saved.empty()) checkpoint();
  TrainRecord tested = test(stop);
  leave_if_stopped();
  for (std::size_t i = 0; i < s.variants.size(); ++i) tested.variants[i].drift = drift(i);
  tell(callbacks.test, tested);
  if (folder)
    for (std::size_t i = 0; i < s.variants.size(); ++i)
      data::save_safetensors(data::join_path(s.options.out, "model" + s.suffix(i) + ".safetensors"),
                             s.variants[i].model->state_dict());
  result.steps = s.step;
  result.seconds = s.seconds;
  result.images_per_s =
      s.seconds > 0.0 ? static_cast<double>((s.step - first) * s.options.batch) / s.seconds : 0.0;
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
const data::ImageDataset& VitTrainer::train_data() const { return state_->train; }
const data::ImageDataset& VitTrainer::test_data() const { return state_->test; }

} // namespace eg::permute
