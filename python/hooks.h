#pragma once
// Calls Python functions behind the calls of modules, and shows them to the garbage collector.

#include "modules.h"

namespace eg::python {

/// What the hooks of a module that is made in Python make of what its forward() gave.
nb::object after_forward(nb::handle self, const nn::Module& module, const nb::args& args, nb::object output);
/// For the collector: visits the Python functions among the hooks of a module alone, or lets them go.
int visit_hooks(const nn::Module& module, visitproc visit, void* arg);
void drop_hooks(nn::Module& module);
void bind_hooks(nb::module_& m, nb::class_<nn::Module, PyModule>& cls);

} // namespace eg::python
