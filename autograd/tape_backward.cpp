// The backward walk.

#include "autograd/accumulate.h"
#include "autograd/tape_state.h"
#include "core/device/device.h"
#include "core/ops.h"
#include "core/ops/views/strided_copy.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>
#include <utility>

namespace eg {
namespace {

/// The cotangents of one backward walk, by slot.
class Cotangents {
public:
  explicit Cotangents(std::size_t slots) : at_(slots) {}
  bool has(Slot s) const { return s != no_slot && at_[s].defined(); }
  const Tensor& get(Slot s) const { return at_[s]; }
  Tensor take(Slot s) { return s == no_slot ? Tensor{} : std::exchange(at_[s], Tensor{}); }
  void add(Slot s, Tensor g) { accumulate(at_[s], std::move(g)); }
  void put(Slot s, Tensor g) { at_[s] = std::move(g); }

private:
  std::vector<Tensor> at_;
};

} // namespace

std::vector<Tensor> Tape::Node::values(const std::vector<SavedTensor>& kept) const {
  std::vector<Tensor> list;
  list.reserve(kept.size());
  for (const SavedTensor& k : kept) list.push_back(k.tensor);
  return list;
}

/// An error in a rule names the part of the model that it belongs to.
template <class Run> auto Tape::Node::at_its_place(Run&& run) const {
  try {
    if (place.empty()) return run();
    const PlaceScope scope = PlaceScope::at(place);
    return run();
  } catch (const NumericError& e) {
    throw NumericError(fmt::format("{}, in the gradient of {}", e.what(), name()));
  }
}

namespace {

/// Tensors that a rule makes are where its cotangents are.
Device device_of(std::span<const Tensor> grad) {
  for (const Tensor& g : grad)
    if (g.defined()) return g.device();
  return current_device();
}

} // namespace

Gradients Tape::Node::apply_rule(std::span<const Tensor> grad, std::uint32_t wanted) const {
  const DeviceScope device(device_of(grad));
  const std::vector<Tensor> inputs = values(in), outputs = values(out);
  return at_its_place([&] {
    if (custom) return custom->vjp(inputs, outputs, grad);
    const OpArgs args{*op, inputs, attrs};
    return op->vjp(VjpArgs{args, outputs, grad, wanted});
  });
}

void Tape::Node::apply_adding_rule(std::span<const Tensor> grad, const std::vector<bool>& wanted,
                                   std::span<Tensor> sums) const {
  const DeviceScope device(device_of(grad));
  const std::vector<Tensor> inputs = values(in), outputs = values(out);
  const AddingVjp v{inputs, outputs, attrs, grad, wanted, sums};
  at_its_place([&] { custom ? custom->adding_vjp(v) : op->adding_vjp(v); });
}

/// By slot: the value depends on some x. Walking oldest first, so one sweep is enough.
std::vector<bool> Tape::State::mark_active(std::span<const Tensor> xs) {
  std::vector<bool> active(slots.size());
  for (const Tensor& x : xs) active[slot(x)] = true;
  for (const Node& node : nodes) {
    const bool reached = std::any_of(node.in.begin(), node.in.end(), [&](const SavedTensor& kept) {
      return kept.slot != no_slot && active[kept.slot];
    });
    if (!reached) continue;
    for (const SavedTensor& kept : node.out)
      if (kept.slot != no_slot) active[kept.slot] = true;
  }
  for (const BrokenPath& path : broken)
    if (active[path.slot])
      throw AutogradError(fmt::format("tape: {} read a bf16 tensor made from a value that depends on x; no gradient "
                                      "flows through bf16 (keep f32 on the way, or convert x.detach())",
                                      path.name));
  return active;
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
      throw AutogradError(y.defined()
                              ? fmt::format("tape: y is {}; only f32 and f64 have gradients", described_value(y))
                              : std::string("tape: y is undefined"));
    if (i < given.size() && given[i].defined()) {
      if (given[i].shape() != y.shape() || given[i].dtype() != y.dtype())
        throw AutogradError(fmt::format("tape: the cotangent does not fit y: cotangent is {}, y is {}",
                                        described_value(given[i]), described_value(y)));
      if (given[i].device() != y.device())
        throw DeviceError(fmt::format("tape: y is on {}, its cotangent on {}; move one with to()", y.device().str(),
                                      given[i].device().str()));
      cotangents.push_back(given[i]);
    } else if (y.numel() == 1) {
      const DeviceScope device(y.device());
      cotangents.push_back(Tensor::ones(y.shape(), y.dtype()));
    } else {
      throw AutogradError(
          fmt::format("tape: y is {} and has no cotangent; reduce it to one element (sum, mean) or give "
                      "a cotangent of its shape",
                      described_value(y)));
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
                                    described_value(gradient), described_value(input)));
  return gradient.shape() == input.shape() ? gradient : sum_to(gradient, input.shape());
}

Tensor zeros_like(const Tensor& x) {
  const DeviceScope device(x.device());
  return Tensor::zeros(x.shape(), x.dtype());
}

/// A gradient as the caller gets it: packed, zeros where nothing arrived, and with elements of its own, so that writing
/// to one (clipping in place) changes no other. While another tape listens they may share: a copy would hide how they
/// were made.
void finish(Tensor& g, const Tensor& x) {
  if (!g.defined()) g = zeros_like(x);
  if (!g.is_contiguous()) g = g.contiguous();
  if (!g.exclusive() && !graph_recording()) g = packed_copy(g);
}

} // namespace

/// One backward walk over a tape.
struct Tape::BackwardPass {
  State& state;
  std::vector<bool> active;
  Cotangents cotangents;
  std::vector<bool> is_x;      // by slot
  std::vector<Tensor> arrived; // by slot, for xs that the tape computed: kept when their node takes them

  BackwardPass(State& tape, std::span<const Tensor> xs)
      : state(tape), active(tape.mark_active(xs)), cotangents(active.size()), is_x(active.size()),
        arrived(active.size()) {
    for (const Tensor& x : xs) is_x[state.slot(x)] = true;
  }
  void start(std::span<const Tensor> ys, std::vector<Tensor> seeds) {
    for (std::size_t i = 0; i < ys.size(); ++i)
      if (const Slot s = state.slot(ys[i]); active[s]) cotangents.add(s, std::move(seeds[i]));
  }
  void pass_hooks(Slot s, Tensor& g) const;
  bool take(const Node& node, std::vector<Tensor>& grad);
  void run_rule(const Node& node, std::vector<Tensor>& grad, const std::vector<bool>& wanted);
  bool adds(const Node& node) const;
  void run_adding_rule(const Node& node, std::vector<Tensor>& grad, std::vector<bool> wanted);
  void step(const Node& node);
  Tensor take_result(Slot s);
  std::vector<Tensor> results(std::span<const Tensor> xs);
};

/// What the hooks on a value make of its cotangent.
void Tape::BackwardPass::pass_hooks(Slot s, Tensor& g) const {
  if (!state.hooks) return;
  // A hook may remove itself or another one.
  std::vector<std::uint64_t> numbers;
  for (auto at = state.hooks->hooks.lower_bound({s, 0}); at != state.hooks->hooks.end() && at->first.first == s; ++at)
    numbers.push_back(at->first.second);
  for (const std::uint64_t number : numbers) {
    const auto at = state.hooks->hooks.find({s, number});
    if (at == state.hooks->hooks.end()) continue;
    const GradientHook hook = at->second;
    Tensor replaced = hook(g);
    if (!replaced.defined()) continue;
    if (replaced.shape() != g.shape() || replaced.dtype() != g.dtype())
      throw AutogradError(fmt::format("tape: what a hook gave does not fit: it is {}, the cotangent is {}",
                                      described_value(replaced), described_value(g)));
    g = std::move(replaced);
  }
}

/// The cotangents of a node's outputs, all contributions in. False when none arrived.
bool Tape::BackwardPass::take(const Node& node, std::vector<Tensor>& grad) {
  bool any = false;
  for (std::size_t o = 0; o < grad.size(); ++o) {
    const Slot s = node.out[o].slot;
    grad[o] = cotangents.take(s);
    if (!grad[o].defined()) continue;
    any = true;
    pass_hooks(s, grad[o]);
    if (is_x[s]) arrived[s] = grad[o];
  }
  return any;
}

void Tape::BackwardPass::step(const Node& node) {
  std::vector<Tensor> grad(node.out.size());
  if (!take(node, grad)) return;
  std::vector<bool> wanted;
  for (const SavedTensor& input : node.in) wanted.push_back(input.slot != no_slot && active[input.slot]);
  if (std::find(wanted.begin(), wanted.end(), true) == wanted.end()) return;
  if (!node.has_rule())
    throw AutogradError(fmt::format("tape: {}{} has no gradient: {}", node.name(), at_place(node.place),
                                    node.op != nullptr ? node.op->no_gradient : "it was defined without a vjp"));
  node.check_versions();
  if (adds(node))
    run_adding_rule(node, grad, std::move(wanted));
  else
    run_rule(node, grad, wanted);
}

void Tape::BackwardPass::run_rule(const Node& node, std::vector<Tensor>& grad, const std::vector<bool>& wanted) {
  std::uint32_t mask = 0;
  for (std::size_t i = 0; i < std::min<std::size_t>(wanted.size(), 32); ++i)
    if (wanted[i]) mask |= 1U << i;
  Gradients gradients = node.apply_rule(grad, mask);
  if (gradients.size() < node.in.size())
    throw AutogradError(fmt::format("tape: the rule of {} gave {} gradients for {} inputs", node.name(),
                                    gradients.size(), node.in.size()));
  if (recording()) notify_recorders(RuleEvent{node.name(), node.place, grad, gradients});
  grad.clear(); // a cotangent that the rule handed through may be written to when nobody else holds it
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    Tensor g = std::exchange(gradients[i], Tensor{});
    if (i >= node.in.size() || !wanted[i] || !g.defined()) continue;
    const SavedTensor& input = node.in[i];
    if (g.shape() != input.tensor.shape() || g.dtype() != input.tensor.dtype())
      g = fitted(g, input.tensor, fmt::format("{} for {}", node.name(), node.name_of_input(i)));
    cotangents.add(input.slot, std::move(g));
  }
}

/// A user's adding rule always adds. A row's does so where the sum may be written to and no recorder observes it.
bool Tape::BackwardPass::adds(const Node& node) const {
  if (node.custom) return node.custom->adding_vjp != nullptr;
  const Slot s = node.in[0].slot;
  if (node.op->adding_vjp == nullptr || values_recording() || !cotangents.has(s)) return false;
  return cotangents.get(s).exclusive() && cotangents.get(s).is_contiguous();
}

void Tape::BackwardPass::run_adding_rule(const Node& node, std::vector<Tensor>& grad, std::vector<bool> wanted) {
  std::vector<Tensor> sums(node.in.size());
  for (std::size_t i = 0; i < sums.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j)
      if (node.in[j].slot == node.in[i].slot) wanted[i] = false;
    if (wanted[i]) sums[i] = cotangents.take(node.in[i].slot);
  }
  node.apply_adding_rule(grad, wanted, sums);
  if (recording()) notify_recorders(RuleEvent{node.name(), node.place, grad, sums});
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (!wanted[i] || !sums[i].defined()) continue;
    const Tensor& input = node.in[i].tensor;
    if (sums[i].shape() != input.shape() || sums[i].dtype() != input.dtype())
      throw AutogradError(fmt::format("tape: the rule of {} for {} does not fit: gradient is {}, input is {}",
                                      node.name(), node.name_of_input(i), described_value(sums[i]),
                                      described_value(input)));
    cotangents.put(node.in[i].slot, std::move(sums[i]));
  }
}

/// What arrived at an x, when the walk has passed all its uses; undefined where nothing did.
Tensor Tape::BackwardPass::take_result(Slot s) {
  Tensor g = cotangents.take(s);
  if (g.defined()) pass_hooks(s, g);
  return g;
}

/// What arrived at each x, undefined where nothing did.
std::vector<Tensor> Tape::BackwardPass::results(std::span<const Tensor> xs) {
  std::vector<Tensor> gradients;
  for (const Tensor& x : xs) {
    const Slot s = state.slot(x);
    // What is left in the walk came after the value's last use, so it stands above what its node took.
    if (cotangents.has(s)) arrived[s] = take_result(s);
    gradients.push_back(arrived[s]);
  }
  cotangents = Cotangents(0);
  arrived.clear();
  return gradients;
}

namespace {

void require_floating(std::span<const Tensor> xs) {
  for (const Tensor& x : xs)
    if (!flows(x))
      throw AutogradError(x.defined()
                              ? fmt::format("tape: x is {}; only f32 and f64 have gradients", described_value(x))
                              : std::string("tape: x is undefined"));
}

} // namespace

std::vector<Tensor> Tape::run_backward(std::span<const Tensor> ys, std::span<const Tensor> xs,
                                       std::span<const Tensor> cotangents, std::span<Tensor> sums, bool retain,
                                       FunctionRef<void(BackwardPass& pass, std::size_t node)> passed) {
  State& state = *state_;
  if (state.used_up)
    throw AutogradError(
        "tape: it was used up by an earlier gradient; give that one retain (retain=True) to use it again");
  if (!state.closed && state.thread != std::this_thread::get_id())
    throw AutogradError("tape: it is open on another thread; close it there first");
  require_floating(xs);
  std::vector<Tensor> seeds = starting_cotangents(ys, cotangents);
  for (const Tensor& x : xs) state.slot(x); // values that the tape never met get a number too
  for (const Tensor& y : ys) {
    const bool is_x = std::any_of(xs.begin(), xs.end(), [&](const Tensor& x) { return x.id() == y.id(); });
    if (!is_x && !computed(y))
      throw AutogradError(fmt::format("tape: y {} was not computed on this tape", described_value(y)));
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
  const PauseRecording muted(this);
  const BackwardScope backward_scope;
  BackwardPass pass(state, xs);
  for (std::size_t i = 0; i < sums.size(); ++i)
    if (sums[i].defined()) pass.cotangents.put(state.slot(xs[i]), std::move(sums[i]));
  pass.start(ys, std::move(seeds));
  for (std::size_t i = state.nodes.size(); i-- > 0;) {
    pass.step(state.nodes[i]);
    if (!retain) state.nodes.pop_back();
    passed(pass, i);
  }
  return pass.results(xs);
}

std::vector<Tensor> Tape::gradient(std::span<const Tensor> ys, std::span<const Tensor> xs,
                                   std::span<const Tensor> cotangents, bool retain) {
  std::vector<Tensor> gradients = run_backward(ys, xs, cotangents, {}, retain, [](BackwardPass&, std::size_t) {});
  for (std::size_t i = 0; i < xs.size(); ++i) finish(gradients[i], xs[i]);
  return gradients;
}

std::vector<Tensor> Tape::gradient_views(std::span<const Tensor> ys, std::span<const Tensor> xs,
                                         std::span<const Tensor> cotangents, bool retain) {
  std::vector<Tensor> gradients = run_backward(ys, xs, cotangents, {}, retain, [](BackwardPass&, std::size_t) {});
  for (std::size_t i = 0; i < xs.size(); ++i)
    if (!gradients[i].defined()) gradients[i] = zeros_like(xs[i]);
  return gradients;
}

/// For each x that an operation reads, the first one that does, latest first.
std::vector<Tape::State::FirstUse> Tape::State::first_uses(std::span<const Tensor> xs) {
  std::vector<std::size_t> first(slots.size(), nodes.size());
  for (std::size_t n = nodes.size(); n-- > 0;)
    for (const SavedTensor& kept : nodes[n].in)
      if (kept.slot != no_slot) first[kept.slot] = n;
  std::vector<FirstUse> uses;
  for (std::size_t i = 0; i < xs.size(); ++i)
    if (const std::size_t node = first[slot_of.at(xs[i].id())]; node < nodes.size()) uses.push_back({node, i});
  std::stable_sort(uses.begin(), uses.end(), [](const FirstUse& a, const FirstUse& b) { return a.node > b.node; });
  return uses;
}

void Tape::gradient_each(const Tensor& y, std::span<const Tensor> xs,
                         FunctionRef<void(std::size_t i, Tensor gradient)> take) {
  require_floating(xs);
  if (!computed(y)) throw AutogradError("tape: gradient_each: y was not computed on this tape");
  std::set<std::uint64_t> ids;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    if (computed(xs[i]))
      throw AutogradError(fmt::format("tape: gradient_each: x {} ({}) was computed on this tape; it takes leaves alone",
                                      i, described_value(xs[i])));
    if (!ids.insert(xs[i].id()).second) throw AutogradError(fmt::format("tape: gradient_each: x {} is given twice", i));
    state_->slot(xs[i]);
  }
  const std::vector<State::FirstUse> due = state_->first_uses(xs);
  std::vector<bool> given(xs.size());
  std::size_t next = 0;
  const auto give = [&](std::size_t i, Tensor g) {
    given[i] = true;
    finish(g, xs[i]);
    take(i, std::move(g));
  };
  run_backward(std::span(&y, 1), xs, {}, {}, false, [&](BackwardPass& pass, std::size_t node) {
    for (; next < due.size() && due[next].node == node; ++next)
      give(due[next].x, pass.take_result(pass.state.slot(xs[due[next].x])));
  });
  for (std::size_t i = 0; i < xs.size(); ++i)
    if (!given[i]) give(i, {});
}

void Tape::add_gradient(std::span<const Tensor> ys, std::span<const Tensor> xs, std::span<const Tensor> cotangents,
                        std::span<Tensor> sums) {
  if (sums.size() != xs.size())
    throw AutogradError(fmt::format("tape: {} sums were given for {} tensors", sums.size(), xs.size()));
  std::vector<Tensor> gradients = run_backward(ys, xs, cotangents, sums, false, [](BackwardPass&, std::size_t) {});
  std::move(gradients.begin(), gradients.end(), sums.begin());
}

std::vector<Tensor> Tape::gradient(const Tensor& y, std::span<const Tensor> xs, const Tensor& cotangent, bool retain) {
  return gradient(std::span(&y, 1), xs, std::span(&cotangent, 1), retain);
}

std::vector<Tensor> Tape::gradient_views(const Tensor& y, std::span<const Tensor> xs, const Tensor& cotangent,
                                         bool retain) {
  return gradient_views(std::span(&y, 1), xs, std::span(&cotangent, 1), retain);
}

std::vector<Tensor> Tape::gradient(const Tensor& y, std::initializer_list<Tensor> xs, const Tensor& cotangent,
                                   bool retain) {
  return gradient(std::span(&y, 1), std::span(xs.begin(), xs.size()), std::span(&cotangent, 1), retain);
}

} // namespace eg
