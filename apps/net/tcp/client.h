#pragma once
// Connects to the cloud over TCP, with TLS.

#include "apps/net/channel.h"
#include "apps/net/tcp/tls.h"
#include "apps/net/wire.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

namespace eg::net {

struct ClientOptions {
  std::string host; ///< a name or an address, which the cloud's certificate must be for
  std::uint16_t port = 0;
  TlsFiles tls;
  bool insecure_loopback = false;                    ///< without TLS, to this machine alone
  std::chrono::milliseconds connect_timeout{10'000}; ///< beside looking the name up
  std::chrono::milliseconds answer_timeout{300'000}; ///< from a request to the end of its answer
  const std::atomic<bool>* stop = nullptr;           ///< after 3 s ends a wait with Interrupted
  FrameLimits frames;
};

/// Connections to that place. Throws ValueError without certificates unless insecure_loopback, FileError for those that
/// do not serve. The connections throw ConnectionError, TimeoutError.
Connect connect_over_tcp(const ClientOptions& options);

} // namespace eg::net
