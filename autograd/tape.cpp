#include "autograd/tape.h"

#include "autograd/accumulate.h"
#include "core/ops.h"

#include <algorithm>
#include <fmt/format.h>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace eg {
namespace {

/// Number of a tensor value on one tape.
using Slot = std::uint32_t;
inline constexpr Slot no_slot = ~Slot{0};

/// What a node keeps of an input or output: the tensor itself or, where the rule does not read it, shape and dtype.
struct Kept {
  Tensor tensor;
  Slot slot = no_slot; // no_slot: not given, or of a type without gradients
  std::uint64_t version = 0;
  bool saved = false;
};

std::string described(const Tensor& t) { return fmt::format("{} {}", name_of(t.dtype()), t.shape().str()); }

std::string at_place(const std::string& place) { return place.empty() ? std::string() : " (at " + place + ")"; }

} // namespace

/// One recorded operation.
struct Tape::Node {
  const OpDef* op = nullptr;
  std::shared_ptr<const CustomOp> custom;
  Attrs attrs;
  std::vector<Kept> in;
  std::vector<Kept> out;
  std::string place; // where in the model the call stood

  std::string_view name() const { return op != nullptr ? op->name : std::string_view(custom->name); }
  bool has_rule() const { return op != nullptr ? op->vjp != nullptr : custom->vjp != nullptr; }
  Gradients apply_rule(std::span<const Tensor> grad, std::uint32_t wanted) const;
  void check_versions() const;
  std::string name_of_input(std::size_t i) const;
};

/// What the tape knows of a value.
struct SlotState {
  bool computed = false;     // some recorded operation made it
  bool guarded = false;      // and not merely as a view of a leaf: its elements belong to the tape
  std::size_t producer = 0;  // of a guarded one: number of its node
  std::uint64_t version = 0; // of its storage, when it was made
};

struct Tape::State {
  std::thread::id thread = std::this_thread::get_id();
  std::vector<Node> nodes; // in the order of the calls
  std::unordered_map<std::uint64_t, Slot> slot_of;
  std::vector<SlotState> slots;
  bool used_up = false;
  bool closed = false;

  Slot slot(const Tensor& t);
  Kept keep(const Tensor& t, bool save);
  void check_unchanged(const Tensor& t, const std::string& reader) const;
  void produced(const Event& event, std::size_t node);
  std::vector<bool> mark_active(std::span<const Tensor> xs);
  void clear();
};

namespace {

/// The cotangents of one backward walk, by slot.
class Cotangents {
public:
  explicit Cotangents(std::size_t slots) : at_(slots) {}
  bool has(Slot s) const { return s != no_slot && at_[s].defined(); }
  const Tensor& get(Slot s) const { return at_[s]; }
  Tensor take(Slot s) { return s == no_slot ? Tensor{} : std::exchange(at_[s], Tensor{}); }
  void add(Slot s, Tensor g) { accumulate(at_[s], std::move(g)); }

private:
  std::vector<Tensor> at_;
};

} // namespace

std::string Tape::Node::name_of_input(std::size_t i) const {
  return op == nullptr ? fmt::format("input {}", i) : "input " + eg::input_name(*op, i);
}

void Tape::Node::check_versions() const {
  const auto check = [&](const Kept& kept, const std::string& role) {
    if (!kept.saved || kept.tensor.version() == kept.version) return;
    throw AutogradError(fmt::format(
        "tape: {}{} saved its {} {} for the gradient, but '{}'{} changed it in place afterwards (version {}, was {}); "
        "take the gradient before the change, or change a clone()",
        name(), at_place(place), role, described(kept.tensor), kept.tensor.storage()->writer,
        at_place(kept.tensor.storage()->writer_place), kept.tensor.version(), kept.version));
  };
  for (std::size_t i = 0; i < in.size(); ++i) check(in[i], name_of_input(i));
  for (std::size_t o = 0; o < out.size(); ++o)
    check(out[o], op != nullptr ? fmt::format("output {}", eg::output_name(*op, o)) : fmt::format("output {}", o));
}

Gradients Tape::Node::apply_rule(std::span<const Tensor> grad, std::uint32_t wanted) const {
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;
  for (const Kept& kept : in) inputs.push_back(kept.tensor);
  for (const Kept& kept : out) outputs.push_back(kept.tensor);
  const auto run = [&] {
    if (custom) return custom->vjp(inputs, outputs, grad);
    const OpArgs args{*op, inputs, attrs};
    return op->vjp(VjpArgs{args, outputs, grad, wanted});
  };
  if (place.empty()) return run();
  const PlaceScope scope(place); // an error in a rule names the part of the model it belongs to
  return run();
}

Slot Tape::State::slot(const Tensor& t) {
  if (!flows(t)) return no_slot;
  const auto [entry, fresh] = slot_of.try_emplace(t.id(), static_cast<Slot>(slots.size()));
  if (fresh) slots.emplace_back();
  return entry->second;
}

Kept Tape::State::keep(const Tensor& t, bool save) {
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
  throw AutogradError(
      fmt::format("tape: {} would read {}, which {}{} computed on this tape, but '{}'{} changed it in place since "
                  "(version {}, was {}); change a clone() made before it is used, or compute the new value with an "
                  "operation",
                  reader, described(t), producer.name(), at_place(producer.place), t.storage()->writer,
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

/// By slot: the value depends on some x. Walking oldest first, so one sweep is enough.
std::vector<bool> Tape::State::mark_active(std::span<const Tensor> xs) {
  std::vector<bool> active(slots.size());
  for (const Tensor& x : xs) active[slot(x)] = true;
  for (const Node& node : nodes) {
    const bool reached = std::any_of(node.in.begin(), node.in.end(),
                                     [&](const Kept& kept) { return kept.slot != no_slot && active[kept.slot]; });
    if (!reached) continue;
    for (const Kept& kept : node.out)
      if (kept.slot != no_slot) active[kept.slot] = true;
  }
  return active;
}

void Tape::State::clear() {
  nodes.clear();
  slot_of.clear();
  slots.clear();
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
  const auto count = [&](const Kept& kept) {
    if (kept.saved && kept.tensor.has_storage() && seen.insert(kept.tensor.storage().get()).second)
      bytes += kept.tensor.storage()->size_bytes;
  };
  for (const Node& node : state_->nodes) {
    for (const Kept& kept : node.in) count(kept);
    for (const Kept& kept : node.out) count(kept);
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
    return event.op == nullptr || (event.op->saves & saves::out(static_cast<int>(o))) != 0;
  };
  for (const Tensor& x : event.in)
    if (flows(x)) state.check_unchanged(x, std::string(node.name()) + at_place(node.place));
  node.in.reserve(event.in.size());
  node.out.reserve(event.out.size());
  for (std::size_t i = 0; i < event.in.size(); ++i) node.in.push_back(state.keep(event.in[i], saves_in(i)));
  for (std::size_t o = 0; o < event.out.size(); ++o) node.out.push_back(state.keep(event.out[o], saves_out(o)));
  const auto has_slot = [](const Kept& kept) { return kept.slot != no_slot; };
  const bool differentiable =
      std::any_of(node.in.begin(), node.in.end(), has_slot) && std::any_of(node.out.begin(), node.out.end(), has_slot);
  const std::size_t number = state.nodes.size();
  if (differentiable) {
    if (event.attrs != nullptr) node.attrs = *event.attrs;
    state.nodes.push_back(std::move(node));
  }
  state.produced(event, number);
}

namespace {

/// The cotangents that the walk starts from, checked against ys: the caller's, or ones for a single element.
std::vector<Tensor> starting_cotangents(std::span<const Tensor> ys, std::span<const Tensor> given) {
  if (!given.empty() && given.size() != ys.size())
    throw AutogradError(fmt::format("tape: {} cotangents were given for {} outputs", given.size(), ys.size()));
  std::vector<Tensor> cotangents;
  for (std::size_t i = 0; i < ys.size(); ++i) {
    const Tensor& y = ys[i];
    if (!flows(y))
      throw AutogradError(y.defined() ? fmt::format("tape: y is {}; only f32 and f64 have gradients", described(y))
                                      : std::string("tape: y is undefined"));
    if (i < given.size() && given[i].defined()) {
      if (given[i].shape() != y.shape() || given[i].dtype() != y.dtype())
        throw AutogradError(fmt::format("tape: the cotangent does not fit y: cotangent is {}, y is {}",
                                        described(given[i]), described(y)));
      cotangents.push_back(given[i]);
    } else if (y.numel() == 1) {
      cotangents.push_back(Tensor::ones(y.shape(), y.dtype()));
    } else {
      throw AutogradError(
          fmt::format("tape: y is {} and has no cotangent; reduce it to one element (sum, mean) or give "
                      "a cotangent of its shape",
                      described(y)));
    }
  }
  return cotangents;
}

bool broadcasts_to(const Shape& small, const Shape& large) {
  if (small.rank() > large.rank()) return false;
  for (int axis = -1; axis >= -small.rank(); --axis)
    if (small[axis] != large[axis] && small[axis] != 1) return false;
  return true;
}

/// The gradient that a rule gave for `input`, with broadcasting undone.
Tensor fitted(const Tensor& gradient, const Tensor& input, const std::string& whose) {
  if (gradient.dtype() != input.dtype() || !broadcasts_to(input.shape(), gradient.shape()))
    throw AutogradError(fmt::format("tape: the rule of {} does not fit: gradient is {}, input is {}", whose,
                                    described(gradient), described(input)));
  return gradient.shape() == input.shape() ? gradient : sum_to(gradient, input.shape());
}

/// Gradients as the caller gets them: packed, zeros where nothing arrived, and each with elements of its own, so that
/// writing to one (clipping in place) changes no other. While an outer tape listens they may share: a copy would hide
/// how they were made.
void finish(std::vector<Tensor>& gradients, std::span<const Tensor> xs) {
  for (std::size_t i = 0; i < xs.size(); ++i) {
    Tensor& g = gradients[i];
    if (!g.defined()) g = Tensor::zeros(xs[i].shape(), xs[i].dtype());
    if (!g.is_contiguous()) g = g.contiguous();
    if (!g.exclusive() && !recording()) g = g.clone();
  }
}

} // namespace

/// One backward walk over a tape.
struct Tape::Walk {
  State& state;
  std::vector<bool> active;
  Cotangents cotangents;
  std::vector<bool> is_x;      // by slot
  std::vector<Tensor> arrived; // by slot, for xs that the tape computed: kept when their node takes them

  Walk(State& tape, std::span<const Tensor> xs)
      : state(tape), active(tape.mark_active(xs)), cotangents(active.size()), is_x(active.size()),
        arrived(active.size()) {
    for (const Tensor& x : xs) is_x[state.slot(x)] = true;
  }
  void start(std::span<const Tensor> ys, std::vector<Tensor> seeds) {
    for (std::size_t i = 0; i < ys.size(); ++i)
      if (const Slot s = state.slot(ys[i]); active[s]) cotangents.add(s, std::move(seeds[i]));
  }
  void step(const Node& node);
  std::vector<Tensor> results(std::span<const Tensor> xs);
};

void Tape::Walk::step(const Node& node) {
  std::vector<Tensor> grad(node.out.size());
  bool any = false;
  for (std::size_t o = 0; o < grad.size(); ++o) {
    const Slot s = node.out[o].slot;
    grad[o] = cotangents.take(s);
    if (!grad[o].defined()) continue;
    any = true;
    if (is_x[s]) arrived[s] = grad[o];
  }
  if (!any) return;
  const auto wanted = [&](std::size_t i) { return node.in[i].slot != no_slot && active[node.in[i].slot]; };
  std::uint32_t mask = 0;
  bool some = false;
  for (std::size_t i = 0; i < node.in.size(); ++i) {
    some = some || wanted(i);
    if (i < 32 && wanted(i)) mask |= 1U << i;
  }
  if (!some) return;
  if (!node.has_rule())
    throw AutogradError(fmt::format("tape: {}{} has no gradient: {}", node.name(), at_place(node.place),
                                    node.op != nullptr ? node.op->no_gradient : "it was defined without a vjp"));
  node.check_versions();
  Gradients gradients = node.apply_rule(grad, mask);
  if (gradients.size() < node.in.size())
    throw AutogradError(fmt::format("tape: the rule of {} gave {} gradients for {} inputs", node.name(),
                                    gradients.size(), node.in.size()));
  grad.clear(); // a cotangent that the rule handed through may be written to when nobody else holds it
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    Tensor g = std::exchange(gradients[i], Tensor{});
    if (i >= node.in.size() || !wanted(i) || !g.defined()) continue;
    const Kept& input = node.in[i];
    if (g.shape() != input.tensor.shape() || g.dtype() != input.tensor.dtype())
      g = fitted(g, input.tensor, fmt::format("{} for {}", node.name(), node.name_of_input(i)));
    cotangents.add(input.slot, std::move(g));
  }
}

std::vector<Tensor> Tape::Walk::results(std::span<const Tensor> xs) {
  std::vector<Tensor> gradients;
  for (const Tensor& x : xs) {
    const Slot s = state.slot(x);
    // What is left in the walk came after the value's last use, so it stands above what its node took.
    gradients.push_back(cotangents.has(s) ? cotangents.get(s) : arrived[s]);
  }
  cotangents = Cotangents(0);
  arrived.clear();
  return gradients;
}

std::vector<Tensor> Tape::gradient(std::span<const Tensor> ys, std::span<const Tensor> xs,
                                   std::span<const Tensor> cotangents, bool retain) {
  State& state = *state_;
  if (state.used_up)
    throw AutogradError("tape: it was used up by an earlier gradient; pass retain = true to that one to use it again");
  if (!state.closed && state.thread != std::this_thread::get_id())
    throw AutogradError("tape: it is open on another thread; close it there first");
  for (const Tensor& x : xs)
    if (!flows(x))
      throw AutogradError(x.defined() ? fmt::format("tape: x is {}; only f32 and f64 have gradients", described(x))
                                      : std::string("tape: x is undefined"));
  std::vector<Tensor> seeds = starting_cotangents(ys, cotangents);
  for (const Tensor& x : xs) state.slot(x); // values that the tape never met get a number too
  for (const Tensor& y : ys) {
    const bool is_x = std::any_of(xs.begin(), xs.end(), [&](const Tensor& x) { return x.id() == y.id(); });
    if (!is_x && !computed(y))
      throw AutogradError(fmt::format("tape: y {} was not computed on this tape", described(y)));
  }

  for (const Tensor& y : ys) state.check_unchanged(y, "gradient()");
  for (const Tensor& x : xs) state.check_unchanged(x, "gradient()");

  // A tape that is spent stops listening for good, whatever happens on the way.
  struct Spend {
    Tape* tape;
    ~Spend() {
      if (tape != nullptr) tape->state_->clear();
    }
  } const spend{retain ? nullptr : this};
  if (!retain) {
    state.used_up = true;
    close_recorder(this);
  }
  const PauseRecording deaf(this);
  Walk walk(state, xs);
  walk.start(ys, std::move(seeds));
  for (std::size_t i = state.nodes.size(); i-- > 0;) {
    walk.step(state.nodes[i]);
    if (!retain) state.nodes.pop_back();
  }
  std::vector<Tensor> gradients = walk.results(xs);
  finish(gradients, xs);
  return gradients;
}

std::vector<Tensor> Tape::gradient(const Tensor& y, std::span<const Tensor> xs, const Tensor& cotangent, bool retain) {
  return gradient(std::span(&y, 1), xs, std::span(&cotangent, 1), retain);
}

std::vector<Tensor> Tape::gradient(const Tensor& y, std::initializer_list<Tensor> xs, const Tensor& cotangent,
                                   bool retain) {
  return gradient(std::span(&y, 1), std::span(xs.begin(), xs.size()), std::span(&cotangent, 1), retain);
}

} // namespace eg
