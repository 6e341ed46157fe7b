#pragma once
// Encodes as JSON what both sides must agree on, and compares it.

#include "training/remote_encoder.h"

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace eg::split_learning {

/// One flat object whose keys are `train`'s flags with '_' for '-': dim, layers, heads, ..., optimizer, lr, schedule,
/// steps, dtype.
nlohmann::ordered_json recipe_json(const training::EncoderRecipe& recipe);

/// Reads such an object; what is missing has `train vit`'s default. Throws ValueError that begins with `source` for an
/// unknown key, for a value of another kind or out of range, and when "steps" is missing.
training::EncoderRecipe recipe_of(const nlohmann::json& json, const std::string& source);

/// The fields that differ, "lr 0.1 (there 0.2), dim 12 (there 16)"; "" when none does.
std::string differences(const training::EncoderRecipe& here, const training::EncoderRecipe& there);

} // namespace eg::split_learning
