#include "apps/cli/net/certificates.h"

#include <fmt/format.h>

#include <charconv>

namespace eg::cli {

void CertificateFlags::declare(CLI::App& app, const CommonOptions& common, const std::string& own_name) {
  name = own_name;
  common.files
      ->input(app.add_option("--certs", folder, "Folder with ca.pem, NAME.pem and NAME.key (equigrad certs makes one)"))
      ->type_name("FOLDER");
  app.add_option("--cert", name, "NAME of the certificate to show")->type_name("NAME")->capture_default_str();
  app.add_flag("--insecure-loopback", insecure, "No TLS: for both sides on this machine alone");
}

net::TlsFiles CertificateFlags::files() const {
  if (folder.empty() != insecure)
    throw UsageError(insecure ? "--certs and --insecure-loopback exclude each other"
                              : "--certs is needed (or --insecure-loopback, for both sides on this machine)");
  return insecure ? net::TlsFiles() : net::TlsFiles::in(folder, name);
}

std::pair<std::string, std::uint16_t> host_and_port(const std::string& flag, const std::string& text) {
  const std::size_t colon = text.rfind(':');
  std::uint16_t port = 0;
  std::string host = text.substr(0, colon == std::string::npos ? 0 : colon);
  const bool in_brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (!in_brackets && host.find(':') != std::string::npos)
    throw UsageError(
        fmt::format("{}: '{}' is not HOST:PORT; an address with colons stands in brackets, [::1]:7700", flag, text));
  if (in_brackets) host = host.substr(1, host.size() - 2);
  const char* const last = text.data() + text.size();
  const char* const first = colon == std::string::npos ? last : text.data() + colon + 1;
  const auto [end, error] = std::from_chars(first, last, port);
  if (host.empty() || first == last || error != std::errc() || end != last)
    throw UsageError(fmt::format("{}: '{}' is not HOST:PORT", flag, text));
  return {host, port};
}

} // namespace eg::cli
