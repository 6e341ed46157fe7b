#include "apps/net/tcp/tls.h"

#include "apps/net/tcp/asio_tls.h"
#include "core/base/bytes.h"
#include "core/base/error.h"

#include <fmt/format.h>
#include <sys/stat.h>

namespace eg::net {
namespace {

void require_secret(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) throw FileError(path + ": there is no such key");
  if ((info.st_mode & 077) != 0)
    throw FileError(fmt::format("{}: the key is open to others (mode {:04o}); chmod 600 it", path,
                                static_cast<unsigned>(info.st_mode & 07777)));
}

void require_read(const asio::error_code& error, const std::string& path, const char* what) {
  if (error) throw FileError(fmt::format("{}: no {} that can be used: {}", path, what, error.message()));
}

} // namespace

TlsFiles TlsFiles::in(const std::string& folder, const std::string& name) {
  return {.authority = join_path(folder, "ca.pem"),
          .certificate = join_path(folder, name + ".pem"),
          .key = join_path(folder, name + ".key")};
}

asio::ssl::context tls_context(const TlsFiles& files, bool server) {
  asio::ssl::context context(server ? asio::ssl::context::tls_server : asio::ssl::context::tls_client);
  SSL_CTX_set_min_proto_version(context.native_handle(), TLS1_3_VERSION);
  SSL_CTX_set_num_tickets(context.native_handle(), 0); // every connection shows its certificate
  SSL_CTX_set_session_cache_mode(context.native_handle(), SSL_SESS_CACHE_OFF);
  asio::error_code error;
  context.load_verify_file(files.authority, error);
  require_read(error, files.authority, "authority");
  context.use_certificate_chain_file(files.certificate, error);
  require_read(error, files.certificate, "certificate");
  const int purpose = server ? X509_PURPOSE_SSL_SERVER : X509_PURPOSE_SSL_CLIENT;
  if (X509_check_purpose(SSL_CTX_get0_certificate(context.native_handle()), purpose, 0) != 1)
    throw FileError(fmt::format("{}: is no certificate for {}", files.certificate, server ? "a cloud" : "an edge"));
  require_secret(files.key);
  context.use_private_key_file(files.key, asio::ssl::context::pem, error);
  require_read(error, files.key, "key of this certificate");
  context.set_verify_mode(asio::ssl::verify_peer | asio::ssl::verify_fail_if_no_peer_cert);
  return context;
}

std::string peer_name(TlsStream& stream) {
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(SSL_get1_peer_certificate(stream.native_handle()),
                                                                &X509_free);
  if (!certificate) return {};
  X509_NAME* name = X509_get_subject_name(certificate.get());
  const int at = X509_NAME_get_index_by_NID(name, NID_commonName, -1);
  if (at < 0) return {};
  const ASN1_STRING* text = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, at));
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
          static_cast<std::size_t>(ASN1_STRING_length(text))};
}

} // namespace eg::net
