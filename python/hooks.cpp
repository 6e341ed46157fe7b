// Forward hooks, as PyTorch has them.

#include "hooks.h"

#include "kept.h"
#include "modules.h"
#include "traces.h"

#include <fmt/format.h>

namespace eg::python {

namespace {

/// A Python function as a hook. Its module's owner shows it to the collector.
struct PyForwardHook {
  std::shared_ptr<Held> function;
  /// The outermost module where Python does not own it (a hub.Model does): it is kept until the hook is removed.
  std::shared_ptr<Held> root;

  Tensor operator()(const nn::Module& module, const std::vector<Tensor>& inputs, const Tensor& output) const {
    const nb::gil_scoped_acquire locked;
    auto& called = const_cast<nn::Module&>(module); // Python has no const
    nb::list args;
    std::size_t given = inputs.size();
    while (given > 0 && !inputs[given - 1].defined()) --given;
    for (std::size_t i = 0; i < given; ++i) args.append(to_python(inputs[i]));
    const nb::object result = function->get()(wrapper_of(called), nb::tuple(args), output);
    if (result.is_none()) return {};
    if (const Tensor* made = as_tensor(result)) return *made;
    const nb::str name(wrapper_of(called).type().attr("__name__"));
    refuse_type(fmt::format("forward hook: the output of {} is a Tensor; what the hook gives", name.c_str()),
                "a Tensor or None", result);
  }

  nb::object wrapper_of(nn::Module& module) const {
    const nb::object owner = root ? nb::borrow(root->get()) : nb::find(module.owner());
    return &module == &module.owner() && owner.is_valid() ? owner
                                                          : nb::cast(&module, nb::rv_policy::reference_internal, owner);
  }
};

/// A hook that stays until it is removed, whether or not its handle is kept.
struct PyForwardHandle {
  nb::object module; // None once it is removed
  std::uint64_t number = 0;

  void remove() {
    const nb::object gone = std::exchange(module, nb::none());
    if (!gone.is_none()) nb::cast<nn::Module&>(gone).remove_forward_hook(number);
  }
  int traverse(visitproc visit, void* arg) const {
    Py_VISIT(module.ptr());
    return 0;
  }
  void clear() { module = nb::none(); }
};

const PyForwardHook* python_hook(const nn::ForwardHook& hook) { return hook.target<PyForwardHook>(); }

PyForwardHandle add_hook(nb::handle self, nb::handle function) {
  if (PyCallable_Check(function.ptr()) == 0) refuse_type("register_forward_hook: hook", "a function", function);
  auto& module = instance_of<nn::Module>(self, "module: self", "a Module whose super().__init__() was called");
  PyForwardHook hook{std::make_shared<Held>(function), nullptr};
  const nb::object owner = nb::find(module.owner());
  if (!owner.is_valid() || !nb::inst_state(owner).second)
    hook.root = std::make_shared<Held>(owner.is_valid() ? nb::handle(owner) : self);
  return {nb::borrow(self), module.add_forward_hook(std::move(hook))};
}

/// (what call() gives, what every attention computed meanwhile).
nb::tuple with_attention(nb::handle call) {
  nb::list maps;
  nb::object result;
  nn::AttentionRecorder recorder;
  result = call();
  for (const auto& item : recorder.items()) maps.append(dict_of(item.trace, item.scale));
  return nb::make_tuple(result, maps);
}

} // namespace

nb::object after_forward(nb::handle self, const nn::Module& module, const nb::args& args, nb::object output) {
  if (!module.has_own_hooks()) return output;
  for (const auto& hook : module.forward_hooks())
    if (const PyForwardHook* python = python_hook(*hook)) {
      nb::object made = python->function->get()(self, args, output);
      if (!made.is_none()) output = std::move(made);
    }
  return output;
}

int visit_hooks(const nn::Module& module, visitproc visit, void* arg) {
  if (!module.has_own_hooks()) return 0;
  for (const auto& hook : module.forward_hooks())
    if (const PyForwardHook* python = python_hook(*hook)) Py_VISIT(python->function->get().ptr());
  return 0;
}

void drop_hooks(nn::Module& module) { module.clear_forward_hooks(); }

void bind_hooks(nb::module_& m, nb::class_<nn::Module, PyModule>& cls) {
  nb::class_<PyForwardHandle>(m, "ForwardHookHandle", nb::type_slots(collected<PyForwardHandle>()),
                              "What register_forward_hook() gives; also a context, which removes the hook at its end.")
      .def("remove", &PyForwardHandle::remove, "Removes the hook. A second time nothing happens.")
      .def(
          "__enter__", [](nb::handle self) { return nb::borrow(self); },
          nb::sig("def __enter__(self) -> ForwardHookHandle"))
      .def(
          "__exit__", [](PyForwardHandle& self, const nb::args&) { self.remove(); },
          nb::sig("def __exit__(self, *exc: object) -> None"));
  cls.def(
      "register_forward_hook", &add_hook, "hook"_a,
      "Calls hook(module, args, output) after every call of this module, also from inside a model; what it returns "
      "takes the output's place, unless None. args are the tensors that the call was given, None where one was left "
      "out; an `addend` (the residual) is one of them and part of the output. Parts of a model that are no calls of "
      "a module have no hooks: embed(), encode(), head(), trace(). Copies and pickles have none.",
      nb::sig("def register_forward_hook(self, hook: collections.abc.Callable[[typing.Any, typing.Any, typing.Any], "
              "typing.Any]) -> ForwardHookHandle"));
  m.def("_with_attention", &with_attention, "call"_a,
        nb::sig("def _with_attention(call: collections.abc.Callable[[], typing.Any]) -> tuple[typing.Any, "
                "list[dict[str, equigrad._core.Tensor]]]"));
}

} // namespace eg::python
