#pragma once
// Throws the errors for malformed files of keys and permutations. Not for users.

#include "core/base/error.h"

#include <filesystem>
#include <fmt/format.h>
#include <string_view>

namespace eg::permute {

/// Throws FileError "PATH: what".
[[noreturn]] inline void fail(const std::filesystem::path& path, std::string_view what) {
  throw FileError(fmt::format("{}: {}", path.string(), what));
}

} // namespace eg::permute
