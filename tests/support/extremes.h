#pragma once
// What a row must give for inputs times a large power of two, continued from what its plain loops give for moderate
// ones.

#include "core/op.h"

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace eg::laws {

/// Inputs of a sample by number.
using InputSet = std::vector<std::size_t>;

/// The sample with some floating inputs times 2^power, rounded to their type.
Sample times_power(const Sample& sample, const InputSet& which, int power);

/// f at `which` inputs times 2^power, in f64: an element whose values at 2^60 and 2^64 differ by a power of two goes on
/// by that power; NaN for the others. Empty where f refuses the numbers, undefined for integers.
std::vector<Tensor> continued_to(const std::function<std::vector<Tensor>(const Sample&)>& f, const Sample& wide,
                                 const InputSet& which, int power);

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

} // namespace eg::laws
