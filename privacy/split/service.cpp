#include "privacy/split/service.h"

#include "data/json.h"
#include "privacy/split/recipe.h"
#include "training/checkpoint_state.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sodium.h>

#include <algorithm>

namespace eg::privacy {
namespace {

[[noreturn]] void refuse(RefusalCode code, const std::string& words) { throw ProtocolError(code, "split: " + words); }

std::array<unsigned char, 32> digest_of(data::ByteView bytes) {
  std::array<unsigned char, 32> digest{};
  crypto_generichash(digest.data(), digest.size(), bytes.data(), bytes.size(), nullptr, 0);
  return digest;
}

/// What `open` says.
struct Opening {
  std::string run, how;
  std::uint64_t next = 1;
  training::EncoderRecipe recipe;
};

bool is_run_name(const std::string& name) {
  return name.size() == 32 &&
         std::all_of(name.begin(), name.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

Opening opening_of(const std::string& text) {
  try {
    const nlohmann::json json = data::parse_json(text, "open");
    const auto is_text = [&](const char* key) { return json.contains(key) && json[key].is_string(); };
    if (!json.is_object() || json.size() != 4 || !is_text("run") || !is_text("how") || !json.contains("next") ||
        !json["next"].is_number_unsigned() || !json.contains("recipe"))
      refuse(RefusalCode::malformed, "open must have run, how, next and recipe");
    Opening o{.run = json["run"], .how = json["how"], .next = json["next"], .recipe = {}};
    if (!is_run_name(o.run)) refuse(RefusalCode::malformed, "a run is called by 32 hexadecimal digits");
    if (o.how != "new" && o.how != "continue" && o.how != "resume")
      refuse(RefusalCode::malformed, "open is new, continue or resume");
    if (o.next == 0) refuse(RefusalCode::malformed, "serials begin with 1");
    o.recipe = recipe_of(json["recipe"], "recipe");
    return o;
  } catch (const FileError& e) {
    throw ProtocolError(RefusalCode::malformed, e.what());
  } catch (const ValueError& e) {
    throw ProtocolError(RefusalCode::other_recipe, e.what());
  }
}

/// Parameters of blocks: attention and MLP with biases, two norms.
double parameters_of(const training::EncoderRecipe& r) {
  const nn::BlockConfig& b = r.block;
  const auto dim = static_cast<double>(b.dim), mlp = static_cast<double>(b.mlp);
  const double inner = static_cast<double>(b.heads) * static_cast<double>(b.width_of_head());
  return static_cast<double>(r.layers) * (4.0 * dim * inner + 2.0 * dim * mlp + 3.0 * inner + mlp + 6.0 * dim);
}

} // namespace

EncoderService::EncoderService(ServiceOptions options) : options_(std::move(options)) {
  if (sodium_init() < 0) throw Error("split: libsodium cannot start");
}

EncoderService::~EncoderService() = default;

data::Bytes EncoderService::handle(Peer& peer, data::ByteView frame) {
  ++counts_.requests;
  std::uint64_t serial = 0;
  data::Bytes kept;
  Message answer = refused_or(serial, [&] {
    const Message request = parse_frame(frame, limits(peer));
    serial = request.serial;
    if (!is_request(request.kind)) refuse(RefusalCode::unexpected, "the cloud is asked, it does not ask");
    if (request.kind == MessageKind::open) return open(peer, request);
    kept = once(hosted_for(peer), request, frame);
    return Message{};
  });
  if (!kept.empty()) return kept;
  if (answer.kind == MessageKind::refused) {
    ++counts_.refusals;
    answer.serial = serial;
  }
  return frame_of(answer);
}

EncoderService::Hosted& EncoderService::hosted_for(const Peer& peer) {
  if (peer.opened.empty()) refuse(RefusalCode::unexpected, "no run is open on this connection");
  const auto found = runs_.find(peer.opened);
  if (found == runs_.end()) refuse(RefusalCode::unknown_run, "the run is not open any more");
  if (found->second.connection != peer.number)
    refuse(RefusalCode::replaced, "another connection has taken the run over");
  found->second.used = ++clock_;
  return found->second;
}

data::Bytes EncoderService::once(Hosted& h, const Message& request, data::ByteView frame) {
  if (h.serial > 0 && request.serial == h.serial) {
    if (digest_of(frame) != h.digest) refuse(RefusalCode::altered, "a request again, with other content");
    ++counts_.repeated;
    return h.answer;
  }
  if (request.serial != h.serial + 1)
    refuse(RefusalCode::out_of_order, fmt::format("request {} where {} is next", request.serial, h.serial + 1));
  Message answer = refused_or(request.serial, [&] { return perform(*h.run, request); });
  if (answer.kind == MessageKind::refused) ++counts_.refusals;
  if (answer.kind == MessageKind::gradients) ++counts_.steps;
  answer.serial = request.serial;
  h.answer = frame_of(answer);
  h.serial = request.serial;
  h.digest = digest_of(frame);
  return h.answer;
}

Message EncoderService::perform(HostedRun& run, const Message& m) {
  const auto step = static_cast<std::int64_t>(m.step);
  switch (m.kind) {
  case MessageKind::put:
    run.put(m.tensors[0].name, m.tensors[0].value);
    return {.kind = MessageKind::done};
  case MessageKind::begin: {
    if (m.text != "put" && m.text != "draw") refuse(RefusalCode::malformed, "begin says put or draw");
    run.begin(m.text == "draw");
    return {.kind = MessageKind::done};
  }
  case MessageKind::forward:
    return {.kind = MessageKind::features,
            .step = m.step,
            .tensors = {{"y", run.forward(step, m.tensor("z"), m.tensor("mask"))}}};
  case MessageKind::backward:
    return {.kind = MessageKind::gradients, .step = m.step, .tensors = {{"dz", run.backward(step, m.tensor("dy"))}}};
  case MessageKind::evaluate:
    return {.kind = MessageKind::features, .tensors = {{"y", run.evaluate(m.tensor("z"), m.tensor("mask"))}}};
  case MessageKind::save:
    run.save(step);
    return {.kind = MessageKind::done};
  case MessageKind::fetch:
    return {.kind = MessageKind::weight, .tensors = {{m.text, run.weight(m.text)}}};
  default:
    refuse(RefusalCode::unexpected, fmt::format("{} has no place here", name_of(m.kind)));
  }
}

HostedPlace EncoderService::place_of(const std::string& run, const std::string& peer) const {
  return {.folder = options_.out.empty() ? std::string() : data::join_path(options_.out, run),
          .peer = peer,
          .seed = options_.seed,
          .keep = options_.keep};
}

void EncoderService::make_room() {
  if (runs_.size() < options_.runs) return;
  auto oldest = runs_.end();
  for (auto it = runs_.begin(); it != runs_.end(); ++it)
    if (it->second.connection == 0 && (oldest == runs_.end() || it->second.used < oldest->second.used)) oldest = it;
  const bool can_go = oldest != runs_.end() && (!options_.out.empty() || !oldest->second.run->begun());
  if (!can_go)
    refuse(RefusalCode::no_room, fmt::format("the cloud has {} runs open, and no room for more", runs_.size()));
  if (oldest->second.run->begun()) oldest->second.run->save(oldest->second.run->step());
  runs_.erase(oldest);
}

Message EncoderService::open(Peer& peer, const Message& request) {
  const Opening o = opening_of(request.text);
  const auto step = static_cast<std::int64_t>(request.step);
  if (options_.recipe)
    if (const std::string other = differences(*options_.recipe, o.recipe); !other.empty())
      refuse(RefusalCode::other_recipe, "the cloud's encoder is another one: " + other);
  if (parameters_of(o.recipe) > static_cast<double>(options_.parameters))
    refuse(RefusalCode::no_room, fmt::format("an encoder has {} parameters here at most", options_.parameters));
  auto found = runs_.find(o.run);
  // For others the run does not exist.
  if (found != runs_.end() && found->second.run->peer() != peer.name)
    refuse(o.how == "new" ? RefusalCode::run_exists : RefusalCode::unknown_run, "there is no such run of yours");
  const bool fresh = o.how == "new";
  const bool in_memory = found != runs_.end();
  if (fresh && in_memory && found->second.serial > 0)
    refuse(RefusalCode::run_exists, "there is a run of that name already");
  if (!in_memory) {
    make_room();
    Hosted made;
    const HostedPlace place = place_of(o.run, peer.name);
    const bool on_disk = !place.folder.empty() && !training::checkpoint_steps(place.folder).empty();
    if (fresh && on_disk) refuse(RefusalCode::run_exists, "there is a run of that name already");
    if (!fresh && !on_disk) refuse(RefusalCode::unknown_run, "there is no such run of yours");
    made.run = std::make_unique<HostedRun>(o.recipe, place);
    if (!fresh) made.run->restore(o.how == "resume" ? std::optional(step) : std::nullopt);
    if (!fresh && made.run->step() != step)
      refuse(RefusalCode::no_checkpoint,
             fmt::format("the cloud has gone back to step {}; the edge is at step {}", made.run->step(), step));
    made.serial = o.next - 1;
    found = runs_.emplace(o.run, std::move(made)).first;
  }
  Hosted& h = found->second;
  if (const std::string other = differences(h.run->recipe(), o.recipe); !other.empty() && o.how == "continue")
    refuse(RefusalCode::other_recipe, "the run began otherwise: " + other);
  if (o.how == "resume" && in_memory) {
    h.run->drop_pending();
    if (h.run->step() != step || !differences(h.run->recipe(), o.recipe).empty()) {
      h.run.reset(); // its folder is locked
      try {
        h.run = std::make_unique<HostedRun>(o.recipe, place_of(o.run, peer.name));
        h.run->restore(step);
      } catch (...) {
        runs_.erase(found);
        throw;
      }
    }
  }
  if (o.how == "resume") h.serial = o.next - 1;
  if (o.how == "continue" && o.next != h.serial && o.next != h.serial + 1)
    refuse(RefusalCode::out_of_order, fmt::format("request {} where {} is next", o.next, h.serial + 1));
  h.connection = peer.number;
  h.used = ++clock_;
  peer.opened = o.run;
  return {.kind = MessageKind::opened, .step = static_cast<std::uint64_t>(h.run->step())};
}

void EncoderService::leave(const Peer& peer) {
  const auto found = runs_.find(peer.opened);
  if (found != runs_.end() && found->second.connection == peer.number) found->second.connection = 0;
}

void EncoderService::save_all() {
  for (auto& [name, hosted] : runs_)
    if (hosted.run->begun()) hosted.run->save(hosted.run->step());
}

const HostedRun* EncoderService::run(const std::string& name) const {
  const auto found = runs_.find(name);
  return found == runs_.end() ? nullptr : found->second.run.get();
}

} // namespace eg::privacy
