#pragma once
// Computes CRC-32C, the checksum of iSCSI and of TensorFlow's record files.

#include "core/base/bytes.h"

#include <cstdint>

namespace eg {

/// CRC-32C (Castagnoli's polynomial 0x82F63B78) of `bytes`, continued from `crc` (0 to begin).
std::uint32_t crc32c(ByteView bytes, std::uint32_t crc = 0);

} // namespace eg
