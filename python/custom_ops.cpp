// Operations whose forward pass and rule are Python functions.

#include "core/call.h"

#include "bindings.h"

#include <fmt/format.h>

namespace eg::python {
namespace {

using Shared = std::shared_ptr<const CustomOp>;

Shared make(const std::string& name, nb::handle forward, nb::handle vjp) {
  auto op = std::make_shared<CustomOp>();
  op->name = name;
  op->forward = [f = Held(forward), what = name + ": what forward gives"](std::span<const Tensor> in) {
    const nb::gil_scoped_acquire locked;
    return results_from(f.get()(*to_python(Tensors(in.begin(), in.end()))), what.c_str());
  };
  if (!vjp.is_none())
    op->vjp = [f = Held(vjp), name, what = name + ": what vjp gives"](
                  std::span<const Tensor> in, std::span<const Tensor> out, std::span<const Tensor> grad) {
      const nb::gil_scoped_acquire locked;
      const auto list = [](std::span<const Tensor> tensors) {
        return to_python(Tensors(tensors.begin(), tensors.end()));
      };
      Tensors gradients = results_from(f.get()(list(in), list(out), list(grad)), what.c_str());
      if (gradients.size() != in.size())
        throw AutogradError(
            fmt::format("tape: the rule of {} gave {} gradients for {} inputs", name, gradients.size(), in.size()));
      return gradients;
    };
  return op;
}

/// What a custom op is to Python.
struct PyCustomOp {
  Shared op;
};

} // namespace

void bind_custom_ops(nb::module_& m) {
  nb::class_<PyCustomOp>(
      m, "CustomOp",
      "An operation of your own. forward(*inputs) gives its outputs, unrecorded; vjp(inputs, outputs, cotangents) "
      "gives "
      "one gradient for each input, None where it is zero. A vjp made of ops can be differentiated again.")
      .def(
          "__init__",
          [](PyCustomOp* self, const std::string& name, nb::callable forward, nb::handle vjp) {
            new (self) PyCustomOp{make(name, forward, vjp)};
          },
          "name"_a, "forward"_a, "vjp"_a = nb::none(),
          nb::sig("def __init__(self, name: str, forward: collections.abc.Callable[..., Tensor | "
                  "collections.abc.Sequence[Tensor]], vjp: collections.abc.Callable[[list[Tensor], list[Tensor], "
                  "list[Tensor | None]], Tensor | collections.abc.Sequence[Tensor | None]] | None = None) -> None"))
      .def_prop_ro("name", [](const PyCustomOp& self) { return self.op->name; })
      .def(
          "__call__",
          [](const PyCustomOp& self, const nb::args& inputs) -> nb::object {
            const Tensors in = tensors_from(inputs, "custom op: its inputs");
            const Tensors out = released([&] { return eg::call(self.op, in); });
            return out.size() == 1 ? to_python(out.front()) : nb::object(nb::tuple(to_python(out)));
          },
          nb::sig("def __call__(self, *inputs: Tensor) -> typing.Any"));
}

} // namespace eg::python
