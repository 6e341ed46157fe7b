#pragma once
// Serves the cloud's sockets: connections in, frames to the service, answers out.

#include "apps/net/service.h"
#include "apps/net/tcp/tls.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace eg::net {

struct ServerOptions {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0; ///< 0: a free one
  TlsFiles tls;
  bool insecure_loopback = false; ///< without TLS, on this machine alone; every peer is called "loopback" then
  std::size_t unknown = 64;       ///< most connections that are not authenticated; then the oldest is closed
  std::size_t known = 64;         ///< most of those that have
  std::size_t each = 4;           ///< of one name; then its oldest is closed
  std::uint64_t memory = std::uint64_t{1} << 30; ///< bytes of frames on their way in and out
  std::chrono::milliseconds handshake_timeout{10'000};
  std::chrono::milliseconds idle_timeout{900'000};  ///< between an answer and the next header
  std::chrono::milliseconds frame_timeout{120'000}; ///< for one frame to come in, or go out
};

struct ServerCounts {
  std::atomic<std::uint64_t> connections{0}, refused{0}, dropped{0}, received{0}, sent{0};
};

/// Listens from construction on. Throws ConnectionError when the place cannot be listened on, ValueError without
/// certificates unless insecure_loopback and the address is loopback, FileError.
class Server {
public:
  Server(Service& service, const ServerOptions& options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::uint16_t port() const;
  /// Serves until `stop`: sockets on a thread of their own, all computing on this one; what waits is given to the
  /// service together. `tick` is called now and then, and after each time.
  void run(const std::atomic<bool>& stop, const std::function<void()>& tick = {});
  const ServerCounts& counts() const;

private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace eg::net
