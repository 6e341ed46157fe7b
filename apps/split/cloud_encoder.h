#pragma once
// Implements the edge's half of split learning: an encoder whose blocks a cloud holds.

#include "apps/net/channel.h"
#include "apps/net/retry_policy.h"
#include "apps/net/wire.h"
#include "training/remote_encoder.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace eg::split_learning {

/// Options of a CloudEncoder.
struct RemoteOptions {
  bool cloud_draws_weights = false; ///< the cloud draws the first weights
  net::RetryPolicy retry_policy;
  net::FrameLimits frames; ///< for answers
};

/// Counts of what went over the wire, including headers and repetitions, without TLS.
struct WireCounts {
  std::uint64_t sent = 0, received = 0; ///< bytes
  std::uint64_t requests = 0;
  std::uint64_t reconnects = 0;
  std::uint64_t steps = 0;      ///< whose gradients came back
  std::uint64_t step_bytes = 0; ///< of forward and backward requests and their answers
  double step_seconds = 0.0;    ///< from requests of steps to their answers, summed
  double slowest_step = 0.0;    ///< seconds
};

/// Encoder blocks that a cloud holds. After a lost connection it connects again and repeats the outstanding request;
/// the cloud does each request once. A request that is beyond the cloud's capacity is repeated later. Throws
/// ConnectionError after the last attempt, ProtocolError when the cloud refuses.
class CloudEncoder : public training::RemoteEncoder {
public:
  explicit CloudEncoder(net::Connect connect, const RemoteOptions& options = {});
  ~CloudEncoder() override;

  void begin(const training::EncoderRecipe& recipe, const nn::StateDict& blocks) override;
  void resume(const training::EncoderRecipe& recipe, const std::string& run, std::int64_t step) override;
  std::string run() const override { return run_; }
  Tensor encode(const Tensor& z, const Tensor& mask, std::int64_t step) override;
  Tensor evaluate(const Tensor& z, const Tensor& mask) override;
  void save(std::int64_t step, std::optional<std::int64_t> best) override;
  nn::StateDict blocks() override;

  const WireCounts& counts() const { return counts_; }

private:
  /// How the run is opened when there is no connection.
  enum class How : std::uint8_t { fresh, again, resume };
  /// Sends a request, with the next serial, until it is answered with that kind. Throws what the cloud refuses.
  net::Message ask(net::Message request, net::MessageKind expected);
  /// The answer to a request's frame, over new connections where the old one is lost.
  net::Message answered(ByteView frame, std::uint64_t serial);
  void open();
  void send_weights(const nn::StateDict& blocks);
  net::Message exchange(ByteView frame);
  Tensor forward(std::int64_t step, const Tensor& z, const Tensor& mask);
  Tensor backward(std::int64_t step, const Tensor& z, const Tensor& mask, const Tensor& dy);
  void count_step(double seconds, std::uint64_t bytes_before, bool done);

  net::Connect connect_;
  RemoteOptions options_;
  training::EncoderRecipe recipe_;
  std::vector<std::string> names_; ///< of the blocks' weights
  std::unique_ptr<net::Channel> channel_;
  How how_ = How::fresh;
  std::string run_;
  std::uint64_t serial_ = 0; ///< of the last request
  std::int64_t step_ = 0;    ///< steps done
  double this_step_ = 0.0;   ///< seconds that the current step has waited for answers
  WireCounts counts_;
};

} // namespace eg::split_learning
