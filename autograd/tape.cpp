#include "autograd/tape_state.h"

#include <algorithm>
#include <fmt/format.h>
#include <unordered_set>
#include <utility>

namespace eg {

std::string described_value(const Tensor& t) { return fmt::format("{} {}", name_of(t.dtype()), t.shape().str()); }

std::string at_place(const std::string& place) { return place.empty() ? std::string() : " (at " + place + ")"; }

std::string Tape::Node::name_of_input(std::size_t i) const {
  return op == nullptr ? fmt::format("input {}", i) : "input " + eg::input_name(*op, i);
}

void Tape::Node::check_versions() const {
  const auto check = [&](const SavedTensor& kept, const std::string& role) {
    if (!kept.saved || kept.tensor.version() == kept.version) return;
    throw AutogradError(fmt::format(
        "tape: {}{} saved its {} {} for the gradient, but '{}'{} changed it in place afterwards (version {}, was {}); "
        "take the gradient before the change, or change a clone() made while recording is paused",
        name(), at_place(place), role, described_value(kept.tensor), kept.tensor.storage()->writer,
        at_place(kept.tensor.storage()->writer_place), kept.tensor.version(), kept.version));
  };
  for (std::size_t i = 0; i < in.size(); ++i) check(in[i], name_of_input(i));
  for (std::size_t o = 0; o < out.size(); ++o)
    check(out[o], op != nullptr ? fmt::format("output {}", eg::output_name(*op, o)) : fmt::format("output {}", o));
}

Slot Tape::State::slot(const Tensor& t) {
  if (!flows(t)) return no_slot;
  const auto [entry, fresh] = slot_of.try_emplace(t.id(), static_cast<Slot>(slots.size()));
  if (fresh) slots.emplace_back();
  return entry->second;
}

SavedTensor Tape::State::keep(const Tensor& t, bool save) {
  if (!t.defined()) return {};
  if (save) return {t, slot(t), t.version(), true};
  return {Tensor::meta(t.shape(), t.dtype()), slot(t), 0, false};
}

/// Throws AutogradError when a value that this tape computed was written to since: what `reader` would take from it is
/// no longer what its producer made, and a gradient through both would be wrong.
void Tape::State::check_unchanged(const Tensor& t, const std::string& reader) const {
  const auto entry = slot_of.find(t.id());
  if (entry == slot_of.end()) return;
  const SlotState& slot = slots[entry->second];
  if (!slot.guarded || t.version() == slot.version) return;
  const Node& producer = nodes[slot.producer];
  throw AutogradError(fmt::format(
      "tape: {} would read {}, which {}{} computed on this tape, but '{}'{} changed it in place since "
      "(version {}, was {}); change a clone() made while recording is paused, which counts as a constant, or "
      "compute the new value with an operation",
      reader, described_value(t), producer.name(), at_place(producer.place), t.storage()->writer,
      at_place(t.storage()->writer_place), t.version(), slot.version));
}

/// Marks the outputs of the newest node, or (node: none was made) of an operation without a gradient.
void Tape::State::produced(const Event& event, std::size_t node) {
  // A view of a leaf is a way to name its elements: it may be changed like the leaf.
  const auto of_a_leaf = [&](const Tensor& y) {
    return std::any_of(event.in.begin(), event.in.end(), [&](const Tensor& x) {
      if (!flows(x) || !x.has_storage() || x.storage() != y.storage()) return false;
      return !slots[slot_of.at(x.id())].guarded;
    });
  };
  for (const Tensor& y : event.out) {
    if (!flows(y)) continue;
    SlotState& made = slots[slot(y)];
    made.computed = true;
    made.guarded = node < nodes.size() && y.has_storage() && !of_a_leaf(y);
    made.producer = node;
    made.version = y.version();
  }
}

/// bf16 tensors have no slots. What they were made from is remembered, so that a gradient that would get lost on the
/// way back to f32 is refused rather than taken for zero.
void Tape::State::follow_bf16(const Event& event, const std::string& name) {
  const auto is_bf16 = [](const Tensor& t) { return t.defined() && t.dtype() == DType::bf16; };
  std::vector<Slot> sources;
  for (const Tensor& x : event.in)
    if (is_bf16(x)) {
      const auto found = narrowed.find(x.id());
      if (found != narrowed.end()) sources.insert(sources.end(), found->second.begin(), found->second.end());
    }
  if (std::any_of(event.out.begin(), event.out.end(), flows))
    for (const Slot source : sources) broken.push_back({source, name});
  if (std::none_of(event.out.begin(), event.out.end(), is_bf16)) return;
  for (const Tensor& x : event.in)
    if (flows(x)) sources.push_back(slot(x));
  for (const Tensor& y : event.out)
    if (is_bf16(y) && !sources.empty()) narrowed[y.id()] = sources;
}

void Tape::State::clear() {
  narrowed.clear();
  broken.clear();
  nodes.clear();
  slot_of.clear();
  slots.clear();
  if (hooks) hooks->hooks.clear();
}

HookHandle Tape::on_gradient(const Tensor& x, GradientHook hook) {
  if (!flows(x))
    throw AutogradError(fmt::format("tape: a hook on {}: only f32 and f64 have gradients",
                                    x.defined() ? described_value(x) : "an undefined tensor"));
  if (!hook) throw AutogradError("tape: a hook that is empty");
  if (state_->used_up) throw AutogradError("tape: it was used up, a hook would never be called");
  if (!state_->hooks) state_->hooks = std::make_shared<HookTable>();
  const std::pair<Slot, std::uint64_t> key{state_->slot(x), state_->hooks->next++};
  state_->hooks->hooks.emplace(key, std::move(hook));
  return HookHandle([table = std::weak_ptr(state_->hooks), key] {
    if (const auto there = table.lock()) there->hooks.erase(key);
  });
}

HookHandle::HookHandle(HookHandle&& other) noexcept : remove_(std::exchange(other.remove_, nullptr)) {}

HookHandle& HookHandle::operator=(HookHandle&& other) noexcept {
  if (this != &other) {
    remove();
    remove_ = std::exchange(other.remove_, nullptr);
  }
  return *this;
}

void HookHandle::remove() {
  if (const auto action = std::exchange(remove_, nullptr)) action();
}

Tape::Tape() : state_(std::make_unique<State>()) { open_recorder(this); }

Tape::~Tape() { close_recorder(this); }

void Tape::close() {
  if (state_->thread != std::this_thread::get_id())
    throw AutogradError("tape: it was opened on another thread; close it on the thread that opened it");
  state_->closed = true;
  close_recorder(this);
}

bool Tape::computed(const Tensor& y) const {
  const auto entry = state_->slot_of.find(y.id());
  return entry != state_->slot_of.end() && state_->slots[entry->second].computed;
}

bool Tape::met(const Tensor& t) const { return state_->slot_of.contains(t.id()); }

std::size_t Tape::size() const { return state_->nodes.size(); }

std::size_t Tape::saved_bytes() const {
  std::unordered_set<const Storage*> seen;
  std::size_t bytes = 0;
  const auto count = [&](const SavedTensor& kept) {
    if (kept.saved && kept.tensor.has_storage() && seen.insert(kept.tensor.storage().get()).second)
      bytes += kept.tensor.storage()->size_bytes;
  };
  for (const Node& node : state_->nodes) {
    for (const SavedTensor& kept : node.in) count(kept);
    for (const SavedTensor& kept : node.out) count(kept);
  }
  return bytes;
}

void Tape::record(const Event& event) {
  State& state = *state_;
  Node node;
  node.op = event.op;
  node.custom = event.custom;
  node.place = current_place();
  const auto saves_in = [&](std::size_t i) {
    if (event.op == nullptr) return true;
    const std::size_t bit = event.op->variadic ? 0 : i;
    return (event.op->saves & saves::in(static_cast<int>(bit))) != 0;
  };
  const auto saves_out = [&](std::size_t o) {
    if (event.op == nullptr) return event.custom->saves_outputs;
    return (event.op->saves & saves::out(static_cast<int>(o))) != 0;
  };
  for (const Tensor& x : event.in)
    if (flows(x)) state.check_unchanged(x, std::string(node.name()) + at_place(node.place));
  node.in.reserve(event.in.size());
  node.out.reserve(event.out.size());
  for (std::size_t i = 0; i < event.in.size(); ++i) node.in.push_back(state.keep(event.in[i], saves_in(i)));
  for (std::size_t o = 0; o < event.out.size(); ++o) node.out.push_back(state.keep(event.out[o], saves_out(o)));
  state.follow_bf16(event, std::string(node.name()) + at_place(node.place));
  const auto has_slot = [](const SavedTensor& kept) { return kept.slot != no_slot; };
  const bool differentiable =
      std::any_of(node.in.begin(), node.in.end(), has_slot) && std::any_of(node.out.begin(), node.out.end(), has_slot);
  const std::size_t number = state.nodes.size();
  if (differentiable) {
    if (event.attrs != nullptr) node.attrs = *event.attrs;
    state.nodes.push_back(std::move(node));
  }
  state.produced(event, number);
}

} // namespace eg
