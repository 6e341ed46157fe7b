#include "data/crc32c.h"

#include "data/crc.h"

namespace eg::data {

std::uint32_t crc32c(ByteView bytes, std::uint32_t crc) {
  static constexpr CrcTables tables = crc_tables(0x82F63B78U);
  return crc_of(tables, bytes, crc);
}

} // namespace eg::data
