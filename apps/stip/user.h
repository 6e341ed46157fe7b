#pragma once
// Runs the user's part: embeddings, key and head here, the blocks at the cloud.

#include "apps/net/channel.h"
#include "apps/net/retry_policy.h"
#include "apps/net/wire.h"
#include "apps/stip/folders.h"
#include "nn/hub/generation/text.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace eg::stip {

/// What crossed between user and cloud: whole frames, without what TLS adds.
struct StipTraffic {
  std::uint64_t sent = 0, received = 0, requests = 0;
  double seconds = 0.0; ///< from a request to its answer
};

/// One session with a cloud over one connection. A connection that is lost ends it: the cloud has forgotten its keys
/// and values then.
class CloudSession {
public:
  /// Connects, and opens a session for a text of up to `tokens` tokens (0: for evaluate() alone). Throws
  /// ConnectionError, TimeoutError, ProtocolError with the cloud's words.
  CloudSession(const net::Connect& connect, const UserModel& user, std::int64_t tokens,
               const net::FrameLimits& frames = {});

  /// Permuted hidden states [1, t, dim] of the text's next tokens in, that of the last one [1, 1, dim] out.
  Tensor advance(const Tensor& z);
  /// Of whole texts [B, T, dim]; mask [B, T] may be undefined.
  Tensor evaluate(const Tensor& z, const Tensor& mask);

  const StipTraffic& traffic() const { return traffic_; }

private:
  net::Message exchange(const net::Message& request, net::MessageKind expected);
  Tensor answered(net::Message request, const Shape& shape);

  std::unique_ptr<net::Channel> channel_;
  net::FrameLimits frames_;
  DType dtype_;
  std::uint64_t serial_ = 0, tokens_ = 0;
  StipTraffic traffic_;
};

/// One text at a cloud. Tokens that do not fit into one message go in several. When its connection is lost, or the
/// cloud is at capacity, another connection is made and all that was sent is sent again in the same parts: the answers
/// have the same bits.
class CloudText {
public:
  /// Connects; again only as long as the cloud is at capacity. Throws what CloudSession does, Interrupted.
  CloudText(net::Connect connect, const UserModel& user, std::int64_t tokens, const net::RetryPolicy& retry_policy,
            const net::FrameLimits& frames = {});

  /// As CloudSession::advance. Throws ConnectionError when patience has ended, Interrupted, ProtocolError.
  Tensor advance(const Tensor& z);
  StipTraffic traffic() const;
  std::uint64_t reconnects() const { return reconnects_; }

private:
  void connect() { session_.emplace(connect_, user_, tokens_, frames_); }
  Tensor pass(const Tensor& z);

  net::Connect connect_;
  const UserModel& user_;
  std::int64_t tokens_;
  net::RetryPolicy retry_policy_;
  net::FrameLimits frames_;
  std::optional<CloudSession> session_;
  std::vector<Tensor> sent_;
  std::size_t passed_ = 0; ///< of `sent_`, in the present session
  std::uint64_t reconnects_ = 0;
  StipTraffic before_; ///< of the sessions that were lost
};

/// A generated text and what it cost on the wire.
struct StipText {
  hub::GeneratedText text;
  StipTraffic prompt; ///< opening and the tokens of the prompt
  StipTraffic tokens; ///< each token after the first
  std::uint64_t reconnects = 0;
};

/// Continues a prompt as hub::generate_text does, with the blocks at the cloud. `frames`: the largest messages. Throws
/// what it does, and what CloudText does.
StipText stip_generate(const UserModel& user, const net::Connect& connect, const data::Tokenizer* tokenizer,
                       std::span<const std::int64_t> prompt, const nn::GenerateOptions& options,
                       const std::vector<std::string>& stops, FunctionRef<void(std::string_view)> on_text,
                       const net::RetryPolicy& retry_policy = {}, const net::FrameLimits& frames = {});

/// Outputs of one pass, as hub::Model::forward gives them.
struct StipOutputs {
  hub::Tensors outputs;
  StipTraffic traffic;
};
/// `patience`: a lost connection, and a cloud at capacity, are tried again. `frames`: the largest messages.
/// Throws what hub::Model::forward does, and what CloudText does.
StipOutputs stip_forward(const UserModel& user, const net::Connect& connect, const hub::Tensors& inputs,
                         const net::RetryPolicy& retry_policy = {}, const net::FrameLimits& frames = {});

} // namespace eg::stip
