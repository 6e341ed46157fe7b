#pragma once
// CRC-32C, as iSCSI and TensorFlow's record files have it.

#include "core/base/bytes.h"

#include <cstdint>

namespace eg {

/// CRC-32C (Castagnoli's polynomial 0x82F63B78) of `bytes`, continued from `crc` (0 to begin).
std::uint32_t crc32c(ByteView bytes, std::uint32_t crc = 0);

} // namespace eg
