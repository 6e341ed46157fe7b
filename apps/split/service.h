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
  std::optional<training::EncoderRecipe> recipe; ///< what every run must be; nothing: as each requests
  std::string out;                               ///< folder for checkpoints, RUN below it for each run; empty: none
  std::uint64_t seed = 0;                        ///< of what the cloud draws
  std::int64_t keep = 3;                         ///< newest checkpoints of a run that stay
  std::size_t runs = 8;                          ///< most runs in memory
  std::int64_t parameters = 1'000'000'000;       ///< most of one run
  net::FrameLimits frames;
};

/// Counts for display.
struct ServiceCounts {
  std::uint64_t requests = 0, refusals = 0, repeated = 0, steps = 0;
};

/// All calls on one thread: runs hold tapes.
class EncoderService : public net::Service {
public:
  explicit EncoderService(ServiceOptions options);
  ~EncoderService() override;

  Bytes handle(net::Peer& peer, ByteView frame) override;
  void leave(const net::Peer& peer) override;
  net::FrameLimits limits(const net::Peer& peer) const override {
    return peer.opened.empty() ? net::limits_before_open : options_.frames;
  }

  /// Writes a checkpoint of every run that has begun. Throws FileError, of the first that could not be written, when
  /// the others' are.
  void save_all();
  std::size_t runs() const { return runs_.size(); }
  /// Of a run, for tests and display; null when it is not in memory.
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
  /// The run that is opened, by how; `there`: it is in memory. What is refused changes nothing.
  Hosted& begin_run(const Opening& opening, const HostedPlace& place, Hosted* there);
  Hosted& continue_run(const Opening& opening, const HostedPlace& place, Hosted* there);
  Hosted& resume_run(const Opening& opening, const HostedPlace& place, Hosted* there);
  /// A checkpoint of a run that has begun, and its last answer beside it.
  static void save(Hosted& hosted);
  Hosted from_disk(const Opening& opening, const HostedPlace& place, bool newest) const;
  /// What `make` gives, when memory allows: another run may be moved to the disk. Throws ProtocolError
  /// (no_room).
  Hosted& take_in(const std::string& name, FunctionRef<Hosted()> make);
  Hosted& hosted_for(const net::Peer& peer);
  /// The run that would have to go for another one; runs_.end() when none. Throws ProtocolError (no_room).
  Runs::iterator eviction_candidate();
  HostedPlace place_of(const std::string& run, const std::string& peer) const;
  void once(Hosted& hosted, const net::Message& request, ByteView frame);
  /// The frame of the last answer. Throws MemoryError; it can be requested again.
  static const Bytes& answer_of(Hosted& hosted);
  static net::Message perform(HostedRun& run, const net::Message& request);

  ServiceOptions options_;
  Runs runs_;
  ServiceCounts counts_;
  std::uint64_t clock_ = 0;
};

} // namespace eg::split_learning
