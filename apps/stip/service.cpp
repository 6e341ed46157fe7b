#include "apps/stip/service.h"

#include "core/base/json.h"
#include "core/call.h"
#include "core/gemm/skinny_gemm.h"
#include "core/ops.h"
#include "nn/heads.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <new>
#include <optional>

namespace eg::stip {

using net::Message;
using net::MessageKind;
using net::Peer;
using net::RefusalCode;
namespace {

[[noreturn]] void refuse(RefusalCode code, const std::string& words) {
  throw net::ProtocolError(code, "stip: " + words);
}

struct Opening {
  std::string model;
  std::int64_t tokens = 0;
};

Opening opening_of(const std::string& text) {
  try {
    const nlohmann::json json = parse_json(text, "open");
    if (!json.is_object() || json.size() != 2 || !json.contains("model") || !json["model"].is_string() ||
        !json.contains("tokens") || !json["tokens"].is_number_unsigned())
      refuse(RefusalCode::malformed, "open must have model and tokens");
    const auto tokens = json["tokens"].get<std::uint64_t>();
    if (tokens > std::uint64_t{1} << 40) refuse(RefusalCode::too_large, "a text of more than 2^40 tokens");
    return {json["model"].get<std::string>(), static_cast<std::int64_t>(tokens)};
  } catch (const FileError& e) {
    throw net::ProtocolError(RefusalCode::malformed, e.what());
  }
}

/// Rows of the products that a request's tokens make.
std::int64_t rows_of(const Tensor& z) { return z.size(0) * z.size(1); }

Tensor joined(const std::vector<Tensor>& parts) { return parts.size() == 1 ? parts.front() : concat(parts, 0); }

} // namespace

StipService::StipService(CloudModel model, StipServiceOptions options) : model_(std::move(model)), options_(options) {}

net::FrameLimits StipService::limits(const Peer& peer) const {
  return peer.opened.empty() ? net::limits_before_open : options_.frames;
}

Bytes StipService::handle(Peer& peer, ByteView frame) {
  Bytes answer;
  const net::Request request{&peer, frame};
  handle_all({&request, 1}, [&](std::size_t, Bytes bytes) { answer = std::move(bytes); });
  return answer;
}

void StipService::handle_all(std::span<const net::Request> requests, FunctionRef<void(std::size_t, Bytes)> answer) {
  std::vector<Group> groups;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    ++counts_.requests;
    std::uint64_t serial = 0;
    std::optional<Waiting> waiting;
    Message at_once = refused_or(0, [&]() -> Message {
      const Message request = net::parse_frame(requests[i].frame, limits(*requests[i].peer));
      serial = request.serial;
      if (request.kind == MessageKind::open) return open(*requests[i].peer, request);
      waiting = admit(*requests[i].peer, request);
      return {};
    });
    if (!waiting) {
      at_once.serial = serial;
      if (at_once.kind == MessageKind::refused) ++counts_.refusals;
      answer(i, answer_frame(at_once));
      continue;
    }
    waiting->index = i;
    const auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& g) { return fits(g, *waiting); });
    if (group == groups.end())
      groups.push_back({*std::move(waiting)});
    else
      group->push_back(*std::move(waiting));
  }
  for (const Group& group : groups) answer_group(group, answer);
}

std::uint64_t StipService::bytes_for(std::int64_t tokens) const {
  const nn::BlockConfig& b = model_.config.block;
  const auto each =
      static_cast<std::uint64_t>(2 * model_.config.layers * b.attention().key_heads() * b.width_of_head());
  return each * static_cast<std::uint64_t>(tokens) * size_of(model_.dtype);
}

void StipService::forget(std::uint64_t connection) {
  const auto found = sessions_.find(connection);
  if (found == sessions_.end()) return;
  cache_bytes_ -= found->second.bytes;
  sessions_.erase(found);
}

void StipService::leave(const Peer& peer) { forget(peer.number); }

Message StipService::open(Peer& peer, const Message& request) {
  const Opening o = opening_of(request.text);
  const CloudConfig& c = model_.config;
  if (o.model != c.id) refuse(RefusalCode::other_model, "the cloud has another model than the user's key is for");
  if (o.tokens > 0 && !c.block.causal)
    refuse(RefusalCode::unexpected, "the model's tokens see all others: no text grows");
  if (o.tokens > std::min(c.positions, options_.tokens))
    refuse(RefusalCode::too_large,
           fmt::format("a text of {} tokens; {} are the most", o.tokens, std::min(c.positions, options_.tokens)));
  const auto present = sessions_.find(peer.number); // which the new one replaces
  const bool replaces = present != sessions_.end();
  const std::uint64_t others = cache_bytes_ - (replaces ? present->second.bytes : 0);
  if (sessions_.size() - (replaces ? 1 : 0) >= options_.sessions)
    refuse(RefusalCode::no_room, fmt::format("the cloud has {} sessions, and no room for more", sessions_.size()));
  Session session;
  session.bytes = bytes_for(o.tokens);
  if (session.bytes > options_.cache_bytes - std::min(others, options_.cache_bytes))
    refuse(RefusalCode::no_room,
           fmt::format("the cloud has no room for the keys and values of {} tokens now", o.tokens));
  forget(peer.number); // first: what it holds counts no more
  for (std::int64_t layer = 0; layer < c.layers && o.tokens > 0; ++layer)
    session.layers.emplace_back(Shape{1, c.block.attention().key_heads()}, o.tokens, c.block.width_of_head(), 0,
                                model_.dtype);
  cache_bytes_ += session.bytes;
  sessions_[peer.number] = std::move(session);
  ++counts_.sessions;
  peer.opened = c.id;
  return {.kind = MessageKind::opened};
}

void StipService::check_size(const Message& m) const {
  const Tensor z = m.tensor("z"), mask = m.tensor("mask");
  const std::int64_t dim = model_.config.block.dim;
  const auto wrong = [](const std::string& what) { refuse(RefusalCode::wrong_tensor, what); };
  if (z.dtype() != model_.dtype || z.rank() != 3 || z.size(2) != dim)
    wrong(fmt::format("z must be {} [texts, tokens, {}], not {} {}", name_of(model_.dtype), dim, name_of(z.dtype()),
                      z.shape().str()));
  if (mask.defined() && (mask.rank() != 2 || mask.size(0) != z.size(0) || mask.size(1) != z.size(1)))
    wrong(fmt::format("mask must be [{}, {}], not {}", z.size(0), z.size(1), mask.shape().str()));
  if (z.size(1) > model_.config.positions)
    refuse(RefusalCode::too_large,
           fmt::format("a text of {} tokens; {} are the most", z.size(1), model_.config.positions));
  if (rows_of(z) > options_.tokens)
    refuse(RefusalCode::too_large, fmt::format("{} tokens at once; {} are the most", rows_of(z), options_.tokens));
  net::require_finite(z, "z");
}

StipService::Waiting StipService::admit(const Peer& peer, const Message& m) {
  const auto found = sessions_.find(peer.number);
  if (found == sessions_.end()) refuse(RefusalCode::unexpected, "no session is open on this connection");
  Session& session = found->second;
  if (!net::is_request(m.kind)) refuse(RefusalCode::unexpected, "the cloud is asked, it does not ask");
  if (m.serial != session.serial + 1)
    refuse(RefusalCode::out_of_order, fmt::format("request {} where {} is next", m.serial, session.serial + 1));
  ++session.serial;
  if (m.kind != MessageKind::advance && m.kind != MessageKind::evaluate)
    refuse(RefusalCode::unexpected, fmt::format("{} has no place here", name_of(m.kind)));
  check_size(m);
  Waiting w{.index = 0,
            .serial = m.serial,
            .session = &session,
            .z = m.tensor("z"),
            .mask = m.tensor("mask"),
            .advances = m.kind == MessageKind::advance};
  if (!w.advances) return w;
  if (session.layers.empty()) refuse(RefusalCode::unexpected, "the session was opened for no text");
  const nn::KvCache& cache = session.layers.front();
  if (w.z.size(0) != 1) refuse(RefusalCode::wrong_tensor, "a session has one text");
  if (static_cast<std::int64_t>(m.step) != cache.length())
    refuse(RefusalCode::out_of_order, fmt::format("token {} where {} is next", m.step, cache.length()));
  if (w.z.size(1) > cache.capacity() - cache.length())
    refuse(RefusalCode::too_large,
           fmt::format("{} more tokens; the session has room for {}", w.z.size(1), cache.capacity() - cache.length()));
  return w;
}

bool StipService::fits(const Group& group, const Waiting& one) const {
  const Waiting& first = group.front();
  if (first.advances != one.advances || first.z.size(1) != one.z.size(1)) return false;
  if (first.mask.defined() != one.mask.defined() || (one.mask.defined() && first.mask.dtype() != one.mask.dtype()))
    return false;
  // Dynamic scaling looks at the longest text of a pass.
  if (model_.config.block.rotary.dynamic_factor != 0.0) return false;
  std::int64_t rows = rows_of(one.z), fewest = rows;
  for (const Waiting& other : group) {
    rows += rows_of(other.z);
    fewest = std::min(fewest, rows_of(other.z));
  }
  return rows <= options_.tokens && (rows <= skinny_gemm::most || fewest > skinny_gemm::most);
}

Tensor StipService::advance(const Group& group, const Tensor& z) const {
  Tensor y = z;
  std::vector<nn::KvCache*> caches(group.size());
  for (std::size_t layer = 0; layer < model_.blocks.size(); ++layer) {
    for (std::size_t i = 0; i < group.size(); ++i) caches[i] = &group[i].session->layers[layer];
    nn::AttentionContext context;
    context.caches = caches;
    y = (*model_.blocks[layer])(y, context);
  }
  return slice(y, 1, y.size(1) - 1, y.size(1));
}

std::vector<Tensor> StipService::pass(const Group& group) {
  const PauseRecording pause;
  std::vector<Tensor> zs, masks;
  for (const Waiting& w : group) {
    zs.push_back(w.z);
    if (w.mask.defined()) masks.push_back(w.mask);
  }
  const Tensor z = joined(zs), mask = masks.empty() ? Tensor() : joined(masks);
  const Tensor y = group.front().advances
                       ? advance(group, z)
                       : nn::run_blocks(model_.blocks, z, {.mask = nn::key_mask(mask, z.size(0), z.size(1))}, {});
  std::vector<Tensor> each;
  std::int64_t row = 0;
  for (const Waiting& w : group) {
    each.push_back(slice(y, 0, row, row + w.z.size(0)));
    row += w.z.size(0);
  }
  ++counts_.passes;
  counts_.in_passes += group.size();
  counts_.tokens += static_cast<std::uint64_t>(rows_of(z));
  counts_.most_rows = std::max(counts_.most_rows, static_cast<std::uint64_t>(row));
  return each;
}

void StipService::answer_group(const Group& group, FunctionRef<void(std::size_t, Bytes)> answer) {
  std::vector<std::int64_t> lengths;
  for (const Waiting& w : group) lengths.push_back(w.advances ? w.session->layers.front().length() : 0);
  std::vector<Tensor> each;
  const Message failed = refused_or(0, [&]() -> Message {
    each = pass(group);
    return {.kind = MessageKind::done};
  });
  const auto undo = [&](std::size_t i) {
    if (group[i].advances)
      for (nn::KvCache& layer : group[i].session->layers) layer.truncate(std::min(layer.length(), lengths[i]));
  };
  if (failed.kind == MessageKind::refused) {
    for (std::size_t i = 0; i < group.size(); ++i) undo(i);
    // What is too much for one must not cost the others their answers.
    if (group.size() > 1) {
      for (const Waiting& w : group) answer_group({w}, answer);
      return;
    }
    ++counts_.refusals;
    return answer(group.front().index, answer_frame(net::refusal(group.front().serial, failed.code, failed.text)));
  }
  for (std::size_t i = 0; i < group.size(); ++i) {
    Bytes frame;
    const Message unsent = refused_or(group[i].serial, [&]() -> Message {
      frame = net::frame_of({.kind = MessageKind::features, .serial = group[i].serial, .tensors = {{"y", each[i]}}});
      return {};
    });
    if (frame.empty()) { // refused, so not done
      undo(i);
      ++counts_.refusals;
      frame = net::frame_of(unsent);
    }
    answer(group[i].index, std::move(frame));
  }
}

} // namespace eg::stip
