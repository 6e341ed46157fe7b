#pragma once
// Makes sequences of whole numbers without passing through double.

#include "core/tensor.h"

namespace eg {

/// start, start + step, ... before stop, exactly up to the ends of 64 bits. Throws ValueError when step does not lead
/// from start to stop or a number is not one of `dtype`, which is i64, u8 or bool (else DTypeError).
Tensor arange_whole(std::int64_t start, std::int64_t stop, std::int64_t step, DType dtype = DType::i64);

} // namespace eg
