#pragma once
// Writes bytes to a file descriptor, and waits until it is writable.

#include "core/base/error.h"
#include "core/base/interrupt.h"

#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <poll.h>
#include <string>
#include <string_view>
#include <unistd.h>

namespace eg {

/// Throws FileError "PATH: WHAT: why", the why being errno's.
[[noreturn]] inline void fail_errno(const std::string& path, const char* what) {
  throw FileError(fmt::format("{}: {}: {}", path, what, std::strerror(errno)));
}

/// Longest wait before poll_interrupt() is called again, in milliseconds.
inline constexpr int poll_ms = 50;

/// Waits until the descriptor is ready for `events` (POLLIN, POLLOUT) or closed from the other side. Throws what
/// poll_interrupt() throws.
inline void wait_until_ready(int descriptor, short events) {
  pollfd waited{.fd = descriptor, .events = events, .revents = 0};
  do poll_interrupt();
  while (::poll(&waited, 1, poll_ms) <= 0);
}

/// Writes all of it, however small the pieces that the system takes; waits where a descriptor that does not block is
/// full. Throws FileError that begins with `path`.
inline void write_all(int descriptor, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(descriptor, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno == EAGAIN) {
      wait_until_ready(descriptor, POLLOUT);
      continue;
    }
    if (put < 0) fail_errno(path, "cannot write");
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
}

} // namespace eg
