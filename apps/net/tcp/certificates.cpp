#include "apps/net/tcp/certificates.h"

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/file_descriptor.h"
#include "core/base/input_file.h"
#include "core/base/new_folder.h"
#include "core/base/write_all.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string_view>

namespace eg::net {
namespace {

template <auto release> struct Release {
  template <class T> void operator()(T* object) const { release(object); }
};
using KeyPair = std::unique_ptr<EVP_PKEY, Release<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Release<X509_free>>;
using Memory = std::unique_ptr<BIO, Release<BIO_free_all>>;

void need(bool holds, const char* what) {
  if (!holds) throw Error(fmt::format("certs: OpenSSL cannot {}", what));
}

KeyPair make_key() {
  KeyPair key(EVP_EC_gen("P-256"));
  need(key != nullptr, "make a key");
  return key;
}

void add_extension(X509* certificate, X509* issuer, int id, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, Release<X509_EXTENSION_free>> extension(
      X509V3_EXT_conf_nid(nullptr, &context, id, value.c_str()));
  need(extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1, "write an extension");
}

/// Who a certificate is for, and what it may do.
struct Purpose {
  std::string name;
  bool authority = false;
  const char* usage = ""; ///< extended key usage
  std::string hosts = {}; ///< subject alternative names
};

Certificate make_certificate(const Purpose& purpose, EVP_PKEY* key, X509* issuer, EVP_PKEY* issuer_key,
                             const CertificateOptions& o) {
  Certificate c(X509_new());
  need(c != nullptr && X509_set_version(c.get(), 2) == 1, "make a certificate");
  std::uint64_t serial = 0;
  need(RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof serial) == 1, "draw a serial number");
  ASN1_INTEGER_set_uint64(X509_get_serialNumber(c.get()), serial >> 1);
  constexpr std::int64_t day = 86'400;
  // A minute early, for clocks that are behind.
  X509_gmtime_adj(X509_getm_notBefore(c.get()), static_cast<long>(o.from_days * day - 60));
  X509_gmtime_adj(X509_getm_notAfter(c.get()), static_cast<long>((o.from_days + o.days) * day));
  X509_NAME* name = X509_get_subject_name(c.get());
  need(X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
                                  reinterpret_cast<const unsigned char*>(purpose.name.data()),
                                  static_cast<int>(purpose.name.size()), -1, 0) == 1,
       "write a name");
  X509* by = issuer != nullptr ? issuer : c.get();
  X509_set_issuer_name(c.get(), X509_get_subject_name(by));
  X509_set_pubkey(c.get(), key);
  add_extension(c.get(), by, NID_basic_constraints,
                purpose.authority ? "critical,CA:TRUE,pathlen:0" : "critical,CA:FALSE");
  add_extension(c.get(), by, NID_key_usage,
                purpose.authority ? "critical,keyCertSign,cRLSign" : "critical,digitalSignature");
  add_extension(c.get(), by, NID_subject_key_identifier, "hash");
  if (issuer != nullptr) add_extension(c.get(), by, NID_authority_key_identifier, "keyid");
  if (*purpose.usage != '\0') add_extension(c.get(), by, NID_ext_key_usage, purpose.usage);
  if (!purpose.hosts.empty()) add_extension(c.get(), by, NID_subject_alt_name, purpose.hosts);
  need(X509_sign(c.get(), issuer_key != nullptr ? issuer_key : key, EVP_sha256()) > 0, "sign a certificate");
  return c;
}

std::string text_of(BIO* memory) {
  char* first = nullptr;
  const long size = BIO_get_mem_data(memory, &first);
  return {first, static_cast<std::size_t>(size)};
}

/// Calls read(BIO of the file). Throws FileError when it gives nothing.
template <class Owner, class Read> Owner read_pem(const std::string& path, Read&& read) {
  const Bytes bytes = read_file(path, 1 << 20);
  const Memory memory(BIO_new_mem_buf(bytes.data(), static_cast<int>(bytes.size())));
  Owner found(read(memory.get()));
  if (!found) throw FileError(path + ": not what a PEM file of that name should hold");
  return found;
}

/// A file of the folder, with its mode.
struct NewFile {
  std::string name, text;
  mode_t mode = 0;
};

[[noreturn]] void fail_exists(const std::string& path) {
  throw FileError(path + ": exists already; keys and certificates are never overwritten");
}

void write_new(const std::string& path, const NewFile& made) {
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, made.mode));
  if (file.get() < 0 && errno == EEXIST) fail_exists(path);
  if (file.get() < 0) fail_errno(path, "cannot be written");
  try {
    write_all(file.get(), made.text, path);
  } catch (const FileError&) {
    ::unlink(path.c_str());
    throw;
  }
}

void check_name(const std::string& name, std::string_view what) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.' || c == ':';
  };
  if (name.empty() || name.size() > 60 || name.front() == '.' || !std::all_of(name.begin(), name.end(), plain))
    throw ValueError(
        fmt::format("certs: '{}' is no name for {}: letters, digits, '-', '_' and '.', 60 at most", name, what));
}

/// Throws ValueError for what looks like an address and is not one.
bool is_address(const std::string& host) {
  in6_addr bits{};
  const bool six = host.find(':') != std::string::npos;
  if (!six && host.find_first_not_of("0123456789.") != std::string::npos) return false;
  if (::inet_pton(six ? AF_INET6 : AF_INET, host.c_str(), &bits) != 1)
    throw ValueError(fmt::format("certs: host '{}' is not an address of IPv{}, nor a name", host, six ? 6 : 4));
  return true;
}

/// "DNS:localhost,IP:127.0.0.1"
std::string alternative_names(const std::vector<std::string>& hosts) {
  std::string all;
  for (const std::string& host : hosts) {
    check_name(host, "a host");
    const bool address = is_address(host);
    all += fmt::format("{}{}:{}", all.empty() ? "" : ",", address ? "IP" : "DNS", host);
  }
  return all;
}

/// What the certificates are for, the cloud's first. Throws ValueError for names that make none.
std::vector<Purpose> purposes_of(const CertificateOptions& options) {
  if (options.days < 1 || options.days > 36'500)
    throw ValueError(fmt::format("certs: days must be from 1 to 36500, not {}", options.days));
  if (options.hosts.empty()) throw ValueError("certs: the cloud needs a host");
  std::vector<Purpose> purposes;
  if (options.authority.empty())
    purposes.push_back({.name = "cloud", .usage = "serverAuth", .hosts = alternative_names(options.hosts)});
  for (const std::string& edge : options.edges) {
    check_name(edge, "an edge");
    if (edge == "ca" || edge == "cloud" || edge.find(':') != std::string::npos)
      throw ValueError(fmt::format("certs: an edge cannot be called '{}'", edge));
    purposes.push_back({.name = edge, .usage = "clientAuth"});
  }
  return purposes;
}

NewFile file_of(const std::string& name, X509* certificate) {
  const Memory pem(BIO_new(BIO_s_mem()));
  need(PEM_write_bio_X509(pem.get(), certificate) == 1, "write a certificate");
  return {name + ".pem", text_of(pem.get()), 0644};
}

NewFile file_of(const std::string& name, EVP_PKEY* key) {
  const Memory secret(BIO_new(BIO_s_secmem()));
  need(PEM_write_bio_PKCS8PrivateKey(secret.get(), key, nullptr, nullptr, 0, nullptr, nullptr) == 1, "write a key");
  return {name + ".key", text_of(secret.get()), 0600};
}

/// All that is written, made before anything is.
std::vector<NewFile> made_files(const std::vector<Purpose>& purposes, const CertificateOptions& options) {
  std::vector<NewFile> files;
  KeyPair authority_key;
  Certificate authority;
  if (options.authority.empty()) {
    authority_key = make_key();
    authority = make_certificate({.name = "equigrad test authority", .authority = true}, authority_key.get(), nullptr,
                                 nullptr, options);
    files = {file_of("ca", authority.get()), file_of("ca", authority_key.get())};
  } else {
    authority = read_pem<Certificate>(join_path(options.authority, "ca.pem"),
                                      [](BIO* in) { return PEM_read_bio_X509(in, nullptr, nullptr, nullptr); });
    authority_key = read_pem<KeyPair>(join_path(options.authority, "ca.key"),
                                      [](BIO* in) { return PEM_read_bio_PrivateKey(in, nullptr, nullptr, nullptr); });
    files = {file_of("ca", authority.get())};
  }
  for (const Purpose& purpose : purposes) {
    const KeyPair key = make_key();
    const Certificate made = make_certificate(purpose, key.get(), authority.get(), authority_key.get(), options);
    files.push_back(file_of(purpose.name, made.get()));
    files.push_back(file_of(purpose.name, key.get()));
  }
  return files;
}

/// Writes the files into an existing folder. When one fails, those that were written are removed.
void write_into(const std::string& folder, const std::vector<NewFile>& files) {
  std::vector<std::string> written;
  try {
    for (const NewFile& file : files) {
      const std::string path = join_path(folder, file.name);
      write_new(path, file);
      written.push_back(path);
    }
  } catch (const FileError&) {
    for (const std::string& path : written) ::unlink(path.c_str());
    throw;
  }
}

} // namespace

std::vector<std::string> make_certificates(const std::string& folder, const CertificateOptions& options) {
  const std::vector<Purpose> purposes = purposes_of(options);
  const std::vector<NewFile> files = made_files(purposes, options);
  std::vector<std::string> written;
  for (const NewFile& file : files) written.push_back(join_path(folder, file.name));
  if (path_exists(folder)) {
    for (const std::string& path : written)
      if (path_exists(path)) fail_exists(path);
    write_into(folder, files);
    return written;
  }
  NewFolder whole(folder);
  for (const NewFile& file : files) write_new(whole.file(file.name), file);
  whole.keep();
  return written;
}

} // namespace eg::net
