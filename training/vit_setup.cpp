// What happens before the first step: data, memory, keys, models.

#include "core/base/words.h"
#include "core/device/device.h"
#include "core/memory/allocator.h"
#include "training/run.h"
#include "training/vit_task.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace eg::training {

using permute::PermuteMode;
namespace {

data::ImageDataset open_split(const VitOptions& o, data::Split split, Run& run, StopFlag stop) {
  data::DatasetOptions options;
  std::vector<std::string> skipped;
  options.bad_images = o.bad_images;
  options.skipped = &skipped;
  options.limit = split == data::Split::train ? o.train_limit : o.test_limit;
  options.size = o.size;
  options.seed = o.seed;
  options.stop = stop;
  data::ImageDataset set = data::open_dataset(o.data, o.data_dir, split, options);
  for (const std::string& what : skipped) run.note(what + "; the image is skipped");
  if (!skipped.empty())
    run.note(fmt::format("{}: {} skipped among those to {}, {} are left", o.data, count_of(skipped.size(), "image"),
                         split == data::Split::train ? "train" : "test", set.size()));
  return set;
}

/// What the model takes from its images.
void infer_input_size(VitOptions& o, const data::ImageDataset& set) {
  if (set.height() != set.width())
    throw ValueError(fmt::format("train: the images of '{}' are {} x {}; a ViT here takes square ones (give size)",
                                 o.data, set.height(), set.width()));
  o.model.image = set.height();
  o.model.channels = set.channels();
  o.model.classes = set.classes();
}

/// Throws ValueError when test images have other extents than training images.
void require_same_extents(const data::ImageDataset& train, const data::ImageDataset& test, const std::string& name) {
  if (train.channels() != test.channels() || train.height() != test.height() || train.width() != test.width())
    throw ValueError(fmt::format("train: the training images of '{}' are [{}, {}, {}], the test images [{}, {}, {}]",
                                 name, train.channels(), train.height(), train.width(), test.channels(), test.height(),
                                 test.width()));
}

/// Labels are places in the class list, so both splits must have the same one.
void require_same_classes(const data::ImageDataset& train, const data::ImageDataset& test, const std::string& name) {
  const std::vector<std::string>&a = train.class_names(), &b = test.class_names();
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    const std::string in_train = i < a.size() ? fmt::format("'{}'", a[i]) : "missing";
    const std::string in_test = i < b.size() ? fmt::format("'{}'", b[i]) : "missing";
    if (in_train != in_test)
      throw ValueError(fmt::format("train: training and test images of '{}' have different classes: class {} is {} for "
                                   "training and {} for testing",
                                   name, i, in_train, in_test));
  }
}

/// Throws ValueError when test images are others than training images, or there is nothing to tell apart.
void require_fit(const data::ImageDataset& train, const data::ImageDataset& test, const std::string& name) {
  require_same_extents(train, test, name);
  require_same_classes(train, test, name);
  if (!train.has_attributes() && train.classes() < 2)
    throw ValueError(fmt::format("train: all images of '{}' are of the class '{}'; there must be two classes: a folder "
                                 "for each",
                                 name, train.class_names().front()));
}

std::size_t image_bytes(const data::ImageDataset& set) {
  return static_cast<std::size_t>(set.size() * set.image_bytes());
}

} // namespace

nlohmann::ordered_json VitTask::options_json() const { return training::options_json(*o_); }
std::vector<OptionInfo> VitTask::option_infos() const { return option_table(*o_).infos(*o_); }
nlohmann::ordered_json VitTask::default_options() const {
  return training::options_json(o_->model.distillation ? deit_defaults() : VitOptions());
}

std::string VitTask::summary() const {
  return fmt::format("{}: {} training and {} test images; {} with {} parameters", material_.train.name(),
                     material_.train.size(), material_.test.size(), o_->model.distillation ? "DeiT" : "ViT",
                     vit(0).parameter_count());
}

std::string VitTask::step_words() const { return fmt::format(" of {} images", o_->batch); }

std::string VitTask::name_in_errors(const Variant& variant) const {
  return fmt::format(" (variant {})", name_of(variant.mode));
}

data::Normalization VitTask::pixels() const {
  return material_.start && material_.start->normalization ? *material_.start->normalization
                                                           : data::Normalization::standard(material_.train);
}

void VitTask::open_loaders() {
  data::LoaderOptions l;
  l.batch_size = o_->batch;
  l.drop_last = true;
  l.seed = o_->seed;
  l.workers = static_cast<int>(o_->workers);
  l.dtype = o_->dtype;
  l.normalization = pixels();
  l.augmentation = augmentation_of(*o_, material_.train.height(), material_.train.channels());
  l.first = part_begin_;
  l.last = part_end_;
  loader_.emplace(material_.train, l);
  l.first = l.last = 0;
  l.drop_last = false;
  l.shuffle = false;
  l.augmentation = {};
  l.workers = 0;
  test_loader_.emplace(material_.test, l);
}

PermutedEncoder VitTask::encoder_of(const VitOptions& o, const SplitTraining& split) {
  return PermutedEncoder(
      o, {.form = o.key_form, .key = o.key, .draws = {.model = "vit", .columns = 2, .rows = 3, .test_rows = 5}}, split);
}

namespace {

/// The images that a model is to take.
ImageKind kind_of(const data::ImageDataset& images) {
  return {.side = images.height(), .channels = images.channels(), .classes = images.class_names()};
}

} // namespace

VitTask::VitTask(std::unique_ptr<const VitOptions> options, Material material, const SplitTraining& split)
    : ModelTask(*options, encoder_of(*options, split), options->drift_every), o_(std::move(options)),
      material_(std::move(material)) {
  if (!o_->teacher.empty())
    teacher_ = std::make_unique<Teacher>(o_->teacher, kind_of(material_.train), pixels(), o_->dtype);
  const data::Normalization p = pixels();
  data_fingerprint_ = {.train = material_.train.fingerprint(),
                       .test = material_.test.fingerprint(),
                       .pixels = fmt::format("mean {}, deviation {}", fmt::join(p.mean, " "), fmt::join(p.stddev, " ")),
                       .teacher = teacher_ ? teacher_->fingerprint() : ""};
  open_loaders();
  make_variants();
}

/// Weights of the model that the run begins from, moved by the key where the variant permutes columns and they do not
/// carry it yet.
void VitTask::begin_from_start(nn::Vit& model, PermuteMode mode) const {
  model.load_state_dict(material_.start->vit().state_dict());
  const bool moved = o_->from_permuted;
  if (permute::permutes_columns(mode) && !moved) encoder_.couple(model);
  if (!permute::permutes_columns(mode) && moved) encoder_.uncouple(model);
}

std::shared_ptr<nn::Vit> VitTask::made_model(PermuteMode mode) const {
  // The same initial weights for all, moved by the key where columns are permuted: coupled initialisations.
  auto model = std::make_shared<nn::Vit>(o_->model, key_of(*o_, draw_weights));
  model->to(o_->dtype);
  if (material_.start)
    begin_from_start(*model, mode);
  else if (permute::permutes_columns(mode))
    encoder_.couple(*model);
  return model;
}

void VitTask::make_variants() {
  const std::vector<PermuteMode> modes = o_->variants.empty() ? modes_of(o_->permute, o_->twin) : o_->variants;
  if (std::any_of(modes.begin(), modes.end(), permute::permutes_rows) && o_->model.tokens() < 2)
    throw ValueError("train: one token cannot be permuted; use a smaller patch or no row permutation");
  if (std::any_of(modes.begin(), modes.end(), permute::permutes_columns))
    encoder_.draw_columns(o_->model.encoder, o_->model.layers);
  std::span<const hub::Binding> bindings;
  if (material_.start) bindings = material_.start->model->bindings();
  for (const PermuteMode mode : modes) {
    std::shared_ptr<nn::Vit> model = made_model(mode);
    std::vector<std::string> learning = trained_parameters(*model, bindings, o_->start);
    learning = encoder_.trainable_here(std::move(learning), *model);
    if (encoder_.elsewhere()) model = without_blocks(*model);
    add_variant(mode, std::move(model), std::move(learning));
  }
}

VitTrainer::Parts VitTrainer::parts_of(VitOptions options, StopFlag stop, const SplitTraining& split,
                                       distributed::Communicator* processes) {
  check(options);
  if (split.encoder) check_split(options, split);
  auto run = std::make_unique<Run>(options, processes);
  data::ImageDataset train = open_split(options, data::Split::train, *run, stop);
  infer_input_size(options, train); // before the test images are read
  data::ImageDataset test = open_split(options, data::Split::test, *run, stop);
  return parts_of(std::move(options), std::move(run), std::move(train), std::move(test), split);
}

VitTrainer::Parts VitTrainer::parts_of(VitOptions options, std::unique_ptr<Run> run, data::ImageDataset train,
                                       data::ImageDataset test, const SplitTraining& split) {
  if (!run) {
    check(options);
    if (split.encoder) check_split(options, split);
    run = std::make_unique<Run>(options);
  }
  const ReductionScope sums(reduction_of(options));
  infer_input_size(options, train);
  require_fit(train, test, options.data);
  std::optional<VisionStart> start;
  if (options.start.begins()) {
    const double dropout = options.model.encoder.dropout;
    const bool checkpoint = options.model.encoder.checkpoint;
    const RandomKey key = ModelTask::key_of(options, ModelTask::draw_weights);
    start = open_vision_start(options.start, options.family(), kind_of(train), dropout, options.dtype, key);
    options.model = start->vit().config;
    options.model.encoder.checkpoint = checkpoint;
  }
  nn::check(options.model);
  VitOptions here = options;
  if (split.encoder) here.model.layers = 0;
  const Device device = device::usable(options.device);
  const int processes = run->processes().size();
  if (device.is_cpu())
    require_memory(here, image_bytes(train) + image_bytes(test), allocator::limit(), processes);
  else // which the images do not share
    require_memory(here, 0, device::memory_limit(device), processes);
  auto task = std::make_unique<VitTask>(std::make_unique<const VitOptions>(options),
                                        VitTask::Material{std::move(train), std::move(test), std::move(start)}, split);
  if (task->folder_config().is_null())
    run->note("the run will leave no model folder (model/): neither transformers nor timm has such a ViT; its "
              "weights will be in model.safetensors");
  return {std::move(run), std::move(task)};
}

} // namespace eg::training
