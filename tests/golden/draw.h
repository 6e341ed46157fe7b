#pragma once
// The numbers that cases run on: a counter-based generator that make.py has too, so that inputs need not be stored.

#include "golden/fixture.h"

namespace eg::golden {

/// Elements of input `index` of a case, in row-major order. Element e is made from the word
/// mix(2^32 salt + 2^20 index + e) of splitmix64 (S. Vigna 2015), or read from the case ("=1,nan,...").
/// Throws FileError for a way to draw that it does not know.
std::vector<double> draw(const Case& c, std::size_t index);

/// Input `index` as a tensor with the layout of the case, or undefined; floating ones in `dtype`.
Tensor input(const Case& c, std::size_t index, DType dtype);

/// Cotangent v of output `index`, and the direction w of input `index` along which its gradient is differentiated.
Tensor cotangent(const Case& c, std::size_t index, const Tensor& output);
Tensor direction(const Case& c, std::size_t index, const Tensor& input);

} // namespace eg::golden
