#pragma once
// Runs rows far from ordinary numbers: on shifted and scaled samples, and with what they must give there.

#include "support/law_tools.h"

#include <cmath>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace eg::laws {

/// Inputs of a sample by number.
using InputSet = std::vector<std::size_t>;
/// Those that are floating and have elements.
InputSet floating_inputs(const Sample& sample);

/// All elements as f64.
std::vector<double> numbers(const Tensor& x);
bool all_finite(const Tensor& x);

/// The sample with f(x) in place of the elements of some inputs, rounded to their type.
Sample mapped(const Sample& sample, const InputSet& which, const std::function<double(double)>& f);
/// The sample with some inputs times 2^power, rounded to their type.
Sample times_power(const Sample& sample, const InputSet& which, int power);

/// A row's outputs, or its gradients, on a sample; undefined where there is none.
using Evaluate = std::function<Tensors(const Sample&)>;
/// f(sample), or nothing where the row refuses the numbers.
Tensors tried(const Evaluate& f, const Sample& sample);
/// Cotangents of the row's outputs that both types hold.
Tensors drawn_cotangents(const OpDef& op, const Sample& sample);
/// Gradients of the floating inputs along `cotangents`, of which some may be undefined.
Tensors gradients_along(const OpDef& op, const Sample& sample, const Tensors& cotangents);

/// f at `which` inputs times 2^power, in f64: an element whose values at 2^60 and 2^64 differ by a power of two goes on
/// by that power; NaN for the others. Empty where f refuses the numbers, undefined for integers.
Tensors continued_to(const Evaluate& f, const Sample& wide, const InputSet& which, int power);

/// How far a result may be off: `relative` times the largest of the output or of the terms that it is a sum of, plus
/// `absolute`; and the part of the type's range in which it must be right.
struct FarBound {
  double relative, absolute, terms, part_of_range;
};
/// That of outputs: rounding, and some subnormal numbers.
FarBound far_bound(DType dtype);

/// The first element that is further from `wanted` than the bound: "element 3 is 0 instead of 1"; empty if there is
/// none. Wanted elements that are NaN or out of range say nothing; `compared` gains the number of the others.
std::string far_difference(const Tensor& got, const Tensor& wanted, DType dtype, const FarBound& bound, int& compared);

/// Why a row need not continue to 2^power; empty if it must.
std::string_view not_far(const OpDef& op, DType dtype, int power);

/// The powers at which rows are asked.
std::vector<int> far_powers(DType dtype);

/// "layer_norm [gamma, f32]: inputs 0 plus 1024: output 0 changes"
std::string far_failure(const std::string& where, const InputSet& which, const std::string& change,
                        const std::string& what);

} // namespace eg::laws
