#pragma once
// Servers beside the test that connects to them.

#include "apps/net/tcp/client.h"
#include "apps/net/tcp/server.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

namespace eg::test {

/// Short limits, so that what is late is refused while a test waits.
inline net::ServerOptions quick() {
  using namespace std::chrono_literals;
  net::ServerOptions o;
  o.handshake_timeout = 2s;
  o.frame_timeout = 500ms;
  o.idle_timeout = 20s;
  return o;
}

/// A server of what `make()` returns, on a thread of its own. `watch(service)` is called there now and then.
class ServerThread {
public:
  template <class Make, class Watch>
  ServerThread(const net::ServerOptions& options, Make make, Watch watch)
      : thread_([this, options, make, watch] {
          auto service = make();
          net::Server server(service, options);
          counts_ = &server.counts();
          port_ = server.port();
          server.run(stop_, [&] { watch(service); });
        }) {
    while (port_ == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  template <class Make>
  ServerThread(const net::ServerOptions& options, Make make) : ServerThread(options, make, [](const auto&) {}) {}
  ServerThread(const ServerThread&) = delete;
  ServerThread& operator=(const ServerThread&) = delete;
  ~ServerThread() {
    stop_ = true;
    thread_.join();
  }
  std::uint16_t port() const { return static_cast<std::uint16_t>(port_); }
  const net::ServerCounts& counts() const { return *counts_; }

  /// How to connect to it; without TLS when no certificates are given.
  net::ClientOptions client(const net::TlsFiles& tls = {}, const std::string& host = "127.0.0.1") const {
    using namespace std::chrono_literals;
    net::ClientOptions c;
    c.host = host;
    c.port = port();
    c.tls = tls;
    c.insecure_loopback = !tls.given();
    c.connect_timeout = 5s;
    c.answer_timeout = 30s;
    return c;
  }

private:
  std::atomic<bool> stop_{false};
  std::atomic<int> port_{0};
  const net::ServerCounts* counts_ = nullptr;
  std::thread thread_; // begins when all before it is there
};

} // namespace eg::test
