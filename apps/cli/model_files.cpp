#include "apps/cli/model_files.h"

#include "apps/cli/shell/verb.h"

#include "core/base/bytes.h"
#include "core/base/input_file.h"
#include "nn/hub/llama2c.h"
#include "permute/folder.h"
#include "training/blocks_mark.h"

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
  if (folder_exists(path) || !path_exists(path)) return hub::load_model(path, options);
  if (options.image_size) throw UsageError(path + ": takes no images, and --image-size is for models that do");
  hub::LoadedModel loaded{.model = hub::load_llama2c(path), .report = {}};
  loaded.model->module().to(options.dtype);
  return loaded;
}

void warn_of_key(const std::string& folder) {
  if (const auto mark = training::read_blocks_mark(folder))
    std::fputs(fmt::format("equigrad: {}: its blocks carry the permutations of {}; without them the model is another "
                           "function (permuted_blocks.json){}\n",
                           folder, mark->key.empty() ? "a run's seed" : "key " + mark->key,
                           mark->key.empty() ? "" : "; permute --inverse --key KEY takes them back")
                   .c_str(),
               stderr);
}

void require_own_ids(const std::string& folder) {
  if (const auto mark = permute::read_mark(folder); mark && mark->renumbers_tokens)
    throw FileError(
        fmt::format("{}: its token ids are moved by key {} (permutation.json), so that a tokenizer's are not "
                    "its own: permute --tensors moves the ids of {}/{}, and --ids takes them",
                    folder, mark->key, folder, permute::plain_tokenizer_folder));
}

std::string model_folder(const std::string& path) {
  if (std::string trained = hub::model_folder_of_run(path); trained != path) return trained;
  const std::string name = std::filesystem::path(path).filename().string();
  const bool part = name == config_files.front() ||
                    std::any_of(weight_files.begin(), weight_files.end(), [&](const char* w) { return name == w; });
  return part && !folder_exists(path) ? folder_of(path) : path;
}

void add_model(CommandFiles& files, const std::string& path) {
  files.reads(path);
  if (path.empty() || folder_exists(path)) return;
  const auto add = [&](const auto& names) {
    for (const char* name : names) files.reads(join_path(folder_of(path), name));
  };
  add(weight_files);
  add(config_files);
  add(tokenizer_files);
}

} // namespace eg::cli
