// What is particular to timm's config.json.

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "nn/hub/fields.h"
#include "nn/hub/folder.h"
#include "nn/hub/timm.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <array>
#include <cmath>

namespace eg::hub {
namespace {

using nlohmann::json;

/// timm's constants: IMAGENET_DEFAULT_MEAN, IMAGENET_DEFAULT_STD, DEFAULT_CROP_PCT.
constexpr std::array imagenet_mean{0.485, 0.456, 0.406};
constexpr std::array imagenet_std{0.229, 0.224, 0.225};
constexpr double usual_crop = 0.875;

std::vector<double> numbers(const Fields& fields, const json& object, const char* name,
                            const std::array<double, 3>& otherwise) {
  if (!fields.has(name)) return {otherwise.begin(), otherwise.end()};
  const json& value = object[name];
  std::vector<double> list;
  if (value.is_array())
    for (const json& item : value)
      if (item.is_number() && std::isfinite(item.get<float>())) list.push_back(item.get<double>());
  if (list.empty() || list.size() != value.size()) fields.refuse(name, "must be a list of a number a channel");
  return list;
}

data::PillowFilter filter_of(const Fields& fields) {
  constexpr std::array<std::pair<std::string_view, data::PillowFilter>, 6> filters{
      {{"nearest", data::PillowFilter::nearest},
       {"lanczos", data::PillowFilter::lanczos},
       {"bilinear", data::PillowFilter::bilinear},
       {"bicubic", data::PillowFilter::bicubic},
       {"box", data::PillowFilter::box},
       {"hamming", data::PillowFilter::hamming}}};
  const std::string given = fields.text("interpolation", "bicubic");
  for (const auto& [name, filter] : filters)
    if (name == given) return filter;
  fields.refuse("interpolation",
                fmt::format("is '{}'; supported are nearest, lanczos, bilinear, bicubic, box, hamming", given));
}

int scaled(std::int64_t side, double share) { return static_cast<int>(std::floor(static_cast<double>(side) / share)); }

/// Scaled so that the crop is `crop_pct` of it, then cropped in the middle.
void set_size(data::Preprocessing& steps, const Fields& fields, std::pair<std::int64_t, std::int64_t> size) {
  const double share = fields.real("crop_pct", usual_crop);
  if (!(share > 0.01 && share <= 1.0)) fields.refuse("crop_pct", fmt::format("is {}, not in (0.01, 1]", share));
  const std::string mode = fields.text("crop_mode", "center");
  const data::ImageSize scale{scaled(size.first, share), scaled(size.second, share)};
  steps.crop_size = {static_cast<int>(size.first), static_cast<int>(size.second)};
  steps.center_crop = true;
  steps.crop_to_even = true;
  steps.size = scale;
  if (mode == "squash") return;
  if (mode != "center") fields.refuse("crop_mode", fmt::format("is '{}'; supported are center, squash", mode));
  if (scale.height != scale.width)
    fields.refuse("crop_mode", "is 'center', which is supported for square images alone; these are not");
  steps.shortest_edge = scale.height;
}

/// mlp / dim as timm turns it back: int(dim ratio) is mlp.
double mlp_ratio(std::int64_t mlp, std::int64_t dim) {
  const auto width = static_cast<double>(dim);
  double ratio = static_cast<double>(mlp) / width;
  while (static_cast<std::int64_t>(width * ratio) < mlp) ratio = std::nextafter(ratio, HUGE_VAL);
  return ratio;
}

bool is_of_timm(const nn::VitConfig& c) {
  const nn::BlockConfig& e = c.encoder;
  return c.pooling == nn::Pooling::mean && c.position == nn::PositionEmbedding::learned && e.pre_norm &&
         e.heads * e.width_of_head() == e.dim && e.proj_bias && e.mlp_bias && e.activation == nn::Activation::gelu &&
         !e.gated && e.norm == nn::NormKind::layer && e.norm_eps == 1e-6;
}

} // namespace

bool is_timm(const json& config) {
  const auto there = [&](const char* name) { return config.contains(name) && !config[name].is_null(); };
  return config.is_object() && !there("model_type") && there("architecture");
}

json class_names(const json& config) {
  if (!is_timm(config)) return config.value("id2label", json());
  const json names = config.value("label_names", json()), words = config.value("label_descriptions", json());
  if (!names.is_array()) return {};
  json all = json::object();
  for (std::size_t i = 0; i < names.size(); ++i) {
    const json& name = names[i];
    const bool described = name.is_string() && words.is_object() && words.contains(name.get<std::string>());
    all[std::to_string(i)] = described ? words[name.get<std::string>()] : name;
  }
  return all;
}

std::int64_t image_channels(const json& config) {
  constexpr std::int64_t colours = 3;
  if (!is_timm(config)) return Fields(config, "config").integer("num_channels", colours);
  return Fields(config, "config").object("model_args").integer("in_chans", colours);
}

data::Preprocessing timm_preprocessing(const json& config, const std::string& source) {
  const json own = config.value("pretrained_cfg", json());
  const bool nested = own.is_object();
  const json& object = nested ? own : config; // older files hold these fields at the top
  const Fields fields(object, nested ? source + ": pretrained_cfg" : source);
  data::Preprocessing steps;
  steps.processor = "timm";
  steps.resample = filter_of(fields);
  set_size(steps, fields, timm_image_size(config, source));
  steps.mean = numbers(fields, object, "mean", imagenet_mean);
  steps.deviation = numbers(fields, object, "std", imagenet_std);
  for (const double value : steps.deviation)
    if (static_cast<float>(value) == 0.0F) fields.refuse("std", "holds 0, which divides nothing");
  return steps;
}

std::string preprocessing_file(const std::string& folder) {
  std::string path = join_path(folder, "preprocessor_config.json");
  const bool there = file_exists(path) || !file_exists(join_path(folder, "config.json"));
  return there || !is_timm(read_config(folder)) ? path : join_path(folder, "config.json");
}

data::Preprocessing preprocessing_of(const std::string& folder) {
  const std::string path = preprocessing_file(folder);
  return path.ends_with("/config.json") ? timm_preprocessing(read_config(folder), path)
                                        : data::read_preprocessing(path);
}

std::optional<json> timm_config(const nn::VitConfig& c, const std::vector<std::string>& classes,
                                const std::vector<double>& mean, const std::vector<double>& deviation) {
  if (!is_of_timm(c)) return {};
  const nn::BlockConfig& e = c.encoder;
  const json args = {{"img_size", {c.height(), c.width()}},
                     {"patch_size", c.patch},
                     {"in_chans", c.channels},
                     {"embed_dim", e.dim},
                     {"depth", c.layers},
                     {"num_heads", e.heads},
                     {"mlp_ratio", mlp_ratio(e.mlp, e.dim)},
                     {"qkv_bias", e.qkv_bias},
                     {"class_token", false},
                     {"global_pool", "avg"},
                     {"fc_norm", false}};
  const json pixels = {{"input_size", {c.channels, c.height(), c.width()}},
                       {"fixed_input_size", true},
                       {"interpolation", "bilinear"},
                       {"crop_pct", 1.0},
                       {"crop_mode", "squash"},
                       {"mean", mean},
                       {"std", deviation},
                       {"num_classes", c.classes},
                       {"first_conv", "patch_embed.proj"},
                       {"classifier", "head"}};
  // The name denotes a ViT of timm; every size of it is given besides.
  return json{{"architecture", "vit_tiny_patch16_224"},
              {"num_classes", c.classes},
              {"num_features", e.dim},
              {"global_pool", "avg"},
              {"label_names", classes},
              {"model_args", args},
              {"pretrained_cfg", pixels}};
}

} // namespace eg::hub
