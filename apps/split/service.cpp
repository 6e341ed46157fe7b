#include "apps/split/service.h"

#include "apps/split/last_answer.h"
#include "apps/split/recipe.h"
#include "core/base/json.h"
#include "core/base/words.h"
#include "core/gemm/gemm_bf16.h"
#include "permute/digest.h"
#include "training/checkpoint_state.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <exception>

namespace eg::split_learning {

using net::Message;
using net::MessageKind;
using net::Peer;
using net::ProtocolError;
using net::RefusalCode;
namespace {

[[noreturn]] void refuse(RefusalCode code, const std::string& words) { throw ProtocolError(code, "split: " + words); }

permute::DigestBytes digest_of(ByteView bytes) { return permute::digest_of(bytes, "split learning"); }

bool is_run_name(const std::string& name) {
  return name.size() == 32 &&
         std::all_of(name.begin(), name.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

} // namespace

/// The contents of `open`.
struct EncoderService::Opening {
  std::string run, how;
  std::uint64_t next = 1;
  std::int64_t step = 0;
  training::EncoderRecipe recipe;
};

EncoderService::Opening EncoderService::opening_of(const Message& request) {
  try {
    const nlohmann::json json = parse_json(request.text, "open");
    const auto is_text = [&](const char* key) { return json.contains(key) && json[key].is_string(); };
    if (!json.is_object() || json.size() != 4 || !is_text("run") || !is_text("how") || !json.contains("next") ||
        !json["next"].is_number_unsigned() || !json.contains("recipe"))
      refuse(RefusalCode::malformed, "open must have run, how, next and recipe");
    Opening o{.run = json["run"],
              .how = json["how"],
              .next = json["next"],
              .step = static_cast<std::int64_t>(request.step),
              .recipe = {}};
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

namespace {

/// Parameters of blocks: attention and MLP with biases, two norms.
double parameters_of(const training::EncoderRecipe& r) {
  const nn::BlockConfig& b = r.block;
  const auto dim = static_cast<double>(b.dim), mlp = static_cast<double>(b.mlp);
  const double inner = static_cast<double>(b.heads) * static_cast<double>(b.width_of_head());
  return static_cast<double>(r.layers) * (4.0 * dim * inner + 2.0 * dim * mlp + 3.0 * inner + mlp + 6.0 * dim);
}

} // namespace

EncoderService::EncoderService(ServiceOptions options) : options_(std::move(options)) {
  permute::start_sodium("split learning");
}

EncoderService::~EncoderService() = default;

Bytes EncoderService::handle(Peer& peer, ByteView frame) {
  ++counts_.requests;
  std::uint64_t serial = 0;
  Bytes kept;
  Message answer = refused_or(serial, [&] {
    const Message request = net::parse_frame(frame, limits(peer));
    serial = request.serial;
    if (!net::is_request(request.kind)) refuse(RefusalCode::unexpected, "the cloud is asked, it does not ask");
    if (request.kind == MessageKind::open) return open(peer, request);
    Hosted& hosted = hosted_for(peer);
    perform_once(hosted, request, frame);
    serial = 0; // what fails from here on is not an answer to the request, which is done: it is sent again
    kept = answer_of(hosted);
    return Message{};
  });
  if (!kept.empty()) return kept;
  if (answer.kind == MessageKind::refused) {
    ++counts_.refusals;
    answer.serial = serial;
  }
  return answer_frame(answer);
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

const Bytes& EncoderService::answer_of(Hosted& h) {
  if (h.done) {
    h.answer = net::frame_of(*h.done);
    h.done.reset();
  }
  return h.answer;
}

void EncoderService::perform_once(Hosted& h, const Message& request, ByteView frame) {
  if (h.serial > 0 && request.serial == h.serial) {
    if (digest_of(frame) != h.digest) refuse(RefusalCode::altered, "a request again, with other content");
    ++counts_.repeated;
    return;
  }
  if (request.serial != h.serial + 1)
    refuse(RefusalCode::out_of_order, fmt::format("request {} where {} is next", request.serial, h.serial + 1));
  Message answer = refused_or(request.serial, [&] { return perform(*h.run, request); });
  if (answer.kind == MessageKind::refused) ++counts_.refusals;
  if (answer.kind == MessageKind::gradients) ++counts_.steps;
  answer.serial = request.serial;
  // What was done is remembered as done before memory is taken for the answer's frame.
  h.serial = request.serial;
  h.digest = digest_of(frame);
  h.done = std::move(answer);
}

namespace {

/// The step that a text of digits names; nothing of an empty one.
std::optional<std::int64_t> kept_step(const std::string& text) {
  if (text.empty()) return {};
  std::int64_t step = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  if (error != std::errc() || end != text.data() + text.size() || step < 0)
    refuse(RefusalCode::malformed, "save names no step that stays");
  return step;
}

} // namespace

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
    run.save(step, kept_step(m.text));
    return {.kind = MessageKind::done};
  case MessageKind::fetch:
    return {.kind = MessageKind::weight, .tensors = {{m.text, run.weight(m.text)}}};
  default:
    refuse(RefusalCode::unexpected, fmt::format("{} has no place here", name_of(m.kind)));
  }
}

HostedPlace EncoderService::place_of(const std::string& run, const std::string& peer) const {
  return {.folder = options_.out.empty() ? std::string() : join_path(options_.out, run),
          .peer = peer,
          .seed = options_.seed,
          .keep = options_.keep};
}

EncoderService::Runs::iterator EncoderService::eviction_candidate() {
  auto oldest = runs_.end();
  if (runs_.size() < options_.runs) return oldest;
  for (auto it = runs_.begin(); it != runs_.end(); ++it)
    if (it->second.connection == 0 && (oldest == runs_.end() || it->second.used < oldest->second.used)) oldest = it;
  const bool can_go = oldest != runs_.end() && (!options_.out.empty() || !oldest->second.run->begun());
  if (!can_go)
    refuse(RefusalCode::no_room,
           fmt::format("the cloud has {} open, and no room for more", count_of(runs_.size(), "run")));
  return oldest;
}

void EncoderService::require_allowed(const training::EncoderRecipe& recipe) const {
  if (options_.recipe)
    if (const std::string other = differences(*options_.recipe, recipe); !other.empty())
      refuse(RefusalCode::other_recipe, "the cloud's encoder is another one: " + other);
  if (parameters_of(recipe) > static_cast<double>(options_.parameters))
    refuse(RefusalCode::too_large, fmt::format("an encoder has {} parameters here at most", options_.parameters));
}

EncoderService::Hosted& EncoderService::admit(const std::string& name, FunctionRef<Hosted()> make) {
  eviction_candidate(); // throws before anything is made
  Hosted made = make();
  if (const auto goes = eviction_candidate(); goes != runs_.end()) {
    save(goes->second);
    runs_.erase(goes);
  }
  if (made.run->recipe().run.precision == MatmulPrecision::bf16)
    if (const std::string no_bf16 = gemm::bf16_refusal(); !no_bf16.empty()) report_trouble("bf16: " + no_bf16);
  return runs_.emplace(name, std::move(made)).first->second;
}

EncoderService::Hosted EncoderService::from_disk(const Opening& o, const HostedPlace& place, bool newest) const {
  if (place.folder.empty() || training::checkpoint_steps(place.folder).empty())
    refuse(RefusalCode::unknown_run, "there is no such run of yours");
  Hosted made;
  made.run = std::make_unique<HostedRun>(o.recipe, place);
  made.run->restore(newest ? std::nullopt : std::optional(o.step));
  // The edge may not have the last answer: it is at the step before then.
  if (std::optional<LastAnswer> last = newest ? read_last_answer(place.folder) : std::nullopt;
      last && last->step == made.run->step() && (o.next == last->serial || o.next == last->serial + 1)) {
    made.serial = last->serial;
    made.digest = last->digest;
    made.answer = std::move(last->answer);
    return made;
  }
  if (made.run->step() != o.step)
    refuse(
        RefusalCode::no_checkpoint,
        fmt::format("the cloud's newest checkpoint is of step {}; the edge is at step {}", made.run->step(), o.step));
  made.serial = o.next - 1;
  return made;
}

EncoderService::Hosted& EncoderService::begin_run(const Opening& o, const HostedPlace& place, Hosted* there) {
  const bool on_disk = !place.folder.empty() && !training::checkpoint_steps(place.folder).empty();
  if (there != nullptr ? there->serial + 1 != o.next || !differences(there->run->recipe(), o.recipe).empty() : on_disk)
    refuse(RefusalCode::run_exists, "there is a run of that name already");
  if (there != nullptr) return *there; // the answer to the first opening was lost
  return admit(o.run, [&] {
    Hosted made;
    made.run = std::make_unique<HostedRun>(o.recipe, place);
    made.serial = o.next - 1;
    return made;
  });
}

EncoderService::Hosted& EncoderService::continue_run(const Opening& o, const HostedPlace& place, Hosted* there) {
  if (there == nullptr) return admit(o.run, [&] { return from_disk(o, place, true); });
  if (const std::string other = differences(there->run->recipe(), o.recipe); !other.empty())
    refuse(RefusalCode::other_recipe, "the run began otherwise: " + other);
  if (o.next != there->serial && o.next != there->serial + 1)
    refuse(RefusalCode::out_of_order, fmt::format("request {} where {} is next", o.next, there->serial + 1));
  return *there;
}

EncoderService::Hosted& EncoderService::resume_run(const Opening& o, const HostedPlace& place, Hosted* there) {
  if (there == nullptr) there = &admit(o.run, [&] { return from_disk(o, place, false); });
  if (there->run->step() != o.step || !differences(there->run->recipe(), o.recipe).empty()) {
    const std::vector<std::int64_t> kept =
        place.folder.empty() ? std::vector<std::int64_t>() : training::checkpoint_steps(place.folder);
    if (std::find(kept.begin(), kept.end(), o.step) == kept.end())
      refuse(RefusalCode::no_checkpoint, fmt::format("there is no checkpoint of step {}", o.step));
    HostedRun::require_restorable(o.recipe, place, o.step);
    there->run.reset(); // its folder is locked
    try {
      *there = from_disk(o, place, false);
    } catch (...) {
      runs_.erase(o.run); // its checkpoints remain
      throw;
    }
  }
  there->run->drop_pending();
  there->serial = o.next - 1;
  there->done.reset();
  if (!place.folder.empty()) remove_last_answer(place.folder); // of an edge that ended, whose serials began with 1 too
  return *there;
}

Message EncoderService::open(Peer& peer, const Message& request) {
  const Opening o = opening_of(request);
  require_allowed(o.recipe);
  const auto found = runs_.find(o.run);
  // For others the run does not exist.
  if (found != runs_.end() && found->second.run->peer() != peer.name)
    refuse(o.how == "new" ? RefusalCode::run_exists : RefusalCode::unknown_run, "there is no such run of yours");
  Hosted* const there = found == runs_.end() ? nullptr : &found->second;
  const HostedPlace place = place_of(o.run, peer.name);
  Hosted& h = o.how == "new"        ? begin_run(o, place, there)
              : o.how == "continue" ? continue_run(o, place, there)
                                    : resume_run(o, place, there);
  if (peer.opened != o.run) leave(peer); // opening another run leaves the one before
  h.connection = peer.number;
  h.used = ++clock_;
  peer.opened = o.run;
  return {.kind = MessageKind::opened, .step = static_cast<std::uint64_t>(h.run->step())};
}

void EncoderService::leave(const Peer& peer) {
  const auto found = runs_.find(peer.opened);
  if (found != runs_.end() && found->second.connection == peer.number) found->second.connection = 0;
}

void EncoderService::save(Hosted& h) {
  if (!h.run->begun()) return;
  answer_of(h);
  h.run->save_unasked();
  if (!h.run->folder().empty())
    write_last_answer(h.run->folder(),
                      {.step = h.run->step(), .serial = h.serial, .digest = h.digest, .answer = h.answer});
}

void EncoderService::save_all() {
  std::exception_ptr first;
  for (auto& [name, hosted] : runs_) try {
      save(hosted);
    } catch (const Error&) { // the others' are written all the same
      if (!first) first = std::current_exception();
    }
  if (first) std::rethrow_exception(first);
}

const HostedRun* EncoderService::run(const std::string& name) const {
  const auto found = runs_.find(name);
  return found == runs_.end() ? nullptr : found->second.run.get();
}

} // namespace eg::split_learning
