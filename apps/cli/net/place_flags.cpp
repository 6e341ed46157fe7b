#include "apps/cli/net/place_flags.h"

#include "apps/cli/shell/arguments.h"
#include "apps/cli/shell/interrupt.h"
#include "apps/cli/shell/verb.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <tuple>

namespace eg::cli {

void ListenFlags::declare(CLI::App& app, const CommonOptions& common) {
  app.add_option("--listen", listen, "Address and port to listen on; port 0: a free one")
      ->required()
      ->type_name("ADDR:PORT");
  certificates.declare(app, common, "cloud");
  app.add_option("--connections", connections, "Most users that are connected")
      ->check(whole_number(1, 10'000))
      ->capture_default_str();
  app.add_option("--message-mb", message_mb, "Largest message, MiB; users take answers of up to 256")
      ->check(whole_number(1, 256))
      ->capture_default_str();
  app.add_option("--memory-mb", memory_mb, "Messages on their way, all together, MiB")
      ->check(whole_number(1, 1'048'576))
      ->capture_default_str();
  app.add_option("--idle", idle_s, "Seconds after which a silent connection ends")
      ->check(whole_number(1, 86'400))
      ->capture_default_str();
}

net::ServerOptions ListenFlags::options() const {
  net::ServerOptions o;
  o.tls = certificates.files();
  o.insecure_loopback = certificates.insecure;
  std::tie(o.address, o.port) = host_and_port("--listen", listen);
  o.known = static_cast<std::size_t>(connections);
  if (memory_mb < message_mb)
    throw UsageError(
        fmt::format("--memory-mb {} has no room for one message of --message-mb {}", memory_mb, message_mb));
  o.memory = static_cast<std::uint64_t>(memory_mb) << 20;
  o.idle_timeout = std::chrono::seconds(idle_s);
  return o;
}

void tell_place(const ListenFlags& flags, const net::Server& server) {
  const std::string address = host_and_port("--listen", flags.listen).first;
  std::fputs(fmt::format("equigrad: listening on {}:{}{}\n", address, server.port(),
                         flags.certificates.insecure ? " without TLS" : "")
                 .c_str(),
             stderr);
}

void add_counts(nlohmann::json& json, const net::ServerCounts& counts) {
  json["connections"] = counts.connections.load();
  json["connections_refused"] = counts.refused.load();
  json["connections_dropped"] = counts.dropped.load();
  json["bytes_received"] = counts.received.load();
  json["bytes_sent"] = counts.sent.load();
}

void ConnectFlags::declare(CLI::App& app, const CommonOptions& common) {
  app.add_option("--connect", connect, "The cloud's address and port")->required()->type_name("HOST:PORT");
  certificates.declare(app, common, "edge");
  app.add_option("--answer-timeout", answer_s, "Seconds to wait for an answer")
      ->check(whole_number(1, 86'400))
      ->capture_default_str();
}

net::ClientOptions ConnectFlags::options() const {
  net::ClientOptions o;
  std::tie(o.host, o.port) = host_and_port("--connect", connect);
  o.tls = certificates.files();
  o.insecure_loopback = certificates.insecure;
  o.answer_timeout = std::chrono::seconds(answer_s);
  o.stop = &stop_flag();
  return o;
}

} // namespace eg::cli
