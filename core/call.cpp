#include "core/call.h"

#include "core/unpaused_recorder.h"

#include "core/base/context.h"
#include "core/base/interrupt.h"
#include "core/device/device.h"
#include "core/meta.h"
#include "core/reduction.h"

#include <algorithm>
#include <cassert>
#include <fmt/format.h>
#include <limits>
#include <optional>

namespace eg {

/// The open recorders of a thread, oldest first; it is made for the first and goes with the last. One list and one
/// count of pauses, so that a recorder can be opened and closed whatever pauses there are.
struct ExecutionContext::Recorders {
  struct Listener {
    Recorder* recorder;
    std::uint64_t serial;  // an address may come again, this does not
    std::size_t opened_at; // pauses that do not concern it: those that were there before it
    std::size_t muted = 0; // pauses of this recorder alone
    bool unpaused = false; // muted within operations alone
  };
  std::vector<Listener> listeners;
  std::size_t operations = 0; // running within each other
};

struct ExecutionContext::Place {
  std::string name;
  Place* around;
};

namespace {

using Recorders = ExecutionContext::Recorders;
using Listener = Recorders::Listener;
using Place = ExecutionContext::Place;

std::span<Listener> listeners() {
  Recorders* const open = execution_context().recorders;
  return open != nullptr ? std::span<Listener>(open->listeners) : std::span<Listener>();
}

/// Open while a kernel runs: calls inside it are not recorded.
class OperationScope {
public:
  OperationScope() : open_(execution_context().recorders) {
    if (open_ != nullptr) ++open_->operations;
  }
  ~OperationScope() {
    if (open_ != nullptr && execution_context().recorders == open_) --open_->operations;
  }
  OperationScope(const OperationScope&) = delete;
  OperationScope& operator=(const OperationScope&) = delete;

private:
  Recorders* open_;
  PauseRecording pause_;
};

bool is_listening(const Listener& listener) {
  if (listener.muted > 0) return false;
  return listener.unpaused ? execution_context().recorders->operations == 0
                           : execution_context().pauses <= listener.opened_at;
}

/// Some recorder that listens has the property.
template <class Property> bool some_listener(Property&& property) {
  const std::span<Listener> all = listeners();
  return std::any_of(all.begin(), all.end(),
                     [&](const Listener& listener) { return is_listening(listener) && property(*listener.recorder); });
}

void enter_place(std::string name) {
  Place*& innermost = execution_context().place;
  innermost = std::make_unique<Place>(Place{std::move(name), innermost}).release(); // ~PlaceScope owns it
}

AttrValue default_of(const AttrSpec& spec) {
  switch (spec.kind) {
  case AttrKind::boolean:
    return spec.number != 0.0;
  case AttrKind::integer:
    return static_cast<std::int64_t>(spec.number);
  case AttrKind::real:
    return spec.number;
  case AttrKind::integers:
    return std::vector<std::int64_t>{};
  case AttrKind::text:
    return std::string(spec.text);
  case AttrKind::reals:
    return std::vector<double>{};
  }
  return false;
}

/// An integer that serves for a real number, as one; as it is where a double would round it, for the rows that can keep
/// it (core/ops/whole_attribute.h).
AttrValue as_real(std::int64_t whole) {
  constexpr std::int64_t exact = std::int64_t{1} << std::numeric_limits<double>::digits;
  if (whole >= -exact && whole <= exact) return static_cast<double>(whole);
  return whole;
}

/// Every given attribute is declared and of its kind (an integer serves for a real); the others get their defaults.
void complete_attributes(const OpDef& op, Attrs& attrs) {
  for (const auto& [name, value] : attrs.items()) {
    const auto* spec = std::find_if(op.attributes.begin(), op.attributes.end(),
                                    [&, &key = name](const AttrSpec& s) { return s.name == key; });
    if (spec == op.attributes.end()) throw ValueError(fmt::format("{}: there is no attribute '{}'", op.name, name));
    const bool whole_for_real = spec->kind == AttrKind::real && std::holds_alternative<std::int64_t>(value);
    if (value.index() != static_cast<std::size_t>(spec->kind) && !whole_for_real)
      throw ValueError(fmt::format("{}: attribute '{}' must be {}", op.name, name, described(spec->kind)));
  }
  for (const AttrSpec& spec : op.attributes) {
    if (!attrs.has(spec.name)) {
      if (spec.required) throw ValueError(fmt::format("{}: attribute '{}' must be given", op.name, spec.name));
      attrs.set(spec.name, default_of(spec));
    } else if (spec.kind == AttrKind::real) {
      for (const auto& [name, value] : attrs.items())
        if (const auto* whole = std::get_if<std::int64_t>(&value); whole != nullptr && name == spec.name) {
          attrs.set(spec.name, as_real(*whole));
          break;
        }
    }
  }
}

/// Both ways are named: to f64 nothing is lost, and to f32 where the other one is a weight that stays what it is.
[[noreturn]] void refuse_mixed_types(const OpDef& op, std::size_t first, std::size_t second,
                                     std::span<const Tensor> in) {
  const bool first_is_narrow = in[first].dtype() == DType::f32;
  const std::size_t narrow = first_is_narrow ? first : second, wide = first_is_narrow ? second : first;
  throw DTypeError(fmt::format("{}: inputs have different types: '{}' is {}, '{}' is {}; convert '{}' with to(\"f64\") "
                               "or '{}' with to(\"f32\")",
                               op.name, input_name(op, first), name_of(in[first].dtype()), input_name(op, second),
                               name_of(in[second].dtype()), input_name(op, narrow), input_name(op, wide)));
}

void check_inputs(const OpDef& op, std::span<const Tensor> in) {
  if (op.variadic) {
    if (in.empty()) throw ValueError(fmt::format("{}: at least one tensor must be given", op.name));
  } else if (in.size() > op.inputs.size()) {
    throw ValueError(fmt::format("{}: {} inputs were given, it takes {}", op.name, in.size(), op.inputs.size()));
  }
  const std::size_t count = op.variadic ? in.size() : op.inputs.size();
  std::optional<std::size_t> floating; // the first f32 or f64 input
  for (std::size_t i = 0; i < count; ++i) {
    const InputSpec& spec = op.inputs[op.variadic ? 0 : i];
    if (i >= in.size() || !in[i].defined()) {
      if (!spec.optional) throw ValueError(fmt::format("{}: input '{}' must be given", op.name, spec.name));
      continue;
    }
    if (!is_floating(in[i].dtype())) continue;
    if (floating && in[*floating].dtype() != in[i].dtype()) refuse_mixed_types(op, *floating, i, in);
    if (!floating) floating = i;
  }
}

/// Where a call runs: where its inputs are, or the present device where none of them has values. Throws DeviceError for
/// inputs on several devices.
Device device_of(std::string_view name, std::span<const Tensor> in) {
  const Tensor* first = nullptr;
  for (const Tensor& t : in) {
    if (!t.defined() || !t.has_storage()) continue;
    if (first == nullptr) {
      first = &t;
    } else if (t.device() != first->device()) {
      const auto position = [&](const Tensor& wanted) { return &wanted - in.data(); };
      throw DeviceError(fmt::format("{}: input {} is on {}, input {} on {}; move one with to()", name, position(*first),
                                    first->device().str(), position(t), t.device().str()));
    }
  }
  return first != nullptr ? first->device() : current_device();
}

/// The kernel for the present device and kind of sums. Throws DeviceError where the row has none for the device,
/// ValueError where it has none for exact mode.
KernelFn kernel_of(const OpDef& op, const ContextSettings& settings) {
  if (!op.no_exact.empty() && settings.reduction == Reduction::exact)
    throw ValueError(fmt::format("{}: exact mode refuses it ({}); call it outside", op.name, op.no_exact));
  const bool exact = op.exact != nullptr && settings.reduction == Reduction::exact;
  if (settings.device.is_cpu()) return exact ? op.exact : op.cpu;
  const KernelFn kernel = exact ? op.cuda_exact : op.cuda;
  if (kernel == nullptr)
    throw DeviceError(fmt::format("{}: has no {}kernel for {}{}; copy its inputs with to(Device::cpu())", op.name,
                                  exact ? "exact " : "", settings.device.str(),
                                  op.no_cuda.empty() ? std::string() : fmt::format(" ({})", op.no_cuda)));
  return kernel;
}

bool shapes_alone(const ContextSettings& settings, const OpArgs& args) {
  if (settings.shape_only > 0) {
    assert(args.op.saves >> 16 == 0 && "ShapeOnlyScope: the rule reads an output, which would have no values");
    return true;
  }
  return settings.meta_calls > 0 &&
         std::any_of(args.in.begin(), args.in.end(), [](const Tensor& t) { return t.defined() && !t.has_storage(); });
}

std::vector<Tensor> meta_outputs(const OpDef& op, const OpArgs& args) {
  std::vector<Tensor> out;
  for (const TensorSpec& spec : op.infer(args)) out.push_back(Tensor::meta(spec.shape, spec.dtype));
  return out;
}

std::vector<Tensor> run(const OpDef& op, const OpArgs& args) {
  const OperationScope own_work; // a kernel may use other operations
  const ContextSettings& settings = execution_context().settings;
  if (shapes_alone(settings, args)) return meta_outputs(op, args);
  if (op.view != nullptr) return {op.view(args)};
  const std::vector<TensorSpec> specs = op.infer(args); // a bad call gets the row's own words
  const KernelFn kernel = kernel_of(op, settings);
  std::vector<Tensor> out;
  out.reserve(specs.size());
  for (const TensorSpec& spec : specs) out.push_back(Tensor::empty(spec.shape, spec.dtype));
  const KernelScope stoppable;
  kernel(args, out);
  return out;
}

/// While it lives, recorders that take this row as one call (records_whole) do not get the calls in its body.
class WholeRowScope {
public:
  explicit WholeRowScope(const OpDef& op) {
    if (is_shape_only()) return; // observers do not get these calls
    for (Listener& listener : listeners()) {
      if (!listener.unpaused || !is_listening(listener)) continue;
      if (!dynamic_cast<const UnpausedRecorder*>(listener.recorder)->records_whole(op)) continue;
      muted_.push_back(listener.serial);
      ++listener.muted;
    }
  }
  ~WholeRowScope() {
    for (Listener& listener : listeners())
      if (std::find(muted_.begin(), muted_.end(), listener.serial) != muted_.end()) --listener.muted;
  }
  WholeRowScope(const WholeRowScope&) = delete;
  WholeRowScope& operator=(const WholeRowScope&) = delete;

  const std::vector<std::uint64_t>& recorders() const { return muted_; } // serials

private:
  std::vector<std::uint64_t> muted_;
};

/// Serials of the recorders that listen.
std::vector<std::uint64_t> listening() {
  std::vector<std::uint64_t> serials;
  for (const Listener& listener : listeners())
    if (is_listening(listener)) serials.push_back(listener.serial);
  return serials;
}

/// Calls tell(recorder) for each of them that is still open: a recorder may open or close others while it listens.
template <class Tell> void notify_each(const std::vector<std::uint64_t>& serials, Tell&& tell) {
  for (const std::uint64_t serial : serials) {
    const std::span<Listener> open = listeners();
    const auto at =
        std::find_if(open.begin(), open.end(), [&](const Listener& listener) { return listener.serial == serial; });
    if (at != open.end()) tell(*at->recorder);
  }
}

template <class Tell> void notify_all(Tell&& tell) { notify_each(listening(), tell); }

/// The shape rule speaks first, so that a bad call gets the row's own words and records nothing.
std::vector<Tensor> run_body(const OpDef& op, const OpArgs& args) {
  op.infer(args);
  std::vector<Tensor> out;
  std::vector<std::uint64_t> whole;
  {
    const WholeRowScope scope(op);
    whole = scope.recorders();
    const bool shapes = !whole.empty() && !recording() && shapes_alone(execution_context().settings, args);
    out = shapes ? meta_outputs(op, args) : op.body(args);
  }
  const Event event{.op = &op, .in = args.in, .out = out, .attrs = &args.attrs};
  notify_each(whole, [&](Recorder& recorder) { recorder.record(event); });
  return out;
}

/// Rethrows the present exception with the place in the model appended, keeping its type.
[[noreturn]] void rethrow_with_place() {
  const std::string place = current_place();
  const std::string suffix = fmt::format(" (at {})", place);
  const auto at = [&](const Error& e) { return e.what() + suffix; };
  try {
    throw;
  } catch (const Error& e) { // an operation inside this one may have said it
    if (place.empty() || std::string_view(e.what()).ends_with(suffix)) throw;
  }
  try {
    throw;
  } catch (const ShapeError& e) {
    throw ShapeError(at(e));
  } catch (const DTypeError& e) {
    throw DTypeError(at(e));
  } catch (const IndexError& e) {
    throw IndexError(at(e));
  } catch (const ValueError& e) {
    throw ValueError(at(e));
  } catch (const MemoryError& e) {
    throw MemoryError(at(e));
  } catch (const DeviceError& e) {
    throw DeviceError(at(e));
  }
}

} // namespace

Attrs completed_attributes(const OpDef& op, Attrs attrs) {
  complete_attributes(op, attrs);
  return attrs;
}

std::string input_name(const OpDef& op, std::size_t i) {
  return op.variadic ? fmt::format("{}[{}]", op.inputs[0].name, i) : std::string(op.inputs[i].name);
}

std::string output_name(const OpDef& op, std::size_t o) {
  return op.variadic_outputs ? fmt::format("{}[{}]", op.outputs[0], o) : std::string(op.outputs[o]);
}

std::vector<Tensor> call(const OpDef& op, std::span<const Tensor> in, Attrs attrs) {
  poll_interrupt();
  try {
    complete_attributes(op, attrs);
    check_inputs(op, in);
    const DeviceScope device(device_of(op.name, in));
    const OpArgs args{op, in, attrs};
    if (op.body != nullptr) return run_body(op, args);
    const bool heard = recording();
    const Clock::time_point began = heard ? Clock::now() : Clock::time_point();
    std::vector<Tensor> out = run(op, args);
    if (heard) {
      const Event event{.op = &op, .in = in, .out = out, .attrs = &attrs, .began = began};
      is_shape_only() ? notify_of_composite(event) : notify_recorders(event);
    }
    return out;
  } catch (const Error&) {
    rethrow_with_place();
  }
}

std::vector<Tensor> call(const OpDef& op, std::initializer_list<Tensor> in, Attrs attrs) {
  return call(op, std::span<const Tensor>(in.begin(), in.size()), std::move(attrs));
}

Tensor call1(const OpDef& op, std::initializer_list<Tensor> in, Attrs attrs) {
  return call(op, in, std::move(attrs)).front();
}

std::vector<Tensor> call(const std::shared_ptr<const CustomOp>& op, std::span<const Tensor> in) {
  poll_interrupt();
  std::vector<Tensor> out;
  const Clock::time_point began = recording() ? Clock::now() : Clock::time_point();
  {
    const OperationScope own_work;
    const DeviceScope device(device_of(op->name, in));
    out = op->forward(in);
  }
  // A forward that hands an input through would give one id two meanings.
  for (Tensor& y : out)
    for (const Tensor& x : in)
      if (y.defined() && x.defined() && y.id() == x.id()) y = y.detach();
  if (recording()) notify_recorders({.custom = op, .in = in, .out = out, .began = began});
  return out;
}

void open_recorder(Recorder* recorder) {
  ExecutionContext& context = execution_context();
  if (context.recorders == nullptr) context.recorders = std::make_unique<Recorders>().release();
  const bool unpaused = dynamic_cast<const UnpausedRecorder*>(recorder) != nullptr;
  context.recorders->listeners.push_back({recorder, ++context.last_recorder, context.pauses, 0, unpaused});
}

void close_recorder(Recorder* recorder) {
  Recorders*& open = execution_context().recorders;
  if (open == nullptr) return;
  std::erase_if(open->listeners, [&](const Listener& listener) { return listener.recorder == recorder; });
  if (open->listeners.empty()) std::default_delete<Recorders>()(std::exchange(open, nullptr));
}

bool recording() {
  return some_listener([](const Recorder&) { return true; });
}

bool values_recording() {
  return some_listener([](const Recorder& recorder) { return !recorder.only_counts(); });
}

bool graph_recording() {
  return some_listener([](const Recorder& recorder) { return recorder.links(); });
}

void notify_recorders(const Event& event) {
  notify_all([&](Recorder& recorder) { recorder.record(event); });
}

void notify_of_composite(const Event& event) {
  notify_all([&](Recorder& recorder) {
    if (!recorder.observes()) recorder.record(event);
  });
}

void notify_recorders(const RuleEvent& event) {
  notify_all([&](Recorder& recorder) { recorder.rule_done(event); });
}

void notify_recorders(const Activity& activity) {
  notify_all([&](Recorder& recorder) { recorder.activity(activity); });
}

BackwardScope::BackwardScope() : notified_(listening()) {
  notify_each(notified_, [](Recorder& recorder) { recorder.backward_starts(); });
}

BackwardScope::~BackwardScope() {
  notify_each(notified_, [](Recorder& recorder) { recorder.backward_ends(); });
}

CompositeScope::CompositeScope() {
  for (Listener& listener : listeners())
    if (!listener.recorder->observes()) {
      muted_.push_back(listener.serial);
      ++listener.muted;
    }
}

CompositeScope::~CompositeScope() {
  for (Listener& listener : listeners())
    if (std::find(muted_.begin(), muted_.end(), listener.serial) != muted_.end()) --listener.muted;
}

PauseRecording::PauseRecording() { ++execution_context().pauses; }

PauseRecording::PauseRecording(Recorder* only) : all_(false) {
  for (Listener& listener : listeners())
    if (listener.recorder == only) {
      only_ = listener.serial;
      ++listener.muted;
    }
}

PauseRecording::~PauseRecording() {
  ExecutionContext& context = execution_context();
  if (all_) --context.pauses;
  if (context.recorders == nullptr) return;
  for (Listener& listener : context.recorders->listeners) {
    if (listener.serial == only_) --listener.muted;
    listener.opened_at = std::min(listener.opened_at, context.pauses); // opened in this pause: the next one concerns it
  }
}

PlaceScope::PlaceScope(std::string_view name) {
  const Place* const around = execution_context().place;
  std::string whole;
  if (around != nullptr) {
    whole.reserve(around->name.size() + 1 + name.size());
    whole.append(around->name).push_back('.');
  }
  enter_place(std::move(whole.append(name)));
}

PlaceScope::PlaceScope(std::string place, Whole) { enter_place(std::move(place)); }

PlaceScope::~PlaceScope() {
  Place*& innermost = execution_context().place;
  const std::unique_ptr<Place> left(innermost);
  innermost = left->around;
}

std::string current_place() {
  const Place* const innermost = execution_context().place;
  return innermost == nullptr ? std::string() : innermost->name;
}

} // namespace eg
