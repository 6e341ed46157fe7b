#include "apps/cli/shell/available_data.h"

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "data/dataset.h"
#include "data/labelled_texts.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace eg::cli {
namespace {

// As data::open_dataset has them.
constexpr std::array<std::string_view, 10> image_sets = {
    "celeba",          "cifar10", "cifar10-jpeg",  "cifar10-records", "cifar100",
    "cifar100-coarse", "faces",   "fashion-mnist", "mnist",           "shapes"};

} // namespace

std::string available_data(const std::string& data_dir) {
  if (!data_dir.empty() && !folder_exists(data_dir)) throw FileError(data_dir + ": no such folder (--data-dir)");
  const std::string folder = join_path(data_dir.empty() ? data::default_data_dir() : data_dir, "cifar10");
  return folder_exists(folder) ? "cifar10" : "shapes";
}

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
