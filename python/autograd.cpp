// The tape as a context manager, and related functions: pauses, anomaly mode, exact reductions.

#include "autograd/anomaly.h"
#include "autograd/tape.h"
#include "core/reduction.h"

#include "kept.h"

#include <thread>

namespace eg::python {
namespace {

/// A scope of C++ that opens with a `with` statement and closes at its end.
template <class Scope> class WithScope {
public:
  template <class... Args> void enter(Args&&... args) {
    if (scope_) throw ValueError("with: this scope is open already; make a new one");
    scope_.emplace(std::forward<Args>(args)...);
  }
  void exit() { scope_.reset(); }

private:
  std::optional<Scope> scope_;
};

/// A tape that records inside its `with` block and gives gradients there or afterwards.
class PyTape {
public:
  PyTape() = default;
  PyTape(const PyTape&) = delete;
  PyTape& operator=(const PyTape&) = delete;
  /// A tape must be closed by the thread that opened it; one that is dropped elsewhere while open is left alone.
  ~PyTape() {
    if (open_) stop_keeping(kept_);
    if (tape_ && open_ && thread_ != std::this_thread::get_id())
      tape_.release(); // NOLINT(bugprone-unused-return-value)
  }

  void enter() {
    if (tape_) throw AutogradError("tape: it was opened already; make a new one");
    tape_ = std::make_unique<Tape>();
    start_keeping(kept_);
    thread_ = std::this_thread::get_id();
    open_ = true;
  }
  void exit() {
    get().close();
    stop_keeping(kept_);
    open_ = false;
  }
  Tape& get() const {
    if (!tape_) throw AutogradError("tape: it was never opened: `with eg.Tape() as tape:`");
    return *tape_;
  }
  const std::shared_ptr<Kept>& kept() const { return kept_; }
  int traverse(visitproc visit, void* arg) const { return kept_->traverse(visit, arg); }
  void clear() { kept_->clear(); }

private:
  std::unique_ptr<Tape> tape_;
  std::shared_ptr<Kept> kept_ = std::make_shared<Kept>();
  std::thread::id thread_;
  bool open_ = false;
};

using GradientOf = Tensors (Tape::*)(std::span<const Tensor>, std::span<const Tensor>, std::span<const Tensor>, bool);
constexpr GradientOf packed_gradient = &Tape::gradient, view_gradient = &Tape::gradient_views;

/// Gradients in the shape that xs had: one for a tensor, a list for a sequence. `kind`: Tape::gradient or
/// gradient_views.
template <GradientOf kind>
nb::object gradient(const PyTape& tape, nb::handle y, nb::handle xs, nb::handle cotangent, bool retain) {
  const Tensors outputs = tensors_from(y, "gradient: y");
  const Tensors inputs = tensors_from(xs, "gradient: xs");
  Tensors cotangents(outputs.size());
  if (!cotangent.is_none()) cotangents = tensors_from(cotangent, "gradient: cotangent");
  const KeptScope while_rules_run;
  const Tensors result = released([&] { return (tape.get().*kind)(outputs, inputs, cotangents, retain); });
  if (!retain) { // it is used up
    stop_keeping(tape.kept());
    tape.kept()->clear();
  }
  return nb::isinstance<Tensor>(xs) ? to_python(result.front()) : nb::object(to_python(result));
}

/// A hook that stays until it is removed, whether or not its handle is kept.
class PyHook {
public:
  PyHook(HookHandle handle, std::weak_ptr<Kept> kept, std::uint64_t number)
      : handle_(std::move(handle)), kept_(std::move(kept)), number_(number) {}
  PyHook(PyHook&&) = default;
  PyHook& operator=(PyHook&&) = default;
  PyHook(const PyHook&) = delete;
  PyHook& operator=(const PyHook&) = delete;
  ~PyHook() { handle_.keep(); }
  void remove() {
    handle_.remove();
    if (const auto kept = kept_.lock()) kept->remove_hook(number_);
  }

private:
  HookHandle handle_;
  std::weak_ptr<Kept> kept_;
  std::uint64_t number_;
};

PyHook on_gradient(const PyTape& tape, const Tensor& x, nb::handle hook) {
  const auto [number, lent] = tape.kept()->add_hook(hook);
  try {
    HookHandle handle = tape.get().on_gradient(x, [f = lent](const Tensor& cotangent) {
      const nb::gil_scoped_acquire locked;
      return tensor_from(f.get()(cotangent), "on_gradient: what the hook gives");
    });
    return {std::move(handle), tape.kept(), number};
  } catch (...) {
    tape.kept()->remove_hook(number);
    throw;
  }
}

void bind_tape(nb::module_& m) {
  nb::class_<PyHook>(m, "HookHandle").def("remove", &PyHook::remove, "Removes the hook.");
  nb::class_<PyTape>(m, "Tape", nb::type_slots(collected<PyTape>()),
                     "Records what this thread computes inside `with eg.Tape() as tape:`. Gradients are a returned "
                     "value; tapes nest, and the outer one hears the rules that an inner one runs.")
      .def(nb::init<>())
      .def(
          "__enter__",
          [](PyTape& self) {
            self.enter();
            return &self; // the Python object that holds it
          },
          nb::rv_policy::reference, nb::sig("def __enter__(self) -> Tape"))
      .def(
          "__exit__", [](PyTape& tape, const nb::args&) { tape.exit(); },
          nb::sig("def __exit__(self, *exc: object) -> None"))
      .def(
          "gradient", &gradient<packed_gradient>, "y"_a, "xs"_a, "cotangent"_a = nb::none(), "retain"_a = false,
          "d<cotangent, y>/dx for each x: a tensor for a tensor, a list for a sequence. Without cotangent y must have "
          "one element. y may be a sequence, with a sequence of cotangents. The tape can be used once unless `retain`.",
          nb::sig("def gradient(self, y: Tensor | collections.abc.Sequence[Tensor], xs: Tensor | "
                  "collections.abc.Sequence[Tensor], cotangent: Tensor | collections.abc.Sequence[Tensor | None] | "
                  "None = None, retain: bool = False) -> typing.Any"))
      .def(
          "gradient_views", &gradient<view_gradient>, "y"_a, "xs"_a, "cotangent"_a = nb::none(), "retain"_a = false,
          "The same as gradient(), for reading alone: a gradient may be a view that repeats or skips elements, and may "
          "share them with other gradients and the cotangent: no copies are made for that. clone() gives one its own.",
          nb::sig("def gradient_views(self, y: Tensor | collections.abc.Sequence[Tensor], xs: Tensor | "
                  "collections.abc.Sequence[Tensor], cotangent: Tensor | collections.abc.Sequence[Tensor | None] | "
                  "None = None, retain: bool = False) -> typing.Any"))
      .def("on_gradient", &on_gradient, "x"_a, "hook"_a,
           "Calls hook(cotangent) with the whole cotangent of x when a gradient passes; what it returns takes its "
           "place, unless None.",
           nb::sig("def on_gradient(self, x: Tensor, hook: collections.abc.Callable[[Tensor], Tensor | None]) -> "
                   "HookHandle"))
      .def(
          "computed", [](const PyTape& tape, const Tensor& y) { return tape.get().computed(y); }, "y"_a,
          "True when an operation recorded here gave this value.")
      .def(
          "__len__", [](const PyTape& tape) { return tape.get().size(); }, "Number of recorded operations.")
      .def_prop_ro(
          "saved_bytes", [](const PyTape& tape) { return tape.get().saved_bytes(); },
          "Bytes that the tape keeps alive.")
      .def(
          "__reduce_ex__",
          [](nb::handle, int) -> nb::object {
            throw nb::type_error(
                "a Tape cannot be copied or pickled; record again, or keep the gradients that it gives");
          },
          nb::sig("def __reduce_ex__(self, protocol: typing.SupportsIndex, /) -> typing.Any"));
}

/// Defines a class whose `with` block holds a scope of C++ open. `make`: gives enter() its arguments.
template <class Scope, class Enter> void bind_scope(nb::module_& m, const char* name, const char* doc, Enter enter) {
  using Cls = WithScope<Scope>;
  nb::class_<Cls>(m, name, doc)
      .def(nb::init<>())
      .def(
          "__enter__", [enter](Cls& scope) { enter(scope); }, nb::sig("def __enter__(self) -> None"))
      .def(
          "__exit__", [](Cls& scope, const nb::args&) { scope.exit(); },
          nb::sig("def __exit__(self, *exc: object) -> None"));
}

} // namespace

void bind_autograd(nb::module_& m) {
  bind_tape(m);
  bind_scope<PauseRecording>(m, "pause", "with pause(): the tapes that are open hear nothing.",
                             [](auto& scope) { scope.enter(); });
  bind_scope<DetectAnomaly>(m, "detect_anomaly",
                            "with detect_anomaly(): the first NaN or infinity that an operation or a rule gives raises "
                            "NumericError, which names it.",
                            [](auto& scope) { scope.enter(); });
  bind_scope<ReductionScope>(m, "exact",
                             "with exact(): sums do not depend on the order of their terms, so that permutation "
                             "theorems hold bit for bit.",
                             [](auto& scope) { scope.enter(Reduction::exact); });
  m.def("recording", &graph_recording, "True while a tape of this thread listens.");
}

} // namespace eg::python
