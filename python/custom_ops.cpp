// Operations whose forward pass and rule are Python functions.

#include "core/call.h"

#include "kept.h"

#include <fmt/format.h>
#include <utility>

namespace eg::python {
namespace {

/// What a custom op is to Python. Its functions are its own, so that the collector sees them; a tape keeps the object.
class PyCustomOp {
public:
  PyCustomOp(const std::string& name, nb::handle forward, nb::handle vjp);
  const std::shared_ptr<const CustomOp>& op() const { return op_; }
  int traverse(visitproc visit, void* arg) const {
    Py_VISIT(forward_.ptr());
    Py_VISIT(vjp_.ptr());
    return 0;
  }
  void clear() { const Owned forward = std::exchange(forward_, {}), vjp = std::exchange(vjp_, {}); }

private:
  Owned forward_, vjp_;
  std::shared_ptr<const CustomOp> op_;
};

nb::list list_of(std::span<const Tensor> tensors) { return to_python(Tensors(tensors.begin(), tensors.end())); }

PyCustomOp::PyCustomOp(const std::string& name, nb::handle forward, nb::handle vjp) : forward_(forward) {
  auto op = std::make_shared<CustomOp>();
  op->name = name;
  op->forward = [f = forward_.lend(), what = name + ": what forward gives"](std::span<const Tensor> in) {
    const nb::gil_scoped_acquire locked;
    return results_from(f.get()(*list_of(in)), what.c_str());
  };
  if (!vjp.is_none()) {
    vjp_ = Owned(vjp);
    op->vjp = [f = vjp_.lend(), name, what = name + ": what vjp gives"](
                  std::span<const Tensor> in, std::span<const Tensor> out, std::span<const Tensor> grad) {
      const nb::gil_scoped_acquire locked;
      Tensors gradients = results_from(f.get()(list_of(in), list_of(out), list_of(grad)), what.c_str());
      if (gradients.size() != in.size())
        throw AutogradError(
            fmt::format("tape: the rule of {} gave {} gradients for {} inputs", name, gradients.size(), in.size()));
      return gradients;
    };
  }
  op_ = std::move(op);
}

nb::object call(nb::handle self, const nb::args& inputs) {
  const auto& custom = instance_of<PyCustomOp>(self, "custom op: self", "a CustomOp");
  const Tensors in = tensors_from(inputs, "custom op: its inputs");
  keep_for_tapes(self);
  const Tensors out = released([&] { return eg::call(custom.op(), in); });
  return out.size() == 1 ? to_python(out.front()) : nb::object(nb::tuple(to_python(out)));
}

} // namespace

void bind_custom_ops(nb::module_& m) {
  nb::class_<PyCustomOp>(
      m, "CustomOp", nb::type_slots(collected<PyCustomOp>()),
      "An operation of your own. forward(*inputs) gives its outputs, unrecorded; vjp(inputs, outputs, cotangents) "
      "gives "
      "one gradient for each input, None where it is zero. A vjp made of ops can be differentiated again.")
      .def(
          "__init__",
          [](PyCustomOp* self, const std::string& name, nb::callable forward, nb::handle vjp) {
            new (self) PyCustomOp(name, forward, vjp);
          },
          "name"_a, "forward"_a, "vjp"_a = nb::none(),
          nb::sig("def __init__(self, name: str, forward: collections.abc.Callable[..., Tensor | "
                  "collections.abc.Sequence[Tensor]], vjp: collections.abc.Callable[[list[Tensor], list[Tensor], "
                  "list[Tensor | None]], Tensor | collections.abc.Sequence[Tensor | None]] | None = None) -> None"))
      .def_prop_ro("name", [](const PyCustomOp& self) { return self.op()->name; })
      .def(
          "__reduce_ex__",
          [](nb::handle, int) -> nb::object {
            throw nb::type_error(
                "a CustomOp cannot be copied or pickled; make it from its functions where it is needed");
          },
          nb::sig("def __reduce_ex__(self, protocol: typing.SupportsIndex, /) -> typing.Any"))
      .def("__call__", &call, nb::sig("def __call__(self, *inputs: Tensor) -> typing.Any"));
}

} // namespace eg::python
