#include "apps/stip/user.h"

#include "apps/net/service.h"
#include "core/call.h"
#include "core/ops.h"
#include "nn/decoder.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <optional>

namespace eg::stip {

using net::Connect;
using net::FrameLimits;
using net::Message;
using net::MessageKind;
using net::RetryPolicy;
namespace {

StipTraffic operator+(const StipTraffic& a, const StipTraffic& b) {
  return {.sent = a.sent + b.sent,
          .received = a.received + b.received,
          .requests = a.requests + b.requests,
          .seconds = a.seconds + b.seconds};
}

StipTraffic operator-(const StipTraffic& a, const StipTraffic& b) {
  return {.sent = a.sent - b.sent,
          .received = a.received - b.received,
          .requests = a.requests - b.requests,
          .seconds = a.seconds - b.seconds};
}

} // namespace

CloudSession::CloudSession(const Connect& connect, const UserModel& user, std::int64_t tokens,
                           const FrameLimits& frames)
    : channel_(connect()), frames_(frames), dtype_(user.dtype()) {
  const nlohmann::ordered_json words{{"model", user.id()}, {"tokens", static_cast<std::uint64_t>(tokens)}};
  exchange({.kind = MessageKind::open, .text = words.dump()}, MessageKind::opened);
}

Message CloudSession::exchange(const Message& request, MessageKind expected) {
  const auto begin = std::chrono::steady_clock::now();
  const Bytes frame = net::frame_of(request);
  channel_->send(frame);
  const Bytes received = channel_->receive();
  Message answer = net::parse_frame(received, frames_);
  traffic_.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  traffic_.sent += frame.size();
  traffic_.received += received.size();
  ++traffic_.requests;
  net::require_not_refused(answer);
  if (answer.kind != expected || answer.serial != request.serial)
    throw net::ProtocolError(net::RefusalCode::unexpected,
                             fmt::format("stip: the cloud answers {} {} with {} {}", name_of(request.kind),
                                         request.serial, name_of(answer.kind), answer.serial));
  return answer;
}

Tensor CloudSession::answered(Message request, const Shape& shape) {
  const PauseRecording pause;
  request.serial = ++serial_;
  Tensor y = exchange(request, MessageKind::features).tensor("y");
  if (y.dtype() != dtype_ || y.shape() != shape)
    throw net::ProtocolError(net::RefusalCode::wrong_tensor,
                             fmt::format("stip: the cloud answers with {} {} where {} {} belongs", name_of(y.dtype()),
                                         y.shape().str(), name_of(dtype_), shape.str()));
  net::require_finite(y, "the cloud's answer");
  return y;
}

Tensor CloudSession::advance(const Tensor& z) {
  Tensor y = answered({.kind = MessageKind::advance, .step = tokens_, .tensors = {{"z", z}}}, {1, 1, z.size(2)});
  tokens_ += static_cast<std::uint64_t>(z.size(1));
  return y;
}

Tensor CloudSession::evaluate(const Tensor& z, const Tensor& mask) {
  Message request{.kind = MessageKind::evaluate, .tensors = {{"z", z}}};
  if (mask.defined()) request.tensors.push_back({"mask", mask});
  return answered(std::move(request), z.shape());
}

CloudText::CloudText(Connect connect, const UserModel& user, std::int64_t tokens, const RetryPolicy& retry_policy,
                     const FrameLimits& frames)
    : connect_(std::move(connect)), user_(user), tokens_(tokens), retry_policy_(retry_policy), frames_(frames) {
  for (int attempt = 0; !session_; ++attempt) try {
      this->connect();
    } catch (const net::NoRoomError& full) { // other users' texts end some time
      retry_policy_.wait(attempt, full);
    }
}

StipTraffic CloudText::traffic() const { return session_ ? before_ + session_->traffic() : before_; }

Tensor CloudText::advance(const Tensor& z) {
  const std::uint64_t token = static_cast<std::uint64_t>(z.size(2)) * size_of(z.dtype());
  const std::uint64_t fit = (frames_.body - std::min(frames_.body, net::frame_overhead)) / token;
  const auto most = static_cast<std::int64_t>(std::clamp<std::uint64_t>(fit, 1, std::uint64_t{1} << 40));
  Tensor y;
  for (std::int64_t from = 0; from < z.size(1); from += most)
    y = pass(slice(z, 1, from, std::min(from + most, z.size(1))));
  return y;
}

Tensor CloudText::pass(const Tensor& z) {
  sent_.push_back(z);
  const auto send_the_rest = [&](int) {
    if (!session_) {
      connect();
      ++reconnects_;
    }
    Tensor y;
    for (; passed_ < sent_.size(); ++passed_) y = session_->advance(sent_[passed_]);
    return y;
  };
  return retry_policy_.keep(send_the_rest, [&] {
    before_ = traffic();
    session_.reset();
    passed_ = 0;
  });
}

StipText stip_generate(const UserModel& user, const Connect& connect, const data::Tokenizer* tokenizer,
                       std::span<const std::int64_t> prompt, const nn::GenerateOptions& options,
                       const std::vector<std::string>& stops, FunctionRef<void(std::string_view)> on_text,
                       const RetryPolicy& retry_policy, const FrameLimits& frames) {
  const nn::Decoder* decoder = user.model().decoder();
  // The cloud takes no more, whatever its positions are.
  if (const std::int64_t most = user.model().positions();
      decoder != nullptr && std::ssize(prompt) + options.max_new_tokens > most)
    throw ValueError(
        fmt::format("generate: a prompt of {} tokens and {} new ones are more than the model's {} positions",
                    prompt.size(), options.max_new_tokens, most));
  std::optional<CloudText> session; // opened once the prompt was found right
  std::int64_t past = 0;
  StipText result;
  const auto hidden = [&](const Tensor& ids) {
    if (!session)
      session.emplace(connect, user, static_cast<std::int64_t>(prompt.size()) + options.max_new_tokens, retry_policy,
                      frames);
    const Tensor y = session->advance(user.hidden(decoder->embed({.ids = ids}, past)));
    if (past == 0) result.prompt = session->traffic();
    past += ids.size(1);
    return decoder->norm(user.plain(y));
  };
  result.text = hub::generate_text(user.model(), tokenizer, prompt, options, stops, on_text, hidden);
  if (session) {
    result.tokens = session->traffic() - result.prompt;
    result.reconnects = session->reconnects();
  }
  return result;
}

StipOutputs stip_forward(const UserModel& user, const Connect& connect, const hub::Tensors& inputs,
                         const RetryPolicy& retry_policy, const FrameLimits& frames) {
  StipOutputs result;
  result.outputs = user.model().forward_around(inputs, [&](const Tensor& z, const Tensor& mask) {
    const auto ask = [&](int) {
      CloudSession session(connect, user, 0, frames);
      Tensor y = user.plain(session.evaluate(user.hidden(z), mask));
      result.traffic = session.traffic();
      return y;
    };
    return retry_policy.keep(ask, [] {});
  });
  return result;
}

} // namespace eg::stip
