#include "autograd/checkpoint.h"

#include "autograd/tape.h"
#include "autograd/tensor_list.h"
#include "core/base/context.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace eg {
namespace {

using autograd::contains;
using Tensors = std::vector<Tensor>;

/// f(inputs, whether its result will be read)
using TellingFunction = std::function<Tensors(const Tensors& inputs, bool read)>;

/// Finds what a function reads beside its inputs: tensors that were there before it began. Ids grow, so those that it
/// makes on the way, by an operation or otherwise, are newer.
class Scout : private Recorder {
public:
  explicit Scout(const Tensors& inputs) : known_(inputs), newest_(Tensor::meta({}, DType::u8).id()) {
    open_recorder(this);
  }
  ~Scout() override { close_recorder(this); }
  Scout(const Scout&) = delete;
  Scout& operator=(const Scout&) = delete;

  /// Something that the function read, or handed out.
  void note(const Tensor& x) {
    if (x.has_storage() && x.id() <= newest_ && !contains(known_, x)) known_.push_back(x);
  }
  /// The inputs, then what was captured in the order of its first use.
  Tensors found() && { return std::move(known_); }

private:
  void record(const Event& event) override {
    for (const Tensor& x : event.in) note(x);
  }
  bool observes() const override { return true; } // of what checkpoints within do
  bool links() const override { return true; }

  Tensors known_;
  std::uint64_t newest_;
};

/// What the first run gave, to compare the second with.
struct Checkpoint {
  TellingFunction f;
  std::size_t inputs;
  ContextSettings settings;

  Tensors run_again(std::span<const Tensor> in) const {
    const ContextScope as_before(settings);
    ++execution_context().settings.recomputations;
    return f(Tensors(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(inputs)), false);
  }
  void backward(const AddingVjp& v) const;
};

void check_same_outputs(const Tensors& now, std::span<const Tensor> then) {
  bool same = now.size() == then.size();
  for (std::size_t o = 0; same && o < now.size(); ++o)
    same = now[o].defined() && now[o].shape() == then[o].shape() && now[o].dtype() == then[o].dtype();
  if (!same)
    throw AutogradError("checkpoint: run again for the gradient, the function gave outputs of another number, shape or "
                        "type than the first time; it must do the same each time");
}

void Checkpoint::backward(const AddingVjp& v) const {
  Tape tape;
  const Tensors outputs = run_again(v.in);
  tape.close();
  check_same_outputs(outputs, v.out);
  for (std::size_t i = inputs; i < v.in.size(); ++i)
    if (flows(v.in[i]) && !tape.met(v.in[i]) && !contains(outputs, v.in[i]))
      throw AutogradError(
          fmt::format("checkpoint: run again for the gradient, the function did not use the captured {} "
                      "{} that it used the first time; it must do the same each time (was a parameter "
                      "replaced meanwhile?)",
                      name_of(v.in[i].dtype()), v.in[i].shape().str()));
  Tensors xs, sums, ys, cotangents;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < v.in.size(); ++i)
    if (v.wanted[i]) {
      xs.push_back(v.in[i]);
      sums.push_back(std::exchange(v.sums[i], Tensor{}));
      places.push_back(i);
    }
  for (std::size_t o = 0; o < outputs.size(); ++o)
    if (v.grad[o].defined() && (tape.computed(outputs[o]) || contains(xs, outputs[o]))) {
      ys.push_back(outputs[o]);
      cotangents.push_back(v.grad[o]);
    }
  if (!ys.empty()) tape.add_gradient(ys, xs, cotangents, sums);
  for (std::size_t k = 0; k < xs.size(); ++k) v.sums[places[k]] = std::move(sums[k]);
}

Tensors checkpointed(const TellingFunction& f, const Tensors& inputs) {
  if (!graph_recording()) return f(inputs, true);
  Tensors outputs, in;
  {
    const CompositeScope composite;
    Scout scout(inputs);
    outputs = f(inputs, true);
    for (const Tensor& y : outputs) scout.note(y);
    in = std::move(scout).found();
  }
  for (Tensor& y : outputs) {
    if (!y.defined()) throw AutogradError("checkpoint: the function gave an undefined output");
    // Handed through, an input would have two meanings; the same goes for an output that is given twice.
    if (contains(in, y) ||
        std::count_if(outputs.begin(), outputs.end(), [&](const Tensor& t) { return t.id() == y.id(); }) > 1)
      y = y.detach();
  }
  auto op = std::make_shared<CustomOp>();
  op->name = "checkpoint";
  op->adding_vjp = [self = Checkpoint{f, inputs.size(), execution_context().settings}](const AddingVjp& v) {
    self.backward(v);
  };
  op->saves_outputs = false;
  notify_of_composite({.custom = op, .in = in, .out = outputs});
  return outputs;
}

} // namespace

bool recomputing() { return execution_context().settings.recomputations > 0; }

Tensors checkpoint(const TensorFunction& f, const Tensors& inputs) {
  return checkpointed([f](const Tensors& in, bool) { return f(in); }, inputs);
}

Tensor checkpoint(const std::function<Tensor(const Tensor&)>& f, const Tensor& x) {
  return checkpointed([f](const Tensors& in, bool) { return Tensors{f(in[0])}; }, Tensors{x}).front();
}

Tensor checkpoint(const std::function<Tensor(const Tensor&, bool)>& f, const Tensor& x) {
  return checkpointed([f](const Tensors& in, bool read) { return Tensors{f(in[0], read)}; }, Tensors{x}).front();
}

} // namespace eg
