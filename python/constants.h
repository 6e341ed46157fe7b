#pragma once
// Converts numbers that tensor constructors take as constants, through which no gradient passes.

#include "bindings.h"

namespace eg::python {

/// A tensor of one element, or an array of NumPy's without axes, as a tensor; nullopt for everything else.
std::optional<Tensor> element_given(nb::handle value);

/// A number, or the only element of a tensor. Throws TypeError for anything else, AutogradError for a tensor while
/// a tape records, whose gradient would be cut. The words name `what` is called, the `argument`, and with `way_out`
/// what keeps the gradient.
double constant_from(nb::handle value, const char* what, const char* argument, const char* way_out);

} // namespace eg::python
