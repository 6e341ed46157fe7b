#pragma once
// Configures the certificates that a side presents and accepts.

#include <string>

namespace eg::net {

/// PEM files. All empty: no TLS.
struct TlsFiles {
  std::string authority;   ///< whose certificates are believed
  std::string certificate; ///< one's own
  std::string key;         ///< its key; refused when others can read it

  bool given() const { return !certificate.empty(); }
  /// FOLDER/ca.pem, FOLDER/NAME.pem, FOLDER/NAME.key, as make_certificates names them.
  static TlsFiles in(const std::string& folder, const std::string& name);
};

} // namespace eg::net
