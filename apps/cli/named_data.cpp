#include "apps/cli/named_data.h"

#include "data/text/labelled_texts.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace eg::cli {
namespace {

// As data::open_dataset has them.
constexpr std::array<std::string_view, 11> image_sets = {
    "celeba", "cifar10", "cifar10-jpeg",  "cifar10-records", "cifar100", "cifar100-coarse",
    "digits", "faces",   "fashion-mnist", "mnist",           "shapes"};

} // namespace

bool names_data_set(const std::string& model, const std::string& data) {
  if (model == "vit" || model == "deit")
    return std::find(image_sets.begin(), image_sets.end(), data) != image_sets.end();
  if (model == "difm") return data == "criteo";
  return data == "tinyshakespeare" || (model == "bert" && data::is_text_set(data));
}

std::string data_path(const std::string& model, const std::string& data) {
  return names_data_set(model, data) ? std::string() : data;
}

} // namespace eg::cli
