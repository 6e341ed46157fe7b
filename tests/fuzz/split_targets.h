#pragma once
// What the split-learning fuzzers feed: the parser of messages, and a cloud with a run that has begun.

#include "core/base/bytes.h"

namespace eg::fuzz {

/// A frame: read or refused with a ProtocolError. What was read is written as the very same bytes.
void split_message(ByteView bytes);

/// A row of requests to a small encoder, each with a length of two bytes before it; with an odd length only the body's
/// bytes are the input's and the header is a right one. Every one gets an answer that can be read, and the weights stay
/// finite.
void split_service(ByteView bytes);

/// Frames of every kind, for a moment of fuzzing with any compiler.
std::vector<Bytes> split_samples();

} // namespace eg::fuzz
