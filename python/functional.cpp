// Derivatives as functions of functions, on flat lists; equigrad/autograd.py gives arguments their structure back.

#include "autograd/functional.h"
#include "autograd/accumulation.h"
#include "autograd/checkpoint.h"
#include "autograd/tape.h"

#include "bindings.h"
#include "functions.h"

#include <algorithm>
#include <fmt/format.h>
#include <type_traits>

namespace eg::python {

namespace {

template <class Function> TensorFunction calling(Function f) {
  return [f = std::move(f)](const Tensors& inputs) {
    const nb::gil_scoped_acquire locked;
    return results_from(nb::object(nb::borrow(f.get()))(to_python(inputs)), "the function's value");
  };
}

} // namespace

TensorFunction function_of(nb::handle f) { return calling(Held(f)); }
TensorFunction function_of(Lent f) { return calling(std::move(f)); }

ScalarFunction scalar_function_of(nb::handle f) {
  return [function = function_of(f)](const Tensors& inputs) {
    const Tensors outputs = function(inputs);
    if (outputs.size() != 1)
      throw ValueError("grad: the function must give one tensor, not " + std::to_string(outputs.size()));
    return outputs.front();
  };
}

namespace {

/// The outputs of f on these inputs. Throws AutogradError where none of them was computed while f ran, as
/// tape.gradient does: its derivatives would all be zeros.
template <class Function> auto connected(const char* who, const Function& f, const Tensors& inputs) {
  Tape probe;
  auto result = f(inputs);
  const auto hangs_on = [&](const Tensor& y) {
    const auto same = [&](const Tensor& x) { return x.defined() && x.id() == y.id(); };
    return !y.defined() || !is_floating(y.dtype()) || probe.computed(y) ||
           std::any_of(inputs.begin(), inputs.end(), same);
  };
  bool some = false;
  if constexpr (std::is_same_v<decltype(result), Tensor>)
    some = hangs_on(result);
  else
    some = result.empty() || std::any_of(result.begin(), result.end(), hangs_on);
  if (!some)
    throw AutogradError(fmt::format("{}: the function's value was not computed from its arguments by operations that a "
                                    "tape sees; item(), numpy(), detach() and no_grad() hide them",
                                    who));
  return result;
}

/// A checkpointed function: what a tape keeps of it.
struct PyFunction {
  Owned function;

  int traverse(visitproc visit, void* arg) const {
    Py_VISIT(function.ptr());
    return 0;
  }
  void clear() { const Owned gone = std::exchange(function, {}); }
};

nb::list table(const std::vector<std::vector<Tensor>>& rows) {
  nb::list list;
  for (const std::vector<Tensor>& row : rows) list.append(to_python(row));
  return list;
}

} // namespace

void bind_functional(nb::module_& m) {
  nb::module_ forms =
      m.def_submodule("functional", "Derivatives of functions from a list of tensors to a list of tensors.");
  nb::class_<PyFunction>(forms, "_Function", nb::type_slots(collected<PyFunction>()));
  forms.def(
      "value_and_grad",
      [](nb::handle f, const nb::list& inputs) {
        const ScalarFunction loss = scalar_function_of(f);
        const ValueAndGradient result = released_call(inputs, [&](const Tensors& x) {
          return value_and_grad([&](const Tensors& a) { return connected("grad", loss, a); })(x);
        });
        return nb::make_tuple(to_python(result.value), to_python(result.gradients));
      },
      "f"_a, "inputs"_a);
  forms.def(
      "vjp",
      [](nb::handle f, const nb::list& inputs, const nb::list& cotangents) {
        const Tensors v = tensors_from(cotangents, "vjp: cotangents");
        const TensorFunction function = function_of(f);
        const Vjp result = released_call(inputs, [&](const Tensors& x) { return vjp(function, x, v); });
        return nb::make_tuple(to_python(result.outputs), to_python(result.gradients));
      },
      "f"_a, "inputs"_a, "cotangents"_a);
  forms.def(
      "jvp",
      [](nb::handle f, const nb::list& inputs, const nb::list& tangents) {
        const Tensors u = tensors_from(tangents, "jvp: tangents");
        const TensorFunction function = function_of(f);
        const Jvp result = released_call(inputs, [&](const Tensors& x) { return jvp(function, x, u); });
        return nb::make_tuple(to_python(result.outputs), to_python(result.tangents));
      },
      "f"_a, "inputs"_a, "tangents"_a);
  forms.def(
      "hvp",
      [](nb::handle f, const nb::list& inputs, const nb::list& tangents) {
        const Tensors u = tensors_from(tangents, "hvp: tangents");
        const ScalarFunction loss = scalar_function_of(f);
        const Hvp result = released_call(inputs, [&](const Tensors& x) { return hvp(loss, x, u); });
        return nb::make_tuple(to_python(result.value), to_python(result.gradients), to_python(result.products));
      },
      "f"_a, "inputs"_a, "tangents"_a);
  forms.def(
      "jacobian",
      [](nb::handle f, const nb::list& inputs) {
        const TensorFunction function = function_of(f);
        return table(released_call(inputs, [&](const Tensors& x) {
          return jacobian([&](const Tensors& a) { return connected("jacobian", function, a); }, x);
        }));
      },
      "f"_a, "inputs"_a);
  forms.def(
      "hessian",
      [](nb::handle f, const nb::list& inputs) {
        const ScalarFunction loss = scalar_function_of(f);
        return table(released_call(inputs, [&](const Tensors& x) { return hessian(loss, x); }));
      },
      "f"_a, "inputs"_a);
  forms.def(
      "checkpoint",
      [](nb::handle f, const nb::list& inputs) {
        PyFunction kept{Owned(f)};
        const TensorFunction function = function_of(kept.function.lend());
        const nb::object owner = nb::cast(std::move(kept));
        keep_for_tapes(owner);
        return to_python(released_call(inputs, [&](const Tensors& x) { return checkpoint(function, x); }));
      },
      "f"_a, "inputs"_a);
  forms.def(
      "per_sample_gradients",
      [](nb::handle f, const nb::list& parameters, const nb::list& batch) {
        const ScalarFunction loss = scalar_function_of(f);
        const Tensors samples = tensors_from(batch, "per_sample_gradients: batch");
        return to_python(
            released_call(parameters, [&](const Tensors& p) { return per_sample_gradients(loss, p, samples); }));
      },
      "f"_a, "parameters"_a, "batch"_a);
}

} // namespace eg::python
