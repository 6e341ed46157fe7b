#include "core/base/crc32c.h"

#include "core/base/crc.h"

namespace eg {

std::uint32_t crc32c(ByteView bytes, std::uint32_t crc) {
  static constexpr CrcTables tables = crc_tables(0x82F63B78U);
  return crc_of(tables, bytes, crc);
}

} // namespace eg
