#pragma once
// Describes inferred symmetries as JSON, with the fields of `equigrad symmetries --json`.

#include "permute/symmetries.h"

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>

namespace eg::permute {

/// {"tensor", "axis"}, and where not the whole axis moves the range or the places that do.
nlohmann::json json_of(const AxisUse& use);
/// {"name", "size", "kind", "log2_size", "copies", "over", "because", "in_key", "moves_inputs_or_outputs", "axes"}:
/// "copies" above 1, "over" and "because" where there are any.
nlohmann::json json_of(const SymmetryGroup& group);
/// {"groups", "generators", "forward_error", "gradient_error"}; null for none.
nlohmann::json json_of(const std::optional<Certificate>& certificate);

/// The group's elements in a few letters: "S_64", "S_16 wr S_4", "fixed".
std::string described(const SymmetryGroup& group);

} // namespace eg::permute
