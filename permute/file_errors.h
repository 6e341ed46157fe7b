#pragma once
// How files of keys and permutations are refused. Not for users.

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
