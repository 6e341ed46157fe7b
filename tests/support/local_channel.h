#pragma once
// A cloud in the same thread, and connections to it that break where a test says.

#include "apps/net/channel.h"
#include "apps/net/errors.h"
#include "apps/net/service.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace eg::test {

/// All that crossed between a user and the cloud.
struct Traffic {
  Bytes sent, received;
};

/// What happens to a frame that is sent.
enum class Fate : std::uint8_t { arrives, lost, answer_lost };

/// A connection to a service. Each frame's fate is asked for.
class LocalChannel : public net::Channel {
public:
  LocalChannel(net::Service& service, net::Peer peer, std::function<Fate(ByteView)> fate, Traffic* traffic)
      : service_(service), peer_(std::move(peer)), fate_(std::move(fate)), traffic_(traffic) {}
  ~LocalChannel() override { service_.leave(peer_); }

  void send(ByteView frame) override {
    const Fate fate = fate_ ? fate_(frame) : Fate::arrives;
    if (fate == Fate::lost) throw net::ConnectionError("test: lost on the way there");
    if (traffic_ != nullptr) traffic_->sent.insert(traffic_->sent.end(), frame.begin(), frame.end());
    answer_ = service_.handle(peer_, frame);
    if (fate == Fate::answer_lost) answer_.clear();
  }
  Bytes receive() override {
    if (answer_.empty()) throw net::ConnectionError("test: lost on the way back");
    if (traffic_ != nullptr) traffic_->received.insert(traffic_->received.end(), answer_.begin(), answer_.end());
    return std::exchange(answer_, {});
  }

private:
  net::Service& service_;
  net::Peer peer_;
  std::function<Fate(ByteView)> fate_;
  Traffic* traffic_;
  Bytes answer_;
};

/// Connections of a peer called `name`.
inline net::Connect connect_to(net::Service& service, const std::string& name, std::function<Fate(ByteView)> fate = {},
                               Traffic* traffic = nullptr) {
  return [&service, name, fate = std::move(fate), traffic, number = std::uint64_t{0}]() mutable {
    static std::uint64_t connections = 0;
    number = ++connections;
    return std::make_unique<LocalChannel>(service, net::Peer{.name = name, .number = number}, fate, traffic);
  };
}

} // namespace eg::test
