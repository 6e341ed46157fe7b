#pragma once
// Peers that keep to no protocol.

#include "apps/net/wire.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

namespace eg::test {

/// A socket that sends what it likes.
class RawSocket {
public:
  explicit RawSocket(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_port = htons(port);
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval retry_policy{10, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &retry_policy, sizeof retry_policy);
    connected_ = ::connect(socket_, reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0;
  }
  ~RawSocket() { ::close(socket_); }
  RawSocket(const RawSocket&) = delete;
  RawSocket& operator=(const RawSocket&) = delete;
  bool connected() const { return connected_; }
  void send(const Bytes& bytes) const { static_cast<void>(::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL)); }
  /// All that comes until the other side closes; "timeout" is no close.
  Bytes until_closed(bool& closed) const {
    Bytes all;
    for (;;) {
      std::uint8_t block[4096];
      const ssize_t n = ::recv(socket_, block, sizeof block, 0);
      closed = n == 0 || (n < 0 && errno == ECONNRESET);
      if (n <= 0) return all;
      all.insert(all.end(), block, block + n);
    }
  }
  bool closed_by_peer() const {
    bool closed = false;
    until_closed(closed);
    return closed;
  }

private:
  int socket_;
  bool connected_ = false;
};

inline Bytes header_of(std::uint64_t body, std::uint16_t version = net::protocol_version) {
  Bytes frame = net::frame_of({.kind = net::MessageKind::open, .text = "{}"});
  frame.resize(net::header_bytes);
  std::memcpy(frame.data() + 4, &version, sizeof version);
  std::memcpy(frame.data() + 8, &body, sizeof body);
  return frame;
}

/// Lets this process have 4096 files, where the system does.
inline void allow_many_files() {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = std::min<rlim_t>(files.rlim_max, 4096);
  ::setrlimit(RLIMIT_NOFILE, &files);
}

} // namespace eg::test
