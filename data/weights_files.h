#pragma once
// Names the files of a model folder that hold its weights.

namespace eg::data {

/// All weights in one file.
inline constexpr const char* single_name = "model.safetensors";
/// Which of several files holds which tensor.
inline constexpr const char* index_name = "model.safetensors.index.json";

} // namespace eg::data
