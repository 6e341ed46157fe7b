#include "fuzz/split_targets.h"

#include "apps/split/recipe.h"
#include "apps/split/service.h"
#include "core/ops.h"
#include "core/random.h"
#include "fuzz/damage.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <stdexcept>
#include <string>

namespace eg::fuzz {
namespace {

using namespace eg::net;
using namespace eg::split_learning;

constexpr FrameLimits limits{.body = 1 << 16, .text = 1 << 12};

void require(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

training::EncoderRecipe tiny() {
  training::EncoderRecipe r;
  r.layers = 1;
  r.block.dim = 4;
  r.block.heads = 2;
  r.block.mlp = 4;
  r.run.steps = 1000;
  return r;
}

std::string opening(const char* how, std::uint64_t next) {
  return nlohmann::ordered_json{
      {"run", std::string(32, 'a')}, {"how", how}, {"next", next}, {"recipe", recipe_json(tiny())}}
      .dump();
}

/// A cloud whose run has begun; its next request is number 2.
struct Begun {
  EncoderService service;
  Peer peer{.name = "edge", .number = 1};

  static ServiceOptions options() {
    ServiceOptions o;
    o.frames = limits;
    o.parameters = 10'000;
    o.runs = 2;
    return o;
  }
  Begun() : service(options()) {
    service.handle(peer, frame_of({.kind = MessageKind::open, .text = opening("new", 1)}));
    service.handle(peer, frame_of({.kind = MessageKind::begin, .serial = 1, .text = "draw"}));
  }
};

} // namespace

void split_message(ByteView bytes) {
  try {
    const Message m = parse_frame(bytes, limits);
    const Bytes again = frame_of(m);
    require(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()),
            "a message is written otherwise than it was read");
  } catch (const ProtocolError&) {
    return;
  }
}

void split_service(ByteView bytes) {
  Begun cloud;
  each_frame(bytes, [&](const Bytes& frame) {
    const Message answer = parse_frame(cloud.service.handle(cloud.peer, frame), {});
    require(!is_request(answer.kind), "the cloud asks instead of answering");
  });
  if (const HostedRun* run = cloud.service.run(std::string(32, 'a')); run != nullptr && run->begun())
    require(all(isfinite(run->weight("blocks.0.mlp.fc1.weight"))).item() != 0.0, "a weight is not finite");
}

std::vector<Bytes> split_samples() {
  const Tensor z = random_normal({1, 2, 4}, {1, 0});
  return {
      frame_of({.kind = MessageKind::open, .text = opening("continue", 2)}),
      frame_of({.kind = MessageKind::forward, .serial = 2, .tensors = {{"z", z}, {"mask", Tensor::ones({1, 2})}}}),
      frame_of({.kind = MessageKind::backward, .serial = 3, .tensors = {{"dy", z}}}),
      frame_of({.kind = MessageKind::evaluate, .serial = 2, .tensors = {{"z", z}}}),
      frame_of({.kind = MessageKind::put, .serial = 2, .tensors = {{"blocks.0.norm1.bias", Tensor::ones({4})}}}),
      frame_of({.kind = MessageKind::fetch, .serial = 2, .text = "blocks.0.norm1.bias"}),
      frame_of({.kind = MessageKind::save, .serial = 2}),
      frame_of({.kind = MessageKind::refused, .code = RefusalCode::no_room, .text = "full"}),
  };
}

} // namespace eg::fuzz
