#pragma once
// Serves the cloud's blocks to several users at once, behind one function. Knows no sockets.

#include "apps/net/service.h"
#include "apps/stip/folders.h"

#include <cstdint>
#include <map>
#include <vector>

namespace eg::stip {

struct StipServiceOptions {
  std::int64_t tokens = 4096;                         ///< most of one session, and most rows times tokens of one pass
  std::uint64_t cache_bytes = std::uint64_t{1} << 30; ///< keys and values of all sessions
  std::size_t sessions = 64;                          ///< most that are open, with or without keys and values
  net::FrameLimits frames;
};

/// Counts for display.
struct StipServiceCounts {
  std::uint64_t requests = 0, refusals = 0, sessions = 0, tokens = 0;
  std::uint64_t passes = 0;    ///< through the blocks
  std::uint64_t in_passes = 0; ///< requests that they answered
  std::uint64_t most_rows = 0; ///< texts of one pass
};

/// Answers `open` (a session, with memory for the tokens of a text), `advance` (hidden states [1, t, dim] of a text's
/// next tokens in, that of the last one [1, 1, dim] out) and `evaluate` (whole texts [B, T, dim], with a mask where
/// some are padded; the same shape out). A session is its connection's and ends with it.
///
/// Requests that wait together pass through the blocks together, where one pass has the bits of several: texts of one
/// length, and products on the same side of skinny_gemm::most, below which a product's kernel is another one. So the
/// answer does not depend on the other users. (Where the processor has neither AVX2 nor NEON, OpenBLAS multiplies
/// and the last bits may.)
class StipService : public net::Service {
public:
  explicit StipService(CloudModel model, StipServiceOptions options = {});

  net::FrameLimits limits(const net::Peer& peer) const override;
  Bytes handle(net::Peer& peer, ByteView frame) override;
  void handle_all(std::span<const net::Request> requests, FunctionRef<void(std::size_t, Bytes)> answer) override;
  void leave(const net::Peer& peer) override;

  const CloudConfig& config() const { return model_.config; }
  const StipServiceCounts& counts() const { return counts_; }
  std::size_t sessions() const { return sessions_.size(); }
  /// Of keys and values that sessions hold.
  std::uint64_t cache_bytes() const { return cache_bytes_; }

private:
  struct Session {
    std::vector<nn::KvCache> layers; ///< none: the session has no text
    std::uint64_t bytes = 0, serial = 0;
  };
  /// A request that was found right and waits for its pass.
  struct Waiting {
    std::size_t index = 0;
    std::uint64_t serial = 0;
    Session* session = nullptr;
    Tensor z, mask;
    bool advances = false;
  };
  using Group = std::vector<Waiting>;

  net::Message open(net::Peer& peer, const net::Message& request);
  Waiting admit(const net::Peer& peer, const net::Message& request);
  void check_size(const net::Message& request) const;
  std::uint64_t bytes_for(std::int64_t tokens) const;
  void forget(std::uint64_t connection);
  bool fits(const Group& group, const Waiting& one) const;
  std::vector<Tensor> pass(const Group& group);
  Tensor advance(const Group& group, const Tensor& z) const;
  void answer_group(const Group& group, FunctionRef<void(std::size_t, Bytes)> answer);

  CloudModel model_;
  StipServiceOptions options_;
  std::map<std::uint64_t, Session> sessions_; ///< by connection
  std::uint64_t cache_bytes_ = 0;
  StipServiceCounts counts_;
};

} // namespace eg::stip
