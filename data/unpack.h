#pragma once
// Unpacks gzip and xz, and visits the files of tar archives, with caps that are checked while reading.

#include "core/base/bytes.h"
#include "core/base/function_ref.h"

#include <cstdint>
#include <string>

namespace eg::data {

/// The file's content: unpacked when it begins with the magic bytes of gzip or xz, as it is otherwise. Throws FileError
/// when it is truncated or corrupt (checksums are verified) or unpacks to more than `limit` bytes.
Bytes read_unpacked(const std::string& path, std::uint64_t limit = default_byte_limit);
/// The same for bytes already in memory; `source` is what errors call them.
Bytes unpack(Bytes packed, const std::string& source, std::uint64_t limit = default_byte_limit);

/// One regular file of an archive; `bytes` lives until the visitor returns.
struct ArchiveMember {
  std::string name;
  ByteView bytes;
};

/// Visits the regular files of a tar archive (plain, .gz or .xz) in archive order. Links and devices are refused,
/// nothing is written to disk. Throws FileError for a truncated or corrupt archive, or one that unpacks beyond `limit`.
void read_tar(const std::string& path, FunctionRef<void(const ArchiveMember&)> visit,
              std::uint64_t limit = default_byte_limit);
/// The same for the bytes of an unpacked tar.
void read_tar_bytes(ByteView tar, const std::string& source, FunctionRef<void(const ArchiveMember&)> visit);

} // namespace eg::data
