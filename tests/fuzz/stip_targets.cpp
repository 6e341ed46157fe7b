#include "fuzz/stip_targets.h"

#include "apps/stip/service.h"
#include "core/ops.h"
#include "core/random.h"
#include "fuzz/damage.h"

#include <nlohmann/json.hpp>

#include <stdexcept>
#include <string>

namespace eg::fuzz {
namespace {

using namespace eg::net;
using namespace eg::stip;

const std::string id(32, 'a');

void require(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

CloudModel tiny() {
  CloudModel m;
  m.config = {.id = id, .layers = 1, .positions = 16, .block = {}, .scales = {0.0}};
  m.config.block = {.dim = 4, .heads = 2, .mlp = 4};
  m.config.block.causal = true;
  m.blocks.push_back(std::make_unique<nn::Block>(m.config.block, RandomKey{3, 0}));
  m.blocks.back()->eval();
  return m;
}

StipServiceOptions limits() {
  StipServiceOptions o;
  o.tokens = 16;
  o.sessions = 2;
  o.cache_bytes = 1 << 12;
  o.frames = {.body = 1 << 16, .text = 1 << 12};
  return o;
}

std::string opening(std::uint64_t tokens) { return nlohmann::json{{"model", id}, {"tokens", tokens}}.dump(); }

Tensor features(std::int64_t tokens, std::uint64_t seed) { return random_normal({1, tokens, 4}, {seed, 0}); }

Bytes advance(std::uint64_t serial, std::uint64_t step, const Tensor& z) {
  return frame_of({.kind = MessageKind::advance, .serial = serial, .step = step, .tensors = {{"z", z}}});
}

/// What an honest user gets for its second message.
Tensor second_answer(StipService& service, Peer& peer) {
  return parse_frame(service.handle(peer, advance(2, 3, features(1, 2))), {}).tensor("y");
}

void begin(StipService& service, Peer& peer) {
  service.handle(peer, frame_of({.kind = MessageKind::open, .text = opening(8)}));
  service.handle(peer, advance(1, 0, features(3, 1)));
}

} // namespace

void stip_service(ByteView bytes) {
  StipService service(tiny(), limits());
  Peer honest{.name = "honest", .number = 1}, other{.name = "other", .number = 2};
  begin(service, honest);
  begin(service, other);
  each_frame(bytes, [&](const Bytes& frame) {
    const Message answer = parse_frame(service.handle(other, frame), {});
    require(!is_request(answer.kind), "the cloud asks instead of answering");
    require(service.cache_bytes() <= limits().cache_bytes && service.sessions() <= 2, "a limit does not hold");
  });
  static const Tensor expected = [] {
    StipService alone(tiny(), limits());
    Peer peer{.name = "honest", .number = 1};
    begin(alone, peer);
    return second_answer(alone, peer);
  }();
  const Tensor found = second_answer(service, honest);
  require(found.defined() && same_bits(found, expected), "an honest user gets something else");
}

std::vector<Bytes> stip_samples() {
  return {
      frame_of({.kind = MessageKind::open, .text = opening(8)}),
      frame_of({.kind = MessageKind::open, .text = opening(0)}),
      advance(2, 3, features(1, 2)),
      advance(1, 0, features(2, 3)),
      frame_of({.kind = MessageKind::evaluate,
                .serial = 2,
                .tensors = {{"z", features(2, 4)}, {"mask", Tensor::ones({1, 2})}}}),
      frame_of({.kind = MessageKind::fetch, .serial = 2, .text = "blocks.0.norm1.bias"}),
  };
}

} // namespace eg::fuzz
