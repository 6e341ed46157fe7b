#pragma once
// Prints what equigrad inspect finds in a file, as text and as JSON.

#include "core/base/error.h"
#include "data/tensor_reader.h"
#include "data/tensor_stats.h"

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>
#include <vector>

namespace eg::cli {

/// Of each tensor; nothing for element types that are not read.
using Statistics = std::vector<std::optional<data::TensorStats>>;
/// Reads every value. Throws Interrupted after Ctrl-C.
Statistics read_statistics(const data::TensorReader& reader, bool progress);

/// Prints tensors, metadata and totals; `stats` may be empty. Throws what LongOutput does.
void print_tensors(const data::TensorReader& reader, const Statistics& stats);
/// The same as JSON, with "format" and "files".
nlohmann::json tensors_json(const data::TensorReader& reader, const Statistics& stats);

/// One tensor's values. Throws ValueError with the nearest name when there is none of that name.
void inspect_tensor(const data::TensorReader& reader, const std::string& name, std::string& lines,
                    nlohmann::json& json);

/// What lies in a model folder beside the weights: config, tokenizer, preprocessor. False when it is none: nothing that
/// is known lies there. Throws FileError for files that are malformed, or no regular files.
bool inspect_folder(const std::string& folder, std::string& lines, nlohmann::json& json);

/// Family and sizes of a config.json's object; `remark` stands behind the family.
void inspect_config(const nlohmann::json& config, const std::string& remark, std::string& lines, nlohmann::json& json);

/// True when there is something, readable or not, where open_tensors looks for the tensors of a folder.
bool holds_tensors(const std::string& folder);

/// An error's message without "PATH: " at its front.
std::string reason_of(const Error& error, const std::string& path);

/// "1,234,567".
std::string grouped(std::uint64_t number);
/// "1.2 MB".
std::string bytes_text(std::uint64_t bytes);

} // namespace eg::cli
