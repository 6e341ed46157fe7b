#pragma once
// Runs threads as the processes of a Communicator, over messages in memory that a test can damage.

#include "distributed/communicator.h"

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <fmt/format.h>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace eg::test {

/// A message on its way from one rank to another.
struct RankMessage {
  int from = 0, to = 0, tag = 0;
  std::vector<std::byte> bytes;
  bool is_heartbeat() const { return tag == 0; }
};

/// What all ranks share.
class RankHub {
public:
  /// Looks at every message that is sent, under a lock, and may change it. False: it is lost.
  using Fate = std::function<bool(RankMessage&)>;

  RankHub(int size, bool rendezvous, Fate fate) : size_(size), rendezvous_(rendezvous), fate_(std::move(fate)) {}

  class OneTransport;
  int size() const { return size_; }
  /// From now on every call of every rank throws: what MPI_Abort does to processes.
  void stop_all(const std::string& why) {
    const std::lock_guard lock(mutex_);
    if (stopped_.empty()) stopped_ = why;
  }

private:
  struct Kept {
    RankMessage message;
    std::atomic<bool> taken = false;
  };
  void require_running() const {
    if (!stopped_.empty()) throw distributed::DistributedError(stopped_);
  }

  int size_;
  bool rendezvous_; ///< a message is sent when it is received, as large ones of MPI are
  Fate fate_;
  std::mutex mutex_;
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<Kept>>> queues_;
  int finished_ = 0;
  std::string stopped_;
};

class RankHub::OneTransport final : public distributed::Transport {
public:
  OneTransport(std::shared_ptr<RankHub> hub, int rank) : hub_(std::move(hub)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return hub_->size_; }
  std::string name() const override { return "threads"; }
  std::unique_ptr<Request> send(int to, int tag, const void* data, std::int64_t bytes) override {
    const std::lock_guard lock(hub_->mutex_);
    hub_->require_running();
    auto kept = std::make_shared<Kept>();
    kept->message = {rank_, to, tag, std::vector<std::byte>(static_cast<std::size_t>(bytes))};
    if (bytes > 0) std::memcpy(kept->message.bytes.data(), data, static_cast<std::size_t>(bytes));
    const bool eager = !hub_->rendezvous_;
    if (!hub_->fate_ || hub_->fate_(kept->message))
      hub_->queues_[{rank_, to}].push_back(kept);
    else
      kept->taken = true;
    return std::make_unique<Sent>(std::move(kept), eager);
  }
  std::optional<Arrival> probe(int from) override {
    const std::lock_guard lock(hub_->mutex_);
    hub_->require_running();
    auto& queue = hub_->queues_[{from, rank_}];
    if (queue.empty()) return {};
    std::shared_ptr<Kept> kept = queue.front();
    queue.pop_front();
    return Arrival{kept->message.tag, static_cast<std::int64_t>(kept->message.bytes.size()), kept};
  }
  std::unique_ptr<Request> receive(Arrival arrival, void* data) override {
    const auto kept = std::static_pointer_cast<Kept>(arrival.handle);
    if (!kept->message.bytes.empty()) std::memcpy(data, kept->message.bytes.data(), kept->message.bytes.size());
    kept->taken = true;
    return std::make_unique<Sent>(kept, true);
  }
  void finish() override {
    {
      const std::lock_guard lock(hub_->mutex_);
      ++hub_->finished_;
    }
    for (;;) {
      {
        const std::lock_guard lock(hub_->mutex_);
        hub_->require_running();
        if (hub_->finished_ == hub_->size_) return;
      }
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
  /// This process is every rank.
  void abort(int code) noexcept override { std::_Exit(code); }

private:
  class Sent final : public Request {
  public:
    Sent(std::shared_ptr<Kept> kept, bool eager) : kept_(std::move(kept)), eager_(eager) {}
    bool done() override { return eager_ || kept_->taken; }

  private:
    std::shared_ptr<Kept> kept_;
    bool eager_;
  };
  std::shared_ptr<RankHub> hub_;
  int rank_;
};

struct RankOptions {
  bool rendezvous = false;
  RankHub::Fate fate = {};
  distributed::Communicator::Seconds timeout{60};
  bool one_failure_stops_all = true; ///< as a process that ends with an error ends the others
};

/// Runs `f` on each of n ranks. What each threw, "" where nothing.
inline std::vector<std::string> run_ranks(int n, const std::function<void(distributed::Communicator&)>& f,
                                          const RankOptions& options = {}) {
  auto hub = std::make_shared<RankHub>(n, options.rendezvous, options.fate);
  std::vector<std::string> errors(static_cast<std::size_t>(n));
  std::vector<std::thread> ranks;
  for (int r = 0; r < n; ++r)
    ranks.emplace_back([&, r] {
      // One that failed is kept for ever: its end would end the process.
      static std::mutex guard;
      static auto& failed = *new std::vector<std::unique_ptr<distributed::Communicator>>;
      std::unique_ptr<distributed::Communicator> mine;
      try {
        mine = std::make_unique<distributed::Communicator>(
            [&hub, r] { return std::make_unique<RankHub::OneTransport>(hub, r); }, options.timeout);
        f(*mine);
        mine->finish();
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(r)] = *error.what() == '\0' ? "an error without words" : error.what();
        if (options.one_failure_stops_all) hub->stop_all(fmt::format("rank {} stopped: {}", r, error.what()));
        const std::lock_guard lock(guard);
        if (mine) failed.push_back(std::move(mine));
      }
    });
  for (std::thread& rank : ranks) rank.join();
  return errors;
}

/// All that ranks threw, one a line: "" where all went well.
inline std::string joined(const std::vector<std::string>& errors) {
  std::string all;
  for (std::size_t r = 0; r < errors.size(); ++r)
    if (!errors[r].empty()) all += fmt::format("rank {}: {}\n", r, errors[r]);
  return all;
}

} // namespace eg::test
