// TrainOptions: checks, and to and from JSON.

#include "core/base/bytes.h"
#include "training/checkpoint_state.h"
#include "training/option_fields.h"
#include "training/run.h"
#include "training/vit_task.h"

#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace eg::permute {

data::Augmentation augmentation_of(const TrainOptions& o, std::int64_t side, std::int64_t channels) {
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

/// The one list that reading and writing share: see training/option_fields.h.
template <class Visit> void each_option(TrainOptions& o, Visit&& visit) {
  nn::BlockConfig& e = o.model.encoder;
  visit("data", o.data);
  visit("data_dir", o.data_dir);
  visit("train_limit", o.train_limit);
  visit("test_limit", o.test_limit);
  visit("size", o.size);
  visit.word("bad_images", data::name_of(o.bad_images),
             [&](const std::string& word) { o.bad_images = data::bad_images_named(word); });
  visit("patch", o.model.patch);
  visit("dim", e.dim);
  visit("layers", o.model.layers);
  visit("heads", e.heads);
  visit("head_dim", e.head_dim);
  visit("mlp", e.mlp);
  visit("pre_norm", e.pre_norm);
  visit("dropout", e.dropout);
  visit("norm_eps", e.norm_eps);
  visit("checkpoint_blocks", e.checkpoint);
  visit.word("activation", nn::name_of(e.activation),
             [&](const std::string& word) { e.activation = nn::activation_named(word); });
  visit.word("pooling", nn::name_of(o.model.pooling),
             [&](const std::string& word) { o.model.pooling = nn::pooling_named(word); });
  visit.word("position", nn::name_of(o.model.position),
             [&](const std::string& word) { o.model.position = nn::position_embedding_named(word); });
  visit("workers", o.workers);
  visit("augment", o.augment);
  visit("crop_area", o.crop_area);
  visit("randaugment", o.randaugment);
  visit("randaugment_ops", o.randaugment_ops);
  visit("erasing", o.erasing);
  visit("mixup", o.mixup);
  visit("cutmix", o.cutmix);
  visit.word("permute", name_of(o.permute), [&](const std::string& word) { o.permute = train_mode_named(word); });
  visit.word("key_form", name_of(o.key_form), [&](const std::string& word) { o.key_form = key_form_named(word); });
  visit("key", o.key);
  visit("twin", o.twin);
  std::vector<std::string> modes;
  for (const TrainMode mode : o.variants) modes.emplace_back(name_of(mode));
  visit.words("variants", modes, [&](const std::vector<std::string>& words) {
    o.variants.clear();
    for (const std::string& word : words) o.variants.push_back(train_mode_named(word));
  });
  visit("drift_every", o.drift_every);
  training::each_fine_tuning_option(o.start, visit);
  visit("from_permuted", o.from_permuted);
  if (o.model.distillation) visit("teacher", o.teacher);
  training::each_run_option(o, visit);
}

void check_variants(const TrainOptions& o) {
  using training::need;
  for (std::size_t i = 0; i < o.variants.size(); ++i)
    need(std::count(o.variants.begin(), o.variants.end(), o.variants[i]) == 1, "variants",
         fmt::format("holds '{}' twice", name_of(o.variants[i])));
  training::check_twins(o, o.twin, o.twin || o.variants.size() > 1, o.permute != TrainMode::none,
                        o.model.encoder.dropout);
  const auto used = [&](bool (*permutes)(TrainMode)) {
    return permutes(o.permute) || std::any_of(o.variants.begin(), o.variants.end(), permutes);
  };
  const bool any = used([](TrainMode m) { return m != TrainMode::none; });
  need(!o.from_permuted || used(permutes_columns), "from_permuted", "is given, but no columns are permuted");
  need(o.key.empty() || any, "key", "is given, but nothing is permuted");
}

} // namespace

void check(const TrainOptions& options) {
  check_run_options(options);
  training::need_not_negative("drift_every", options.drift_every);
  training::need_not_negative("train_limit", options.train_limit);
  training::need_not_negative("test_limit", options.test_limit);
  for (const auto& [name, alpha] : {std::pair{"mixup", options.mixup}, {"cutmix", options.cutmix}})
    training::need(alpha >= 0.0 && alpha <= 1000.0, name, fmt::format("must be in [0, 1000], not {}", alpha));
  training::need(options.randaugment_ops >= 1 && options.randaugment_ops <= data::augment_ops, "randaugment_ops",
                 fmt::format("must be from 1 to {}, not {}", data::augment_ops, options.randaugment_ops));
  check(augmentation_of(options, 1, 1), 1, 1, "train");
  training::need_not_negative("workers", options.workers);
  training::need_at_most("workers", options.workers, 256);
  check_variants(options);
  check(options.start, options.out);
  training::need(!options.from_permuted || options.start.begins(), "from_permuted", "needs a model: give from");
}

TrainOptions deit_defaults() {
  TrainOptions o;
  o.model.distillation = true;
  return o;
}

nlohmann::ordered_json options_json(const TrainOptions& options) {
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  if (options.family() != "vit") out["model"] = options.family(); // runs of `train vit` have never said so
  TrainOptions copy = options;
  each_option(copy, training::OptionWriter{out});
  return out;
}

void apply_options(TrainOptions& options, const nlohmann::json& json, const std::string& source) {
  TrainOptions changed = options;
  training::OptionReader reader(json, source);
  each_option(changed, reader);
  reader.require_model(options.family());
  reader.require_all_known();
  options = changed;
}

TrainOptions options_of_run(const std::string& folder, const TrainOptions& defaults) {
  return training::options_to_resume(folder, defaults.family(), defaults);
}

bool unfinished_run(const TrainOptions& options) {
  return !file_exists(join_path(options.out, "model.safetensors")) &&
         training::holds_run_with(options.out, options_json(options),
                                  [&] { return options_json(options_of_run(options.out)); });
}

} // namespace eg::permute
