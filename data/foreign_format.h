#pragma once
// Names the format of a tensor file that is not safetensors, by its first bytes.

#include "core/base/bytes.h"

#include <string_view>

namespace eg::data {

/// "is a pickle, ...", "is an npy file", ...: what a file that begins with these bytes is, and what to do; "" where
/// they are none of a known format.
std::string_view foreign_format(ByteView front);

} // namespace eg::data
