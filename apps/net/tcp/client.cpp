#include "apps/net/tcp/client.h"

#include "apps/net/errors.h"
#include "apps/net/tcp/asio_tls.h"
#include "core/base/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace eg::net {
namespace {

using Clock = std::chrono::steady_clock;

/// Whether an error is the other side's word that our certificate does not serve (RFC 8446, section 6).
bool refuses_certificate(const asio::error_code& error) {
  if (error.category() != asio::error::get_ssl_category()) return false;
  const int reason = ERR_GET_REASON(static_cast<unsigned long>(error.value()));
  const int alert = reason - SSL_AD_REASON_OFFSET;
  return (alert >= SSL_AD_BAD_CERTIFICATE && alert <= SSL_AD_CERTIFICATE_UNKNOWN) || alert == SSL_AD_UNKNOWN_CA ||
         alert == SSL_AD_ACCESS_DENIED || alert == TLS13_AD_CERTIFICATE_REQUIRED;
}

/// Waits for one operation at a time.
class TcpChannel : public Channel {
public:
  TcpChannel(const ClientOptions& options, const std::shared_ptr<asio::ssl::context>& context)
      : o_(options), context_(context), stream_(make_stream()) {
    deadline_ = Clock::now() + o_.connect_timeout;
    connect();
    if (auto* tls = std::get_if<TlsStream>(&stream_)) shake_hands(*tls);
  }
  ~TcpChannel() override {
    asio::error_code ignored;
    socket_of(stream_).close(ignored);
    drain(io_);
  }

  void send(ByteView frame) override {
    deadline_ = Clock::now() + o_.answer_timeout;
    std::visit(
        [&](auto& s) {
          wait_for("sending to",
                   [&](auto done) { asio::async_write(s, asio::buffer(frame.data(), frame.size()), done); });
        },
        stream_);
  }

  Bytes receive() override {
    Bytes frame(header_bytes);
    read({frame.data(), frame.size()});
    const FrameHeader header = parse_header(frame, o_.frames);
    frame.resize(header_bytes + static_cast<std::size_t>(header.body));
    read(std::span(frame).subspan(header_bytes));
    return frame;
  }

private:
  Stream make_stream() {
    if (!context_) return Tcp::socket(io_);
    return Stream(std::in_place_type<TlsStream>, io_, *context_);
  }

  void connect() {
    // The resolver's thread ends with `finding`. A channel keeps none: its end would wait for it in a child of fork().
    asio::io_context finding;
    Tcp::resolver resolver(finding);
    Tcp::resolver::results_type found;
    wait_for(finding, "finding", [&](auto done) {
      resolver.async_resolve(o_.host, std::to_string(o_.port),
                             [&found, done](const asio::error_code& e, Tcp::resolver::results_type results) {
                               found = std::move(results);
                               done(e, 0);
                             });
    });
    for (const auto& entry : found)
      if (!context_ && !is_loopback(entry.endpoint()))
        throw ConnectionError(
            fmt::format("net: {} is not this machine, and only it is spoken to without TLS", place()));
    wait_for("connecting to", [&](auto done) {
      asio::async_connect(socket_of(stream_), found,
                          [done](const asio::error_code& e, const Tcp::endpoint&) { done(e, 0); });
    });
    asio::error_code ignored;
    socket_of(stream_).set_option(Tcp::no_delay(true), ignored);
  }

  void shake_hands(TlsStream& tls) {
    const asio::ssl::host_name_verification fits_host(o_.host);
    tls.set_verify_callback([&, fits_host](bool trusted, asio::ssl::verify_context& c) {
      if (!trusted) why_ = X509_verify_cert_error_string(X509_STORE_CTX_get_error(c.native_handle()));
      const bool fits = trusted && fits_host(true, c);
      if (trusted && !fits) why_ = fmt::format("it is not for {}", o_.host);
      return fits;
    });
    asio::error_code not_address;
    asio::ip::make_address(o_.host, not_address);
    if (not_address) SSL_set_tlsext_host_name(tls.native_handle(), o_.host.c_str());
    wait_for("agreeing on TLS with", [&](auto done) {
      tls.async_handshake(asio::ssl::stream_base::client, [done](const asio::error_code& e) { done(e, 0); });
    });
  }

  void read(std::span<std::uint8_t> to) {
    std::visit(
        [&](auto& s) {
          wait_for("hearing from", [&](auto done) { asio::async_read(s, asio::buffer(to.data(), to.size()), done); });
        },
        stream_);
  }

  std::string place() const { return fmt::format("{}:{}", o_.host, o_.port); }

  static void drain(asio::io_context& io) {
    io.restart();
    io.run();
  }

  template <class Start> void wait_for(const char* doing, Start&& start) {
    wait_for(io_, doing, std::forward<Start>(start));
  }

  /// Starts an operation that `io` runs and waits for its end, until the deadline.
  template <class Start> void wait_for(asio::io_context& io, const char* doing, Start&& start) {
    bool over = false;
    asio::error_code result;
    start([&over, &result](const asio::error_code& e, std::size_t) {
      over = true;
      result = e;
    });
    Clock::time_point stopped{};
    while (!over) {
      io.restart();
      io.run_one_for(std::chrono::milliseconds(100));
      const Clock::time_point now = Clock::now();
      if (over) break;
      const bool late = now > deadline_;
      if (o_.stop != nullptr && o_.stop->load() && stopped == Clock::time_point{}) stopped = now;
      const bool leave = stopped != Clock::time_point{} && now > stopped + std::chrono::seconds(3);
      if (!late && !leave) continue;
      asio::error_code ignored;
      socket_of(stream_).close(ignored);
      drain(io); // the handlers refer to this frame
      if (leave) throw Interrupted(fmt::format("net: interrupted {} {}", doing, place()));
      throw TimeoutError(fmt::format("net: {} {} took too long", doing, place()));
    }
    if (result && !why_.empty())
      throw UntrustedError(
          fmt::format("net: {} {}: its certificate cannot be trusted: {}", doing, place(), std::exchange(why_, {})));
    if (refuses_certificate(result))
      throw UntrustedError(
          fmt::format("net: {} {}: it does not take this side's certificate: {}", doing, place(), words_of(result)));
    if (result) throw ConnectionError(fmt::format("net: {} {}: {}", doing, place(), words_of(result)));
  }

  static std::string words_of(const asio::error_code& e) {
    if (e == asio::error::eof || e == asio::ssl::error::stream_truncated)
      return "the other side has closed the connection";
    return e.message();
  }

  ClientOptions o_;
  std::shared_ptr<asio::ssl::context> context_;
  asio::io_context io_;
  Stream stream_;
  std::string why_; ///< the other side's certificate is not trusted
  Clock::time_point deadline_{};
};

} // namespace

Connect connect_over_tcp(const ClientOptions& options) {
  if (options.tls.given() == options.insecure_loopback)
    throw ValueError(options.insecure_loopback
                         ? "net: certificates and insecure_loopback exclude each other"
                         : "net: certificates are needed (without TLS only loopback, if asked for)");
  std::shared_ptr<asio::ssl::context> context;
  if (options.tls.given()) context = std::make_shared<asio::ssl::context>(tls_context(options.tls, false));
  return [options, context]() -> std::unique_ptr<Channel> { return std::make_unique<TcpChannel>(options, context); };
}

} // namespace eg::net
