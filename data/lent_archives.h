#pragma once
// Lends a build without libarchive (EQUIGRAD_ARCHIVE=OFF) what unpacks xz files and reads tar archives. The Python
// module lends Python's own modules lzma and tarfile.

#include "data/unpack.h"

#include <cstdint>
#include <functional>
#include <string>

namespace eg::data {

struct LentArchives {
  /// The unpacked bytes of an xz file. Throws FileError, beginning with `source`, where it is truncated or corrupt or
  /// unpacks to more than `limit` bytes.
  std::function<Bytes(ByteView packed, const std::string& source, std::uint64_t limit)> unpack_xz;
  /// Visits the regular files of a tar in its order, and skips folders. Throws FileError, beginning with `source`, for
  /// links and devices and where the archive is truncated or corrupt.
  std::function<void(ByteView tar, const std::string& source, FunctionRef<void(const ArchiveMember&)> visit)> read_tar;
};

/// Everything packed from now on is read through `lent`. Call it before other threads read files.
void lend_archives(LentArchives lent);

} // namespace eg::data
