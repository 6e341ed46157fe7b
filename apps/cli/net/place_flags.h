#pragma once
// Shares the flags of verbs that listen and of verbs that connect.

#include "apps/cli/net/certificates.h"

#include "apps/net/tcp/client.h"
#include "apps/net/tcp/server.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>

namespace eg::cli {

/// Where to listen, for whom, and the limits of what comes.
struct ListenFlags {
  std::string listen;
  CertificateFlags certificates;
  std::int64_t connections = 64, message_mb = 256, memory_mb = 1024, idle_s = 900;

  /// Declares --listen, the certificates' flags, --connections, --message-mb, --memory-mb and --idle.
  void declare(CLI::App& app, const CommonOptions& common);
  /// Throws UsageError.
  net::ServerOptions options() const;
  std::uint64_t largest_message() const { return static_cast<std::uint64_t>(message_mb) << 20; }
};

/// "equigrad: listening on ADDR:PORT", on stderr: who starts the program waits for it.
void tell_place(const ListenFlags& flags, const net::Server& server);

/// "connections", "connections_refused", ..., "bytes_sent" into `json`.
void add_counts(nlohmann::json& json, const net::ServerCounts& counts);

/// Where to connect, and what to show there.
struct ConnectFlags {
  std::string connect;
  CertificateFlags certificates;
  std::int64_t answer_s = 300;

  /// Declares --connect, the certificates' flags and --answer-timeout.
  void declare(CLI::App& app, const CommonOptions& common);
  /// Throws UsageError.
  net::ClientOptions options() const;
};

} // namespace eg::cli
