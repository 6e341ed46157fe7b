#pragma once
// Serves all runs of the cloud behind one function. Knows no sockets.

#include "apps/net/service.h"
#include "apps/split/hosted_run.h"
#include "core/base/function_ref.h"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace eg::split_learning {

struct ServiceOptions {
  std::optional<training::EncoderRecipe> recipe; ///< what every run must have; empty: what each requests
  std::string out;                               ///< folder for checkpoints, RUN below it for each run; empty: none
  std::uint64_t seed = 0;                        ///< of what the cloud draws
  std::int64_t keep = 3;                         ///< so many newest checkpoints of a run are kept
  std::size_t runs = 8;                          ///< at most so many runs in memory
  std::int64_t parameters = 1'000'000'000;       ///< at most so many in one run
  net::FrameLimits frames;
};

/// Counts for display.
struct ServiceCounts {
  std::uint64_t requests = 0, refusals = 0, repeated = 0, steps = 0;
};

/// Answers the requests of all edges. All calls are made on one thread, because runs hold tapes.
class EncoderService : public net::Service {
public:
  explicit EncoderService(ServiceOptions options);
  ~EncoderService() override;

  Bytes handle(net::Peer& peer, ByteView frame) override;
  void leave(const net::Peer& peer) override;
  net::FrameLimits limits(const net::Peer& peer) const override {
    return peer.opened.empty() ? net::limits_before_open : options_.frames;
  }

  /// Writes a checkpoint of every run that has begun. It tries all, then throws the first error.
  void save_all();
  std::size_t runs() const { return runs_.size(); }
  /// The run of that name, for tests; null when it is not in memory.
  const HostedRun* run(const std::string& name) const;
  const ServiceCounts& counts() const { return counts_; }

private:
  using Digest = std::array<unsigned char, 32>;
  /// A run, and the request that was answered last.
  struct Hosted {
    std::unique_ptr<HostedRun> run;
    std::uint64_t serial = 0; ///< of the last request; 0: none
    Digest digest{};
    std::optional<net::Message> done; ///< its answer, until there is memory for the frame
    Bytes answer;                     ///< the frame
    std::uint64_t connection = 0;     ///< whose requests count; 0: no connection
    std::uint64_t used = 0;           ///< when it was used last
  };
  using Runs = std::map<std::string, Hosted>;
  struct Opening;
  static Opening opening_of(const net::Message& request);
  net::Message open(net::Peer& peer, const net::Message& request);
  void require_allowed(const training::EncoderRecipe& recipe) const;
  /// The run that is opened, as new, continued or resumed. `there`: the run where it is in memory, else null. A refusal
  /// changes nothing, unless a checkpoint turns out to be unreadable: then resume_run() drops the run from memory.
  Hosted& begin_run(const Opening& opening, const HostedPlace& place, Hosted* there);
  Hosted& continue_run(const Opening& opening, const HostedPlace& place, Hosted* there);
  Hosted& resume_run(const Opening& opening, const HostedPlace& place, Hosted* there);
  /// A checkpoint of a run that has begun, and its last answer beside it.
  static void save(Hosted& hosted);
  /// The run, from its newest checkpoint or from that of the opening's step.
  Hosted from_disk(const Opening& opening, const HostedPlace& place, bool newest) const;
  /// Adds the run that `make` gives. At the limit of runs it first saves and drops another one. Throws ProtocolError
  /// (no_room).
  Hosted& admit(const std::string& name, FunctionRef<Hosted()> make);
  Hosted& hosted_for(const net::Peer& peer);
  /// The run to drop for a new one: of those without a connection the one used longest ago; runs_.end() when there is
  /// room. Throws ProtocolError (no_room) when none can be dropped.
  Runs::iterator eviction_candidate();
  HostedPlace place_of(const std::string& run, const std::string& peer) const;
  /// Performs a request, unless it is the last one again, and stores its answer.
  void perform_once(Hosted& hosted, const net::Message& request, ByteView frame);
  /// The frame of the last answer. Throws MemoryError; it can be requested again.
  static const Bytes& answer_of(Hosted& hosted);
  static net::Message perform(HostedRun& run, const net::Message& request);

  ServiceOptions options_;
  Runs runs_;
  ServiceCounts counts_;
  std::uint64_t clock_ = 0;
};

} // namespace eg::split_learning
