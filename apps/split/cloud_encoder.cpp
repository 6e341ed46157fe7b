#include "apps/split/cloud_encoder.h"

#include "apps/split/hosted_run.h"
#include "apps/split/recipe.h"
#include "core/call.h"
#include "permute/digest.h"
#include "training/checkpoint_state.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>

namespace eg::split_learning {

using net::Message;
using net::MessageKind;
using net::ProtocolError;
using net::RefusalCode;
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

} // namespace

CloudEncoder::CloudEncoder(net::Connect connect, const RemoteOptions& options)
    : connect_(std::move(connect)), options_(options) {}

CloudEncoder::~CloudEncoder() = default;

Message CloudEncoder::exchange(ByteView frame) {
  counts_.sent += frame.size();
  channel_->send(frame);
  const Bytes answer = channel_->receive();
  counts_.received += answer.size();
  return net::parse_frame(answer, options_.frames);
}

void CloudEncoder::open() {
  channel_.reset();
  channel_ = connect_();
  const char* how = how_ == How::fresh ? "new" : how_ == How::resume ? "resume" : "continue";
  // When a request is outstanding it has a serial already and is the next one that the cloud will see.
  const nlohmann::ordered_json words{
      {"run", run_}, {"how", how}, {"next", std::max<std::uint64_t>(serial_, 1)}, {"recipe", recipe_json(recipe_)}};
  const Message answer = exchange(
      net::frame_of({.kind = MessageKind::open, .step = static_cast<std::uint64_t>(step_), .text = words.dump()}));
  net::require_not_refused(answer);
  if (answer.kind != MessageKind::opened)
    throw ProtocolError(RefusalCode::unexpected,
                        fmt::format("split: the cloud answers open with {}", name_of(answer.kind)));
}

Message CloudEncoder::answered(ByteView frame, std::uint64_t serial) {
  const auto once = [&](int attempt) {
    if (!channel_) {
      open();
      how_ = How::again;
      if (attempt > 0) ++counts_.reconnects;
    }
    Message answer = exchange(frame);
    // What was refused before it was read has no serial.
    if (answer.serial == 0) net::require_not_refused(answer);
    if (answer.serial != serial)
      throw ProtocolError(RefusalCode::out_of_order,
                          fmt::format("split: the cloud answers request {} where {} was asked", answer.serial, serial));
    return answer;
  };
  try {
    return options_.retry_policy.keep(once, [this] { channel_.reset(); });
  } catch (...) {
    channel_.reset();
    throw;
  }
}

Message CloudEncoder::ask(Message request, MessageKind expected) {
  const PauseRecording pause;
  Message answer;
  for (int attempt = 0;; ++attempt) try {
      request.serial = ++serial_; // a refusal is the answer to its serial for good
      ++counts_.requests;
      answer = answered(net::frame_of(request), request.serial);
      net::require_not_refused(answer);
      break;
    } catch (const net::NoRoomError& full) {
      options_.retry_policy.wait(attempt, full);
    }
  if (answer.kind != expected)
    throw ProtocolError(RefusalCode::unexpected, fmt::format("split: the cloud answers {} with {}",
                                                             name_of(request.kind), name_of(answer.kind)));
  return answer;
}

void CloudEncoder::begin(const training::EncoderRecipe& recipe, const nn::StateDict& blocks) {
  recipe_ = recipe;
  for (int attempt = 1;; ++attempt) try {
      return send_weights(blocks);
    } catch (const ProtocolError& e) {
      // A cloud that was started again has forgotten a run that had not begun.
      if (e.code() != RefusalCode::unknown_run || attempt >= options_.retry_policy.attempts) throw;
    }
}

void CloudEncoder::send_weights(const nn::StateDict& blocks) {
  run_ = permute::fresh_name("split learning");
  how_ = How::fresh;
  names_.clear();
  for (const auto& [name, value] : blocks) {
    names_.push_back(name);
    if (!options_.cloud_draws_weights) ask({.kind = MessageKind::put, .tensors = {{name, value}}}, MessageKind::done);
  }
  ask({.kind = MessageKind::begin, .text = options_.cloud_draws_weights ? "draw" : "put"}, MessageKind::done);
}

void CloudEncoder::resume(const training::EncoderRecipe& recipe, const std::string& run, std::int64_t step) {
  recipe_ = recipe;
  run_ = run;
  step_ = step;
  how_ = How::resume;
  names_ = nn::parameter_names(EncoderBlocks(recipe.layers, recipe.block));
  try {
    options_.retry_policy.keep([this](int) { open(); }, [this] { channel_.reset(); });
    how_ = How::again;
  } catch (const ProtocolError& e) {
    channel_.reset();
    // An earlier checkpoint may be there on both sides.
    if (e.code() == RefusalCode::no_checkpoint) throw training::DamagedCheckpoint(e.what());
    throw;
  }
}

namespace {

Tensor require_like(const Tensor& got, const Tensor& like, const char* what) {
  if (got.dtype() != like.dtype() || got.shape() != like.shape())
    throw ProtocolError(RefusalCode::wrong_tensor,
                        fmt::format("split: the cloud gives {} {} {}, not {} {}", what, name_of(got.dtype()),
                                    got.shape().str(), name_of(like.dtype()), like.shape().str()));
  return got;
}

std::vector<net::NamedTensor> inputs(const Tensor& z, const Tensor& mask) {
  std::vector<net::NamedTensor> tensors{{"z", z}};
  if (mask.defined()) tensors.push_back({"mask", mask});
  return tensors;
}

} // namespace

Tensor CloudEncoder::forward(std::int64_t step, const Tensor& z, const Tensor& mask) {
  step_ = step;
  const Message answer =
      ask({.kind = MessageKind::forward, .step = static_cast<std::uint64_t>(step), .tensors = inputs(z, mask)},
          MessageKind::features);
  return require_like(answer.tensors[0].value, z, "features");
}

Tensor CloudEncoder::backward(std::int64_t step, const Tensor& z, const Tensor& mask, const Tensor& dy) {
  Message answer;
  for (int attempt = 1;; ++attempt) try {
      answer = ask({.kind = MessageKind::backward, .step = static_cast<std::uint64_t>(step), .tensors = {{"dy", dy}}},
                   MessageKind::gradients);
      break;
    } catch (const ProtocolError& e) {
      if (e.code() != RefusalCode::no_forward || attempt >= options_.retry_policy.attempts) throw;
      forward(step, z, mask); // the cloud was restarted: the same numbers again
    }
  step_ = step + 1;
  return require_like(answer.tensors[0].value, z, "gradients");
}

void CloudEncoder::count_step(double seconds, std::uint64_t bytes_before, bool done) {
  counts_.step_bytes += counts_.sent + counts_.received - bytes_before;
  counts_.step_seconds += seconds;
  this_step_ += seconds;
  if (!done) return;
  ++counts_.steps;
  counts_.slowest_step = std::max(counts_.slowest_step, this_step_);
  this_step_ = 0.0;
}

Tensor CloudEncoder::encode(const Tensor& z, const Tensor& mask, std::int64_t step) {
  const auto timed = [this](bool done, auto&& f) {
    const Clock::time_point begin = Clock::now();
    const std::uint64_t before = counts_.sent + counts_.received;
    Tensor result = f();
    count_step(seconds_since(begin), before, done);
    return result;
  };
  auto op = std::make_shared<CustomOp>();
  op->name = "encode_elsewhere";
  op->saves_outputs = false;
  op->forward = [this, timed, mask, step](std::span<const Tensor> in) {
    return std::vector<Tensor>{timed(false, [&] { return forward(step, in[0], mask); })};
  };
  op->vjp = [this, timed, mask, step](std::span<const Tensor> in, std::span<const Tensor>,
                                      std::span<const Tensor> grad) {
    return std::vector<Tensor>{timed(true, [&] { return backward(step, in[0], mask, grad[0]); })};
  };
  this_step_ = 0.0;
  return call(std::shared_ptr<const CustomOp>(op), std::span<const Tensor>(&z, 1))[0];
}

Tensor CloudEncoder::evaluate(const Tensor& z, const Tensor& mask) {
  const Message answer = ask({.kind = MessageKind::evaluate, .tensors = inputs(z, mask)}, MessageKind::features);
  return require_like(answer.tensors[0].value, z, "features");
}

void CloudEncoder::save(std::int64_t step, std::optional<std::int64_t> best) {
  step_ = step;
  const std::string kept = best ? std::to_string(*best) : "";
  for (int attempt = 0;; ++attempt) try {
      ask({.kind = MessageKind::save, .step = static_cast<std::uint64_t>(step), .text = kept}, MessageKind::done);
      return;
    } catch (const ProtocolError& e) {
      if (e.code() != RefusalCode::internal) throw;
      options_.retry_policy.wait(attempt, net::ConnectionError(e.what())); // a full disk may get space
    }
}

nn::StateDict CloudEncoder::blocks() {
  nn::StateDict found;
  for (const std::string& name : names_) {
    const Message answer = ask({.kind = MessageKind::fetch, .text = name}, MessageKind::weight);
    if (answer.tensors[0].name != name)
      throw ProtocolError(RefusalCode::unexpected,
                          fmt::format("split: the cloud gives '{}' for '{}'", answer.tensors[0].name, name));
    found.emplace_back(name, answer.tensors[0].value);
  }
  return found;
}

} // namespace eg::split_learning
