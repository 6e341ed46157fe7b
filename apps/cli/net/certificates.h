#pragma once
// Shares the flags for certificates and addresses of the verbs of split learning.

#include "apps/cli/shell/verb.h"

#include "apps/net/tcp/tls.h"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <string>
#include <utility>

namespace eg::cli {

/// Which certificates a side shows and believes.
struct CertificateFlags {
  std::string folder, name;
  bool insecure = false;

  /// Declares --certs, --cert and --insecure-loopback.
  void declare(CLI::App& app, const CommonOptions& common, const std::string& own_name);
  /// Throws UsageError unless one of --certs and --insecure-loopback is given.
  net::TlsFiles files() const;
};

/// "127.0.0.1:7000", "[::1]:7000" or "HOST:7000". Throws UsageError that names the flag.
std::pair<std::string, std::uint16_t> host_and_port(const std::string& flag, const std::string& text);

} // namespace eg::cli
