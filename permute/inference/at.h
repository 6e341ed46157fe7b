#pragma once
// Converts an index of a tensor to an index of a vector. Not for users.

#include <cstddef>
#include <cstdint>

namespace eg::permute {

/// An index of a tensor as an index of a vector.
inline std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

} // namespace eg::permute
