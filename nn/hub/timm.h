#pragma once
// Reads and writes what is particular to config.json of timm: names of classes, pixels, ViTs that pool by the mean.

#include "data/preprocess.h"
#include "nn/vit.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace eg::hub {

/// Whether a config.json is one of timm: an "architecture", and no "model_type".
bool is_timm(const nlohmann::json& config);

/// Names of classes by their numbers as in id2label: {"0": "cat"}. Of timm's configs label_names, in the words of
/// label_descriptions where those have some. Null where there are none.
nlohmann::json class_names(const nlohmann::json& config);

/// Channels that an image model's config asks for.
std::int64_t image_channels(const nlohmann::json& config);

/// Height and width of the images of a timm config; `source` is what errors call it. Throws FileError.
std::pair<std::int64_t, std::int64_t> timm_image_size(const nlohmann::json& config, const std::string& source);

/// What timm's pretrained_cfg does to pixels for inference (create_transform of resolve_data_config): input_size,
/// interpolation, crop_pct, crop_mode center or squash, mean, std, with timm's defaults for those that it does not
/// hold. Throws FileError that names the field for other values.
data::Preprocessing timm_preprocessing(const nlohmann::json& config, const std::string& source);

/// A folder's preprocessor_config.json, or where a timm model has none, its pretrained_cfg. Throws FileError.
data::Preprocessing preprocessing_of(const std::string& folder);
/// The file that preprocessing_of reads.
std::string preprocessing_file(const std::string& folder);

/// timm's config.json of a ViT with mean pooling (no class token, global_pool avg, the norm before it); none where timm
/// has no such model: positions that are not learned, post-norm blocks, another activation than gelu, an epsilon other
/// than 1e-6, heads that do not share dim evenly. Pixels: less `mean`, by `deviation`.
std::optional<nlohmann::json> timm_config(const nn::VitConfig& model, const std::vector<std::string>& classes,
                                          const std::vector<double>& mean, const std::vector<double>& deviation);

} // namespace eg::hub
