// What happens before the first step: data, memory, keys, models.

#include "core/base/words.h"
#include "core/memory/allocator.h"
#include "training/parameter_groups.h"
#include "training/split_blocks.h"
#include "training/vit_state.h"

namespace eg::permute {
namespace {

std::vector<TrainMode> modes_of(const TrainOptions& o) {
  if (!o.variants.empty()) return o.variants;
  if (o.twin) return {TrainMode::none, o.permute};
  return {o.permute};
}

data::ImageDataset open_split(const TrainOptions& o, data::Split split, training::Run& run,
                              const std::atomic<bool>* stop) {
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
void fit_model(TrainOptions& o, const data::ImageDataset& set) {
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

std::size_t image_bytes(const data::ImageDataset& set) {
  return static_cast<std::size_t>(set.size() * set.image_bytes());
}

} // namespace

void VitTrainer::State::print_sources() {
  const data::Normalization p = pixels();
  source_print = {.train = train_images.fingerprint(),
                  .test = test_images.fingerprint(),
                  .pixels = fmt::format("mean {}, deviation {}", fmt::join(p.mean, " "), fmt::join(p.stddev, " ")),
                  .teacher = teacher ? teacher->fingerprint() : ""};
}

void VitTrainer::State::make_loaders() {
  data::LoaderOptions l;
  l.batch_size = options.batch;
  l.drop_last = true;
  l.seed = options.seed;
  l.workers = static_cast<int>(options.workers);
  l.dtype = options.dtype;
  l.normalization = pixels();
  l.augmentation = augmentation_of(options, train_images.height(), train_images.channels());
  loader.emplace(train_images, l);
  l.drop_last = false;
  l.shuffle = false;
  l.augmentation = {};
  l.workers = 0;
  test_loader.emplace(test_images, l);
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

data::Normalization VitTrainer::State::pixels() const {
  return start && start->normalization ? *start->normalization : data::Normalization::standard(train_images);
}

/// Weights of the model that the run begins from, moved by the key where the variant permutes columns and they do not
/// carry it yet.
void VitTrainer::State::begin_from_start(nn::Vit& model, TrainMode mode) const {
  model.load_state_dict(start->vit().state_dict());
  const bool moved = options.from_permuted;
  if (permutes_columns(mode) && !moved) transform_module(model, axes, columns);
  if (!permutes_columns(mode) && moved) transform_module(model, axes, inverse(columns));
}

void VitTrainer::State::make_variants() {
  std::span<const hub::Binding> bindings;
  if (start) bindings = start->model->bindings();
  for (const TrainMode mode : modes_of(options)) {
    Variant v{.mode = mode};
    // The same initial weights for all, moved by the key where columns are permuted: coupled initialisations.
    v.model = std::make_unique<nn::Vit>(options.model, root.fold(draw_weights));
    v.model->to(options.dtype);
    if (start)
      begin_from_start(*v.model, mode);
    else if (permutes_columns(mode))
      transform_module(*v.model, axes, columns);
    names = training::trained_parameters(*v.model, bindings, options.start);
    if (split.encoder) {
      names = learning_beside_blocks(std::move(names), *v.model);
      take_blocks_out(v);
    }
    v.parameters = nn::parameters_named(*v.model, names);
    v.optimizer = training::optimizer_for(options, *v.model, names);
    if (options.ema > 0.0) v.average.emplace(v.model->parameters(), options.ema);
    v.model->eval();
    variants.push_back(std::move(v));
  }
}

VitTrainer::VitTrainer(const TrainOptions& given, const std::atomic<bool>* stop, const SplitTraining& split) {
  TrainOptions options = given;
  check(options);
  if (split.encoder) check_split(options, split);
  auto run = std::make_unique<training::Run>(options);
  data::ImageDataset train = open_split(options, data::Split::train, *run, stop);
  fit_model(options, train); // before the test images are read
  data::ImageDataset test = open_split(options, data::Split::test, *run, stop);
  begin(options, std::move(run), std::move(train), std::move(test), split);
}

VitTrainer::VitTrainer(const TrainOptions& given, data::ImageDataset train, data::ImageDataset test,
                       const SplitTraining& split) {
  TrainOptions options = given;
  check(options);
  if (split.encoder) check_split(options, split);
  auto run = std::make_unique<training::Run>(options);
  begin(options, std::move(run), std::move(train), std::move(test), split);
}

void VitTrainer::begin(const TrainOptions& given, std::unique_ptr<training::Run> run, data::ImageDataset train,
                       data::ImageDataset test, const SplitTraining& split) {
  TrainOptions options = given;
  fit_model(options, train);
  require_same_extents(train, test, options.data);
  require_same_classes(train, test, options.data);
  if (!train.has_attributes() && train.classes() < 2)
    throw ValueError(fmt::format("train: all images of '{}' are of the class '{}'; there must be two classes: a folder "
                                 "for each",
                                 options.data, train.class_names().front()));
  const ImageKind kind{.side = train.height(), .channels = train.channels(), .classes = train.class_names()};
  std::optional<VisionStart> start;
  if (options.start.begins()) {
    const double dropout = options.model.encoder.dropout;
    const bool checkpoint = options.model.encoder.checkpoint;
    const RandomKey key = RandomKey{options.seed, 0}.fold(draw_weights);
    start = open_vision_start(options.start, options.family(), kind, dropout, options.dtype, key);
    options.model = start->vit().config;
    options.model.encoder.checkpoint = checkpoint;
  }
  nn::check(options.model);
  const std::size_t images = image_bytes(train) + image_bytes(test);
  TrainOptions here = options;
  if (split.encoder) here.model.layers = 0;
  require_memory(here, images, allocator::limit());
  state_ = std::make_unique<State>(options, std::move(run), std::move(train), std::move(test));
  state_->start = std::move(start);
  state_->split = split;
  if (!options.teacher.empty())
    state_->teacher = std::make_unique<Teacher>(options.teacher, kind, state_->pixels(), options.dtype);
  state_->print_sources();
  state_->make_loaders();
  state_->draw_key();
  state_->make_variants();
  if (!state_->folder_config())
    state_->run->note("the run will leave no model folder (model/): neither transformers nor timm has such a ViT; its "
                      "weights will be in model.safetensors");
  state_->run->begin(*state_);
  if (split.encoder && options.resume.empty()) split.encoder->begin(state_->recipe(), state_->split_start);
  state_->split_start.clear();
}

} // namespace eg::permute
