// One call and what must hold of it.

#include "autograd/tape.h"
#include "core/call.h"
#include "core/memory/allocator.h"
#include "core/ops.h"
#include "core/reduction.h"
#include "core/threads/parallel.h"
#include "fuzz/op_calls.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <memory>

namespace eg::fuzz {
namespace {

constexpr std::size_t memory_limit = std::size_t{48} << 20;
constexpr double most_flops = 2e7;
constexpr double most_bytes = 3e7;

using Tensors = std::vector<Tensor>;

Tensors floating(const Tensors& list) {
  Tensors found;
  std::copy_if(list.begin(), list.end(), std::back_inserter(found), flows);
  return found;
}

/// The call has the inputs that the row declares, so that its shape rule may be asked.
bool fits_declaration(const OpDef& op, const Tensors& in) {
  if (op.variadic ? in.empty() : in.size() > op.inputs.size()) return false;
  const Tensor* first = nullptr;
  for (std::size_t i = 0; i < (op.variadic ? in.size() : op.inputs.size()); ++i) {
    if (i >= in.size() || !in[i].defined()) {
      if (!op.inputs[op.variadic ? 0 : i].optional) return false;
      continue;
    }
    if (!is_floating(in[i].dtype())) continue;
    if (first != nullptr && first->dtype() != in[i].dtype()) return false;
    first = &in[i];
  }
  return true;
}

enum class Size : std::uint8_t { fits, refused, beyond_memory, too_large };

/// What the row itself says of the call before it runs.
Size size_of_call(const OpCall& call, std::vector<TensorSpec>& specs) {
  if (!fits_declaration(*call.op, call.in)) return Size::refused;
  try {
    const Attrs attrs = completed_attributes(*call.op, call.attrs);
    const OpArgs args{*call.op, call.in, attrs};
    specs = call.op->infer(args);
    double out = 0;
    for (const TensorSpec& spec : specs)
      out += static_cast<double>(spec.shape.numel()) * static_cast<double>(eg::size_of(spec.dtype));
    if (call.op->cpu != nullptr && out > 2.0 * memory_limit) return Size::beyond_memory;
    if (call.op->view != nullptr) return Size::fits;
    double elements = 0;
    for (const Tensor& x : call.in)
      if (x.defined()) elements += static_cast<double>(x.numel());
    const Work work = call.op->work(args, specs);
    const bool fits =
        elements <= most_bytes / 8 && out <= most_bytes && work.flops <= most_flops && work.bytes <= most_bytes;
    return fits ? Size::fits : Size::too_large;
  } catch (const Error&) {
    return Size::refused;
  }
}

std::string difference(const Tensors& a, const Tensors& b) {
  if (a.size() != b.size()) return "another number of tensors";
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].defined() != b[i].defined()) return fmt::format("tensor {} is undefined once", i);
    if (a[i].defined() && a[i].has_storage() && a[i].numel() < 1 << 22 && !same_bits(a[i], b[i]))
      return fmt::format("tensor {} differs", i);
  }
  return {};
}

Tensors cotangents_for(const Tensors& out, bool wild) {
  const PauseRecording pause;
  Tensors drawn;
  for (std::size_t o = 0; o < out.size(); ++o) {
    drawn.push_back(random_normal(out[o].shape(), RandomKey{5, o}, 0.0, 1.0, out[o].dtype()));
    if (!wild || drawn.back().numel() == 0) continue;
    const double bad = o % 2 == 0 ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
    drawn.back().reshape({-1}).slice(0, 0, 1).fill(bad);
  }
  return drawn;
}

class Run {
public:
  explicit Run(const OpCall& call) : call_(call) {}

  OpOutcome all() {
    std::vector<TensorSpec> specs;
    const Size size = size_of_call(call_, specs);
    OpOutcome outcome;
    outcome.too_large = size == Size::too_large;
    if (outcome.too_large) return outcome;
    const Tensors before = copies();
    const Reduction wanted = call_.exact ? Reduction::exact : Reduction::fast;
    const ReductionScope scope(wanted);
    outcome.ran = forward(size, specs);
    if (outcome.ran && call_.backward) outcome.backward = backward(false);
    if (outcome.backward && call_.second) outcome.second = backward(true);
    if (const std::string text = difference(before, copies()); !text.empty()) fail("an input was written: " + text);
    return outcome;
  }

private:
  [[noreturn]] void fail(const std::string& what) const { throw Finding(described(call_) + ": " + what); }

  /// f(), or false where it throws an eg::Error with a message of one line. Anything else is a finding.
  template <class F> bool clean(F&& f) const {
    try {
      f();
      return true;
    } catch (const Error& e) {
      const std::string text = e.what();
      if (text.empty() || text.find('\n') != std::string::npos) fail("an error's message is not one line: " + text);
      return false;
    } catch (const Finding&) {
      throw;
    } catch (const std::exception& e) {
      fail(fmt::format("not an eg::Error: {}", e.what()));
    }
  }

  /// f() a second time: it may find no room beside the first result, else it must run again.
  template <class F> bool again(F&& f, const char* what) const {
    bool room = true;
    const bool ran = clean([&] {
      try {
        f();
      } catch (const MemoryError&) {
        room = false;
      }
    });
    if (!ran) fail(fmt::format("{} refused when repeated", what));
    return room;
  }

  Tensors copies() const {
    const PauseRecording pause;
    Tensors list;
    for (const Tensor& x : call_.in) {
      const bool small = x.defined() && x.has_storage() && x.numel() < 1 << 16;
      list.push_back(small ? x.clone() : Tensor());
    }
    return list;
  }

  bool forward(Size size, const std::vector<TensorSpec>& specs) const {
    Tensors first;
    Tensors repeated;
    const bool ran = clean([&] { first = call(*call_.op, call_.in, call_.attrs); });
    if (!ran) return false;
    if (size == Size::refused) fail("the shape rule refuses the call and it ran");
    if (size == Size::beyond_memory) fail("more memory was given than there is");
    if (first.size() != specs.size()) fail("another number of outputs than the shape rule says");
    for (std::size_t o = 0; o < first.size(); ++o)
      if (first[o].shape() != specs[o].shape || first[o].dtype() != specs[o].dtype)
        fail(fmt::format("output {} is {} {}, the shape rule says {} {}", o, name_of(first[o].dtype()),
                         first[o].shape().str(), name_of(specs[o].dtype), specs[o].shape.str()));
    if (!again([&] { repeated = call(*call_.op, call_.in, call_.attrs); }, "call")) return true;
    if (const std::string text = difference(first, repeated); !text.empty()) fail("repeated: " + text);
    return true;
  }

  Tensors gradients(bool second) const {
    const Tensors xs = floating(call_.in);
    std::unique_ptr<Tape> outer = second ? std::make_unique<Tape>() : nullptr;
    Tensors g;
    Tensors cotangents;
    {
      Tape tape;
      const Tensors ys = floating(call(*call_.op, call_.in, call_.attrs));
      cotangents = cotangents_for(ys, call_.wild_grad);
      g = tape.gradient(ys, xs, cotangents);
    }
    if (!second) return g;
    Tensors all = xs;
    all.insert(all.end(), cotangents.begin(), cotangents.end());
    return outer->gradient(g, all, cotangents_for(g, false));
  }

  bool backward(bool second) const {
    if (floating(call_.in).empty()) return false;
    Tensors first;
    Tensors repeated;
    if (!clean([&] { first = gradients(second); })) return false;
    const Tensors xs = floating(call_.in);
    for (std::size_t i = 0; i < xs.size(); ++i)
      if (first[i].defined() && (first[i].shape() != xs[i].shape() || first[i].dtype() != xs[i].dtype()))
        fail(fmt::format("gradient {} is {} {}", i, name_of(first[i].dtype()), first[i].shape().str()));
    if (!again([&] { repeated = gradients(second); }, "gradient")) return true;
    if (const std::string text = difference(first, repeated); !text.empty())
      fail(fmt::format("{} repeated: {}", second ? "second derivative" : "gradient", text));
    return true;
  }

  const OpCall& call_;
};

} // namespace

void prepare_op_calls() {
  parallel::set_threads(1);
  allocator::set_limit(memory_limit + allocator::stats().live_bytes);
}

OpOutcome run_op_call(const OpCall& call) { return Run(call).all(); }

} // namespace eg::fuzz
