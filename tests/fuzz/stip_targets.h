#pragma once
// What the fuzzer of STIP's cloud feeds: rows of requests to one that serves an honest user beside.

#include "core/base/bytes.h"

#include <vector>

namespace eg::fuzz {

/// A row of frames (damage.h) to a small decoder. Every one gets an answer that can be read, memory stays within its
/// limits, and an honest user's text goes on as if nobody else were there.
void stip_service(ByteView bytes);

/// Frames that the service knows, for a moment of fuzzing with any compiler.
std::vector<Bytes> stip_samples();

} // namespace eg::fuzz
