#include "cli/model_files.h"

#include "cli/verb.h"

#include "data/bytes.h"
#include "data/tensor_reader.h"
#include "hub/llama2c.h"
#include "permute/blocks_mark.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string_view>

namespace eg::cli {
namespace {

std::string folder_of(const std::string& file) {
  const std::string folder = std::filesystem::path(file).parent_path().string();
  return folder.empty() ? "." : folder;
}

} // namespace

hub::LoadedModel opened_model(const std::string& path, const hub::LoadModelOptions& options) {
  warn_of_key(path);
  if (!data::file_exists(path)) return hub::load_model(path, options);
  if (options.image_size) throw UsageError(path + ": takes no images, and --image-size is for models that do");
  hub::LoadedModel loaded{.model = hub::load_llama2c(path), .report = {}};
  loaded.model->module().to(options.dtype);
  return loaded;
}

void warn_of_key(const std::string& folder) {
  if (const auto mark = permute::read_blocks_mark(folder))
    std::fputs(fmt::format("equigrad: {}: its blocks carry the permutations of {}; without them the model is another "
                           "function (permuted_blocks.json){}\n",
                           folder, mark->key.empty() ? "a run's seed" : "key " + mark->key,
                           mark->key.empty() ? "" : "; permute --inverse --key KEY takes them back")
                   .c_str(),
               stderr);
}

std::string model_folder(const std::string& path) {
  if (std::string trained = hub::model_folder_of_run(path); trained != path) return trained;
  const std::string name = std::filesystem::path(path).filename().string();
  const bool part = name == config_files.front() ||
                    std::any_of(weight_files.begin(), weight_files.end(), [&](const char* w) { return name == w; });
  return part && !data::folder_exists(path) ? folder_of(path) : path;
}

std::vector<std::string> known_files(const std::string& path) {
  const bool is_folder = data::folder_exists(path);
  const std::string folder = is_folder ? path : folder_of(path);
  std::vector<std::string> files;
  if (!is_folder) files.push_back(path);
  const auto add = [&](const auto& names) {
    for (const char* name : names)
      if (std::string file = data::join_path(folder, name); data::file_exists(file)) files.push_back(std::move(file));
  };
  add(weight_files);
  add(config_files);
  add(tokenizer_files);
  return files;
}

std::vector<std::string> files_of_model(const std::string& path) {
  std::vector<std::string> files = known_files(path);
  const auto has = [&](const char* name) { return data::file_exists(data::join_path(path, name)); };
  if (has(weight_files[0]) || !has(weight_files[1])) return files;
  const data::TensorReader reader = data::open_tensors(path);
  files.insert(files.end(), reader.files().begin(), reader.files().end());
  return files;
}

} // namespace eg::cli
