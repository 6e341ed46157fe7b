#pragma once
// Shares what readers of many images have in common; used by the files of this folder only.

#include "core/base/bytes.h"
#include "core/base/function_ref.h"
#include "core/base/interrupt.h"
#include "data/dataset.h"

#include <cstddef>
#include <cstdint>

namespace eg::data {

/// to[c * rows + r] = from[r * columns + c]. Interleaved pixels [H W, C] become planes [C, H W] and, with rows and
/// columns exchanged, planes become pixels. `to` has as many bytes as `from`.
void transpose_bytes(ByteView from, std::size_t rows, std::size_t columns, std::uint8_t* to);

/// decode(i) for every i below `count`, in parallel. When some of them throw, what the lowest of them threw is thrown,
/// whatever the number of threads. Once `stop` (null: never) is true no further one begins, and Interrupted is thrown.
void decode_each(std::size_t count, std::int64_t grain, StopFlag stop, FunctionRef<void(std::size_t)> decode);
/// Throws ValueError, beginning with `what`, for generated RGB images whose number or side is out of range.
void require_generated(const char* what, std::int64_t count, std::int64_t side);
/// Throws Interrupted when `stop` is not null and true.
void throw_if(StopFlag stop);

} // namespace eg::data
