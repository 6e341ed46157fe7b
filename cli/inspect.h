#pragma once
// What equigrad inspect finds out, as lines for people and as JSON.

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

/// Tensors, metadata and totals; `stats` may be empty.
std::string tensor_table(const data::TensorReader& reader, const Statistics& stats);
/// The same with "format" and "files".
nlohmann::json tensors_json(const data::TensorReader& reader, const Statistics& stats);

/// One tensor's values. Throws ValueError with the nearest name when there is none of that name.
void inspect_tensor(const data::TensorReader& reader, const std::string& name, std::string& lines,
                    nlohmann::json& json);

/// What lies in a model folder beside the weights: config, tokenizer, preprocessor. False when it is none: nothing that
/// is known lies there. Throws FileError for files that are malformed.
bool inspect_folder(const std::string& folder, std::string& lines, nlohmann::json& json);

/// True when the folder has tensors that open_tensors finds.
bool holds_tensors(const std::string& folder);

/// "1,234,567".
std::string grouped(std::uint64_t number);
/// "1.2 MB".
std::string bytes_text(std::uint64_t bytes);

} // namespace eg::cli
