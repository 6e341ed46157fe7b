#pragma once
// Converts image files to pixel_values and logits to class names, for `equigrad infer`.

#include "nn/hub/model.h"

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>
#include <vector>

namespace eg::cli {

/// pixel_values [files, C, H, W] of image files, by the folder's preprocessor_config.json, or timm's pretrained_cfg;
/// with a `size` (height and width) resized to it and not cropped, whatever size is asked for there. Throws FileError
/// that names the file, or the one whose result has another size than the first.
Tensor pixel_values(const std::string& folder, const std::vector<std::string>& files, DType dtype,
                    const std::optional<std::pair<std::int64_t, std::int64_t>>& size);

/// The likeliest classes of an image.
struct Classified {
  struct Class {
    std::int64_t id;
    std::string label; ///< by the config's id2label, else "class 3"
    double p;
  };
  std::string file;
  std::vector<Class> classes; ///< at most five, likeliest first
};
/// By softmax of logits [images, classes]. Throws ValueError that names the image whose logits hold NaN.
std::vector<Classified> classified(const hub::Model& model, const Tensor& logits,
                                   const std::vector<std::string>& files);

/// A line for each image: "cat.png: tabby 81.2 %, tiger cat 9.1 %".
std::string in_words(const std::vector<Classified>& images);
/// [{"file", "classes": [{"id", "label", "p"}]}]
nlohmann::json as_json(const std::vector<Classified>& images);

} // namespace eg::cli
