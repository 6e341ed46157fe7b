#pragma once
// Unpacks xz files. Used by unpack.cpp only.

#include "core/base/bytes.h"

#include <cstdint>
#include <string>

namespace eg::data {

/// Throws FileError, beginning with `source`, where the file is truncated or corrupt or unpacks to more than `limit`
/// bytes.
Bytes unpack_xz(ByteView packed, const std::string& source, std::uint64_t limit);

} // namespace eg::data
