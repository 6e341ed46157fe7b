#pragma once
// Small packed files made in memory.

#include "core/base/bytes.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace eg::test {

inline Bytes text(std::string_view words) { return {words.begin(), words.end()}; }

inline void put_little_endian(Bytes& out, std::uint32_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
}

/// Deflate data whose blocks are stored (uncompressed).
inline Bytes stored(const Bytes& content) {
  constexpr std::size_t most = 65535;
  Bytes out;
  std::size_t at = 0;
  do {
    const std::size_t size = std::min(most, content.size() - at);
    out.push_back(at + size == content.size() ? 1 : 0);
    put_little_endian(out, static_cast<std::uint32_t>(size), 2);
    put_little_endian(out, ~static_cast<std::uint32_t>(size), 2);
    out.insert(out.end(), content.begin() + static_cast<std::ptrdiff_t>(at),
               content.begin() + static_cast<std::ptrdiff_t>(at + size));
    at += size;
  } while (at < content.size());
  return out;
}

/// A gzip file of one member: `packed` is deflate data that unpack to `content`.
inline Bytes gzip_of(const Bytes& packed, const Bytes& content) {
  Bytes out{0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 3};
  out.insert(out.end(), packed.begin(), packed.end());
  put_little_endian(out, crc32(content), 4);
  put_little_endian(out, static_cast<std::uint32_t>(content.size()), 4);
  return out;
}

/// A gzip file of stored blocks.
inline Bytes gzip(const Bytes& content) { return gzip_of(stored(content), content); }

/// What `printf equigrad | xz` gives.
inline Bytes xz_sample() {
  return {0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00, 0x00, 0x04, 0xe6, 0xd6, 0xb4, 0x46, 0x02, 0x00, 0x21, 0x01,
          0x16, 0x00, 0x00, 0x00, 0x74, 0x2f, 0xe5, 0xa3, 0x01, 0x00, 0x07, 0x65, 0x71, 0x75, 0x69, 0x67,
          0x72, 0x61, 0x64, 0x00, 0x41, 0x95, 0x57, 0xc9, 0x42, 0x1b, 0xdb, 0x4c, 0x00, 0x01, 0x20, 0x08,
          0xbb, 0x19, 0xd9, 0xbb, 0x1f, 0xb6, 0xf3, 0x7d, 0x01, 0x00, 0x00, 0x00, 0x00, 0x04, 0x59, 0x5a};
}

/// A tar of regular files ('0'), or of one member of another type.
inline Bytes tar(const std::vector<std::pair<std::string, Bytes>>& members, char type = '0') {
  Bytes out;
  for (const auto& [name, content] : members) {
    std::string header(512, '\0');
    header.replace(0, name.size(), name);
    header.replace(100, 8, std::string("0000644\0", 8));
    header.replace(108, 16, std::string("0000000\0000000000\0", 16));
    char size[13];
    std::snprintf(size, sizeof size, "%011o", static_cast<unsigned>(content.size()));
    header.replace(124, 12, std::string(size, 12));
    header.replace(136, 12, std::string("00000000000\0", 12));
    header[156] = type;
    header.replace(257, 8, std::string("ustar\00000", 8));
    header.replace(148, 8, 8, ' ');
    unsigned sum = 0;
    for (const char c : header) sum += static_cast<unsigned char>(c);
    char check[9];
    std::snprintf(check, sizeof check, "%06o", sum);
    header.replace(148, 8, std::string(check, 6) + std::string("\0 ", 2));
    out.insert(out.end(), header.begin(), header.end());
    out.insert(out.end(), content.begin(), content.end());
    out.resize((out.size() + 511) / 512 * 512);
  }
  out.resize(out.size() + 1024);
  return out;
}

} // namespace eg::test
