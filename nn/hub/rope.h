#pragma once
// Reads the rotary positions of a Llama from its config.json.

#include "nn/hub/fields.h"
#include "nn/rotary.h"

namespace eg::hub {

/// Sets base and scaling of `rotary`, for heads of `dims` features and texts of `positions` tokens, from rope_scaling
/// or rope_parameters and the fields beside them. Throws FileError for a type that is not supported, a number that
/// makes no rope, and for fields that contradict each other: versions of transformers differ in which of them they
/// believe.
void read_rotary(const Fields& fields, nn::RotaryConfig& rotary, std::int64_t dims, std::int64_t positions);

} // namespace eg::hub
