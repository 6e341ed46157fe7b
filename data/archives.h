#pragma once
// Unpacks xz files and visits the members of tar archives: by libarchive (archive.cpp), or in a build without it by
// what is lent (archive_lent.cpp). Used by unpack.cpp only.

#include "data/unpack.h"

#include <cstdint>
#include <string>

namespace eg::data {

/// Throws FileError, beginning with `source`, where the file is truncated or corrupt or unpacks to more than `limit`
/// bytes.
Bytes unpack_xz(ByteView packed, const std::string& source, std::uint64_t limit);

/// read_tar_bytes() for a tar whose end marker is there.
void read_tar_members(ByteView tar, const std::string& source, FunctionRef<void(const ArchiveMember&)> visit);

} // namespace eg::data
