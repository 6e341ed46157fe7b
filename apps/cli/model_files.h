#pragma once
// Finds the files of a model folder, and reads one.

#include "apps/cli/shell/command_files.h"

#include "nn/hub/folder.h"
#include "permute/folder_files.h"

#include <array>
#include <string>
#include <vector>

namespace eg::cli {

using permute::tokenizer_files;
/// Names of the other files in JSON.
inline constexpr std::array config_files{"config.json", "preprocessor_config.json", "generation_config.json",
                                         "processor_config.json"};
/// Names of the weights: one file, or the list of several.
inline constexpr std::array weight_files{"model.safetensors", "model.safetensors.index.json"};

/// RUN/model for the run folder of a trained text model, FOLDER for FOLDER/config.json and for a folder's weights, else
/// `path` as it is.
std::string model_folder(const std::string& path);

/// Reads a model folder or, where `path` is a file, a llama2.c checkpoint. Throws as hub::load_model and
/// hub::load_llama2c do; UsageError for an image size, which a llama2.c checkpoint has not.
hub::LoadedModel opened_model(const std::string& path, const hub::LoadModelOptions& options);

/// Says on stderr that the blocks of a model folder carry a key of training, where a run has left them so.
void warn_of_key(const std::string& folder);

/// Throws FileError for a permuted folder whose key moves the vocabulary: no tokenizer gives its ids.
void require_own_ids(const std::string& folder);

/// Says that a model or tokenizer is read: a folder with everything in it; of a file, itself and the files with these
/// names beside it.
void add_model(CommandFiles& files, const std::string& path);

} // namespace eg::cli
