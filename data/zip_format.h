#pragma once
// Defines the numbers of the ZIP format that its reader and its writer share (APPNOTE.TXT 6.3). Not for users.

#include <cstddef>
#include <cstdint>

namespace eg::data::zip_format {

inline constexpr std::uint32_t local_mark = 0x04034B50; ///< local header, before a member's bytes
inline constexpr std::uint32_t entry_mark = 0x02014B50; ///< entry of the central directory
inline constexpr std::uint32_t end_mark = 0x06054B50;   ///< end of central directory record
inline constexpr std::size_t local_bytes = 30;          ///< of a local header before its name

} // namespace eg::data::zip_format
