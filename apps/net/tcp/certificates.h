#pragma once
// Issues certificates for tests and a few machines: whoever has the authority's key can impersonate any of them.

#include <cstdint>
#include <string>
#include <vector>

namespace eg::net {

struct CertificateOptions {
  std::vector<std::string> hosts = {"localhost", "127.0.0.1", "::1"}; ///< names and addresses of the cloud
  std::vector<std::string> edges = {"edge"};                          ///< one certificate each
  std::string authority = {}; ///< folder with the ca.pem and ca.key that sign; empty: an authority is made
  std::int64_t days = 30;     ///< that they are valid
  std::int64_t from_days = 0; ///< days from now until they become valid; negative: days since
};

/// Makes ca.pem, ca.key, cloud.pem, cloud.key, and EDGE.pem, EDGE.key for each edge, in a folder that is made when it
/// is missing: EC keys on P-256, keys of mode 0600. With an authority that exists only the edges' files and a copy of
/// ca.pem. All of them are made before one is written: a folder that is missing appears with all its files or not at
/// all, and in an existing one they are removed when one cannot be written. Returns the files' paths. Throws FileError
/// when one exists (nothing is overwritten) or cannot be written, ValueError for names that make no file or no
/// certificate, and for addresses that are none.
std::vector<std::string> make_certificates(const std::string& folder, const CertificateOptions& options = {});

} // namespace eg::net
