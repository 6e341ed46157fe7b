#include "data/unpack.h"

#include "core/base/error.h"
#include "data/archives.h"
#include "data/inflate.h"

#include <algorithm>
#include <iterator>

namespace eg::data {

namespace {

enum class Packing { none, gzip, xz };

Packing packing_of(ByteView b) {
  if (b.size() >= 2 && b[0] == 0x1F && b[1] == 0x8B) return Packing::gzip;
  static constexpr std::uint8_t xz_magic[] = {0xFD, '7', 'z', 'X', 'Z', 0};
  if (b.size() >= 6 && std::equal(std::begin(xz_magic), std::end(xz_magic), b.begin())) return Packing::xz;
  return Packing::none;
}

/// A tar ends in two blocks of zeros; without them the end is missing, which readers of tar let pass.
void check_tar_end(ByteView tar, const std::string& source) {
  constexpr std::size_t marker = 1024;
  bool whole = tar.size() >= marker;
  for (std::size_t i = 0; whole && i < marker; ++i) whole = tar[tar.size() - 1 - i] == 0;
  if (!whole) throw FileError(source + ": truncated, or not a tar archive: its end marker is missing");
}

} // namespace

Bytes unpack(Bytes packed, const std::string& source, std::uint64_t limit) {
  switch (packing_of(packed)) {
  case Packing::gzip:
    return unpack_gzip(packed, source, limit);
  case Packing::xz:
    return unpack_xz(packed, source, limit);
  case Packing::none:
    break;
  }
  return packed;
}

Bytes read_unpacked(const std::string& path, std::uint64_t limit) {
  return unpack(read_file(path, limit), path, limit);
}

void read_tar_bytes(ByteView tar, const std::string& source, FunctionRef<void(const ArchiveMember&)> visit) {
  check_tar_end(tar, source);
  read_tar_members(tar, source, visit);
}

void read_tar(const std::string& path, FunctionRef<void(const ArchiveMember&)> visit, std::uint64_t limit) {
  const Bytes tar = read_unpacked(path, limit);
  read_tar_bytes(tar, path, visit);
}

} // namespace eg::data
