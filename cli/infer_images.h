#pragma once
// Pictures for `equigrad infer`: files to pixel_values, and logits to names of classes.

#include "hub/model.h"

#include <string>
#include <vector>

namespace eg::cli {

/// pixel_values [files, C, H, W] of image files, by the folder's preprocessor_config.json. Throws FileError that names
/// the file, or the one whose result has another size than the first.
Tensor pixel_values(const std::string& folder, const std::vector<std::string>& files, DType dtype);

/// For each image a line with its likeliest classes, by the config's id2label: "cat.png: tabby 81.2 %, tiger cat 9.1
/// %". logits [images, classes].
std::string classes_in_words(const hub::Model& model, const Tensor& logits, const std::vector<std::string>& files);

} // namespace eg::cli
