#pragma once
// Exchanges bytes between the processes of a run, in the same order on each of them.

#include "core/base/function_ref.h"
#include "distributed/error.h"
#include "distributed/transport.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace eg::distributed {

/// What a message is for; its receiver refuses another one.
enum class Kind : std::uint8_t { lengths = 1, gather, broadcast, shard_sums, sums, weights, state, deal, leaving };

/// Where a process is.
struct Process {
  std::string host;
  std::int64_t pid = 0;
  std::string affinity = {}; ///< processors that it may use, as the system lists them: "0-3,8"
  int processors = 1;        ///< their number

  /// "process 2 (pid 1234 on node7)".
  std::string words(int rank) const;
};

/// What work on the communication thread uses. All processes do the same work in the same order.
class Link {
public:
  virtual ~Link() = default;
  struct Out {
    int to = 0;
    std::span<const std::byte> bytes;
  };
  struct In {
    int from = 0;
    std::span<std::byte> bytes;
  };
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Begins a collective operation; its messages are of that kind and no other.
  virtual void begin(Kind kind) = 0;
  /// Sends and receives at the same time, and waits for all of it. Several messages of one process come in the order of
  /// `in`. Throws DistributedError for a message of another kind, another operation or another size, and when a process
  /// does not answer.
  virtual void exchange(std::span<const Out> out, std::span<const In> in) = 0;
  /// Whether a message of that process has come.
  virtual bool waiting(int from) = 0;
  /// To be called often by work that waits for something else than exchange(). Throws when a process does not answer.
  virtual void keep_alive() = 0;
};

/// The processes of a run. One process alone is the trivial case. With several, one thread of its own sends and
/// receives, so that computation goes on meanwhile; it sleeps while it waits. Each process also tells its neighbour
/// once a second that it lives: where nothing is heard for `timeout`, the next call throws. After a failure every call
/// throws the same error, and nothing is exchanged any more; the other processes are told why: they throw Interrupted
/// where the first one did, or called finish() while they did something else. To be used by one thread at a time.
class Communicator {
public:
  using Seconds = std::chrono::duration<double>;

  /// One process alone.
  Communicator();
  /// Calls `open` on the communication thread, which alone uses the transport. Throws what it throws, DistributedError
  /// when processes do not answer.
  explicit Communicator(std::function<std::unique_ptr<Transport>()> open, Seconds timeout = Seconds(60));
  /// Ends all processes when finish() was not called: what is left of a run that failed.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  bool alone() const { return size_ == 1; }
  /// The one that writes and speaks.
  bool first() const { return rank_ == 0; }
  /// "Open MPI 4.1.4"; "" alone.
  const std::string& transport() const { return name_; }
  const std::vector<Process>& processes() const { return processes_; }
  /// How many threads this process should use: the processors that it may use, divided by the processes on its host
  /// that may use the same ones; at least 1.
  int fair_threads() const;

  /// Every process's bytes, in order of rank, on every process.
  std::vector<std::string> gather(std::string mine);
  /// The same, not waited for.
  std::future<std::vector<std::string>> gather_later(std::string mine);
  /// The bytes of process 0.
  std::string broadcast(std::string bytes);
  /// Replaces the bytes by those of process 0; sizes are the same everywhere.
  void broadcast(std::span<std::byte> bytes);
  /// Whether it is true on some process.
  bool any(bool mine);
  /// What process 0 decides.
  bool decided(bool by_first);
  /// Throws DistributedError where another process than 0 has other bytes: "process 2 (pid 7 on b): WHAT is not that of
  /// process 0". Called by all.
  void require_same(const std::string& what, std::string mine);
  void barrier();
  /// Has the communication thread do collective work after what was posted before.
  std::future<void> post(std::function<void(Link&)> work);
  /// The result of what was posted; the time until it is there counts as waited.
  template <class T> T wait(std::future<T> result) {
    const auto begin = std::chrono::steady_clock::now();
    result.wait();
    waited_ += std::chrono::steady_clock::now() - begin;
    return result.get();
  }

  /// What communication has cost this process so far.
  struct Traffic {
    double waited = 0.0;   ///< seconds in which the calling thread waited for other processes: what no work hides
    std::int64_t sent = 0; ///< bytes, without those of heartbeats
  };
  Traffic traffic() const;

  /// Waits for all processes, calls `before_end`, ends the transport. Nothing is exchanged afterwards.
  void finish(const std::function<void()>& before_end = {});
  /// Ends all processes, this one too, with that exit code.
  [[noreturn]] void abort(int code) noexcept;

private:
  class Worker;
  std::unique_ptr<Worker> worker_; ///< null alone
  int rank_ = 0, size_ = 1;
  std::string name_;
  std::vector<Process> processes_;
  Seconds waited_{0};
};

/// This process.
Process this_process();

} // namespace eg::distributed
