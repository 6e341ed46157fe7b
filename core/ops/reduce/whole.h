#pragma once
// Reduces whole numbers (i64, u8, bool) exactly: what 64 bits do not hold is an error.

#include "core/op.h"

#include <cstdint>

namespace eg::reduce {

/// y = sum of whole x over the attribute `axes`, i64. Throws ValueError beyond 64 bits; sums on the way may be there.
void whole_sum(const OpArgs& args, std::span<Tensor> out);
/// The mean of whole x, f32: the exact sum over the number of elements, NaN for nothing.
void whole_mean(const OpArgs& args, std::span<Tensor> out);
/// y = product of whole x over the attribute `axes`, i64. Throws ValueError beyond 64 bits.
void whole_prod(const OpArgs& args, std::span<Tensor> out);

/// What whole_sum and its like are asked for by the laws: numbers, bytes and truth values over some axes.
std::vector<Sample> whole_axes_samples(std::uint64_t tag);

} // namespace eg::reduce
