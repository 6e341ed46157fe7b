// For builds without libarchive: xz and tar by what was lent, and refused where nothing was.

#include "core/base/error.h"
#include "data/archives.h"
#include "data/lent_archives.h"

#include <string_view>
#include <utility>

namespace eg::data {
namespace {

LentArchives& lent() {
  static LentArchives archives;
  return archives;
}

[[noreturn]] void refuse(const std::string& source, std::string_view what, std::string_view command) {
  throw FileError(source + ": " + std::string(what) + ", which this build cannot read; unpack it with `" +
                  std::string(command) + "`");
}

} // namespace

void lend_archives(LentArchives archives) { lent() = std::move(archives); }

Bytes unpack_xz(ByteView packed, const std::string& source, std::uint64_t limit) {
  if (!lent().unpack_xz) refuse(source, "an xz file", "xz -dk");
  return lent().unpack_xz(packed, source, limit);
}

void read_tar_members(ByteView tar, const std::string& source, FunctionRef<void(const ArchiveMember&)> visit) {
  if (!lent().read_tar) refuse(source, "a tar archive", "tar -xf");
  lent().read_tar(tar, source, visit);
}

} // namespace eg::data
