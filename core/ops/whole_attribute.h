#pragma once
// Reads a whole number from a real attribute without rounding it.

#include "core/attributes.h"

#include <optional>

namespace eg {

/// The whole number that a real attribute of a call holds where a double would round it: beyond 2^53. nullopt for every
/// other value, which Attrs::real() gives exactly.
std::optional<std::int64_t> whole_attribute(const Attrs& attrs, std::string_view name);

} // namespace eg
