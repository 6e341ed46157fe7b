#pragma once
// Throws the errors of the JSON readers for malformed text; used by the files of this folder only.

#include <cstddef>
#include <string>
#include <string_view>

namespace eg {

/// Most objects and lists within each other.
inline constexpr int max_json_depth = 128;

[[noreturn]] void refuse_depth(const std::string& source);
/// `byte` and `what` are those of nlohmann's exception.
[[noreturn]] void refuse_malformed(std::string_view text, const std::string& source, std::size_t byte,
                                   std::string_view what);

} // namespace eg
