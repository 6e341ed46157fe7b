#pragma once
// Wraps what the sources of this folder share of asio. For them alone: the headers are large.

#include "apps/net/tcp/tls.h"

#define ASIO_STANDALONE 1
#define ASIO_NO_DEPRECATED 1
#include <asio.hpp>
#include <asio/ssl.hpp>

#include <memory>
#include <optional>
#include <string>
#include <variant>

namespace eg::net {

using Tcp = asio::ip::tcp;
using TlsStream = asio::ssl::stream<Tcp::socket>;
/// A connection with TLS, or without.
using Stream = std::variant<Tcp::socket, TlsStream>;

inline Tcp::socket::lowest_layer_type& socket_of(Stream& stream) {
  return std::visit([](auto& s) -> Tcp::socket::lowest_layer_type& { return s.lowest_layer(); }, stream);
}

/// TLS 1.3 with both certificates checked. Throws FileError that names the file which does not serve.
asio::ssl::context tls_context(const TlsFiles& files, bool server);

/// The common name of the certificate that the other side has shown.
std::string peer_name(TlsStream& stream);

/// Whether an address is this machine's alone.
inline bool is_loopback(const Tcp::endpoint& endpoint) { return endpoint.address().is_loopback(); }

} // namespace eg::net
