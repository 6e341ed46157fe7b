// VitOptions: checks, and to and from JSON.

#include "core/base/bytes.h"
#include "training/checkpoint_state.h"
#include "training/permute_options.h"
#include "training/run.h"
#include "training/vit_task.h"

#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace eg::training {

using permute::PermuteMode;
data::Augmentation augmentation_of(const VitOptions& o, std::int64_t side, std::int64_t channels) {
  data::Augmentation a{.crop_area = o.crop_area,
                       .randaugment = o.randaugment,
                       .randaugment_ops = static_cast<int>(o.randaugment_ops),
                       .erasing = o.erasing};
  if (!o.augment) return a;
  if (o.crop_area == 0.0) a.crop_padding = std::max<std::int64_t>(side / 8, 1);
  a.horizontal_flip = channels == 3;
  return a;
}

namespace {

bool has_images_of_one_size(const std::string& data) {
  for (const char* name :
       {"cifar10", "cifar10-jpeg", "cifar10-records", "cifar100", "cifar100-coarse", "mnist", "fashion-mnist"})
    if (data == name) return true;
  return false;
}

std::string why_no_folder(const VitOptions& o) {
  if (data::is_generated(o.data)) return fmt::format("{} are generated", o.data);
  return unless(has_images_of_one_size(o.data) || o.data == "celeba", "--data names the folder {}", o.data);
}

std::string sizes_of_start(const VitOptions& o) {
  return unless(!o.start.begins(), "the model of {} has its own", o.start.from);
}

std::string listed(const VitOptions& o) {
  return unless(o.variants.empty(), "the options of the run list its variants");
}

bool several(const VitOptions& o) { return o.twin || o.variants.size() > 1; }

bool any_variant(const VitOptions& o, bool (*permutes)(PermuteMode)) {
  return std::any_of(o.variants.begin(), o.variants.end(), permutes);
}

bool permutes_at_all(PermuteMode mode) { return mode != PermuteMode::none; }

void add_data(OptionTable<VitOptions>& t) {
  using T = VitOptions;
  t.add("data", &T::data,
        "cifar10, cifar10-jpeg, cifar10-records, cifar100, cifar100-coarse, celeba, mnist, fashion-mnist, shapes, "
        "digits, faces, or a folder of class folders")
      .names(OptionPath::data, OnResume::free);
  t.add("data_dir", &T::data_dir, "Folder with the datasets (default: EQUIGRAD_DATA)")
      .idle(why_no_folder)
      .names(OptionPath::data_folder, OnResume::beside);
  t.add("train_limit", &T::train_limit, "At most that many training images (0: all)").must(not_negative);
  t.add("test_limit", &T::test_limit, "At most that many test images (0: all)").must(not_negative);
  t.add("size", &T::size,
        "Side to which images of a folder or of CelebA are resized, or side of generated ones (0: as they are)")
      .idle([](const T& o) {
        return unless(!has_images_of_one_size(o.data),
                      "the images of {} have a size of their own; it is for image folders and generated images",
                      o.data);
      });
  t.word("bad_images", &T::bad_images, data::bad_images_named,
         "Image files of a folder that do not decode: refuse or skip")
      .idle([](const T& o) {
        return unless(!has_images_of_one_size(o.data) && !data::is_generated(o.data), "it is for image folders");
      })
      .resumes(OnResume::free);
}

void add_model(OptionTable<VitOptions>& t) {
  using V = nn::VitConfig;
  using B = nn::BlockConfig;
  const auto of_model = [](auto field) { return member(&VitOptions::model, field); };
  const auto of_block = [](auto field) { return member(&VitOptions::model, &V::encoder, field); };
  t.add("patch", of_model(&V::patch), "Side of a patch in pixels").idle(sizes_of_start);
  t.add("dim", of_block(&B::dim), "Width of the encoder").idle(sizes_of_start);
  t.add("layers", of_model(&V::layers), "Encoder blocks").idle(sizes_of_start);
  t.add("heads", of_block(&B::heads), "Attention heads").idle(sizes_of_start);
  t.add("head_dim", of_block(&B::head_dim), "Width of a head (0: dim / heads)").idle(sizes_of_start);
  t.add("mlp", of_block(&B::mlp), "Width of the MLP's hidden layer").idle(sizes_of_start);
  t.add("pre_norm", of_block(&B::pre_norm), "true: x + f(LN x); false: LN(x + f(x))").idle(sizes_of_start);
  t.add("dropout", of_block(&B::dropout), "Probability on both residual branches").must([](const VitOptions& o) {
    return dropout_of_twins(several(o), o.model.encoder.dropout);
  });
  t.add("norm_eps", of_block(&B::norm_eps), "Epsilon of LayerNorm").idle(sizes_of_start);
  t.add("checkpoint_blocks", of_block(&B::checkpoint),
        "Keep each block's input alone and compute the rest again for the gradient: less memory, the same bits, about "
        "a third more time")
      .split(false, "is for blocks that are computed here");
  t.word("activation", of_block(&B::activation), nn::activation_named, "gelu, gelu_tanh, relu, silu or tanh")
      .idle(sizes_of_start);
  t.word("pooling", of_model(&V::pooling), nn::pooling_named, "cls or mean").idle(sizes_of_start);
  t.word("position", of_model(&V::position), nn::position_embedding_named,
         "Position embedding: learned, sinusoidal or none")
      .idle(sizes_of_start);
}

void add_batches(OptionTable<VitOptions>& t) {
  using T = VitOptions;
  t.add("workers", &T::workers, "Threads that make batches ahead (0: none); no bit depends on it")
      .must(not_negative, at_most(256))
      .resumes(OnResume::beside);
  t.add("augment", &T::augment, "Random crops, and flips of colour images");
  t.add("crop_area", &T::crop_area,
        "Crop training images at random to this share of their area or more, and resize them (0: none)");
  t.add("randaugment", &T::randaugment,
        "RandAugment: strength from 0 (none) to 30 of the random changes to each training image; 9, say");
  t.add("randaugment_ops", &T::randaugment_ops, "How many changes RandAugment makes to an image")
      .must(from_to(1, data::augment_ops))
      .idle([](const T& o) { return unless(o.randaugment != 0.0, "there is no RandAugment (--randaugment)"); });
  t.add("erasing", &T::erasing, "Probability that a random rectangle of a training image becomes noise");
  t.add("mixup", &T::mixup,
        "Blend training images in pairs, labels too: alpha of the Beta distribution; 0.2, say (0: none)")
      .must(within(0, 1000));
  t.add("cutmix", &T::cutmix,
        "Paste rectangles of other training images, labels in shares: alpha; 1, say (0: none); with --mixup each step "
        "takes one of the two")
      .must(within(0, 1000));
}

void add_permutations(OptionTable<VitOptions>& t) {
  using T = VitOptions;
  t.word("permute", &T::permute, permute::permute_mode_named, "none, rows, columns or both").idle(listed);
  add_key_form<T>(
      t,
      [](const T& o) {
        return o.variants.empty() ? permute::permutes_columns(o.permute) : any_variant(o, permute::permutes_columns);
      },
      "columns or both");
  add_key<T>(
      t, [](const T& o) { return permutes_at_all(o) || any_variant(o, permutes_at_all); },
      "Secret key file (equigrad keygen --out KEY) that P_R and P_C are drawn from (default: from the seed, not "
      "secret)");
  add_twin(t).idle(listed).split_if([](const T& o) { return !several(o); },
                                    "needs both models in one process; compare with a run of `train`");
  t.words("variants", &T::variants, permute::permute_mode_named, "")
      .must([](const T& o) {
        for (const PermuteMode mode : o.variants)
          if (std::count(o.variants.begin(), o.variants.end(), mode) > 1)
            return fmt::format("holds '{}' twice", name_of(mode));
        return std::string();
      })
      .no_flag();
  add_drift<T>(t, several);
}

void add_start(OptionTable<VitOptions>& t) {
  using T = VitOptions;
  t.append(option_table(FineTuning()), &T::start);
  t.add("from_permuted", &T::from_permuted,
        "The encoder of --from carries the key already: nothing is moved before the first step")
      .must([](const T& o) {
        return unless(!o.from_permuted || permute::permutes_columns(o.permute) ||
                          any_variant(o, permute::permutes_columns),
                      "is given, but no columns are permuted");
      })
      .must([](const T& o) { return unless(!o.from_permuted || o.start.begins(), "needs a model: give from"); });
  t.add("teacher", &T::teacher, "Model folder or run whose classes the distillation token learns (default: the labels)")
      .exists_if([](const T& o) { return o.model.distillation; })
      .names(OptionPath::input, OnResume::same_content);
}

} // namespace

const OptionTable<VitOptions>& option_table(const VitOptions&) {
  static const OptionTable<VitOptions> table = [] {
    OptionTable<VitOptions> t;
    add_data(t);
    add_model(t);
    add_batches(t);
    add_permutations(t);
    add_start(t);
    t.append(run_options({}));
    return t;
  }();
  return table;
}

void check(const VitOptions& o) {
  check_run_options(o);
  option_table(o).check(o);
  check(augmentation_of(o, 1, 1), 1, 1, "train");
  check_twins(o, several(o));
  check(o.start, o.out);
}

VitOptions deit_defaults() {
  VitOptions o;
  o.model.distillation = true;
  return o;
}

nlohmann::ordered_json options_json(const VitOptions& options) {
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  if (options.family() != "vit") out["model"] = options.family(); // runs of `train vit` have never said so
  return option_table(options).write(options, out);
}

void apply_options(VitOptions& options, const nlohmann::json& json, const std::string& source) {
  VitOptions changed = options;
  OptionReader reader(json, source);
  option_table(changed).read(changed, reader);
  reader.require_model(options.family());
  reader.require_all_known();
  options = changed;
}

VitOptions options_of_run(const std::string& folder, const VitOptions& defaults) {
  return options_to_resume(folder, defaults.family(), defaults);
}

bool unfinished_run(const VitOptions& options) {
  return !file_exists(join_path(options.out, "model.safetensors")) &&
         holds_run_with(options.out, options_json(options), option_table(options).infos(options),
                        [&] { return options_json(options_of_run(options.out)); });
}

} // namespace eg::training
