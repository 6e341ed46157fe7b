#pragma once
// Bytes to a file descriptor.

#include "core/error.h"

#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <string>
#include <string_view>
#include <unistd.h>

namespace eg::data {

/// Throws FileError "PATH: WHAT: why", the why being errno's.
[[noreturn]] inline void fail_errno(const std::string& path, const char* what) {
  throw FileError(fmt::format("{}: {}: {}", path, what, std::strerror(errno)));
}

/// Writes all of it, however small the pieces that the system takes. Throws FileError that begins with `path`.
inline void write_all(int descriptor, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(descriptor, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail_errno(path, "cannot write");
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
}

} // namespace eg::data
