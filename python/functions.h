#pragma once
// Wraps Python functions of tensors for the library's functional forms.

#include "autograd/functional.h"

#include "kept.h"

namespace eg::python {

/// Made with the interpreter's lock. f is called with one list of tensors and gives a tensor or a sequence of them; the
/// lock is taken for the call.
TensorFunction function_of(nb::handle f);
/// The same where one tensor is wanted. Throws ValueError for another number.
ScalarFunction scalar_function_of(nb::handle f);

/// The same for a function whose owner may go.
TensorFunction function_of(Lent f);

/// Runs compute(inputs) without the lock.
template <class Compute> auto released_call(const nb::list& inputs, Compute&& compute) {
  const Tensors x = tensors_from(inputs, "inputs");
  const KeptScope while_it_records;
  return released([&] { return compute(x); });
}

} // namespace eg::python
