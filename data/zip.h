#pragma once
// Reads and writes zip archives as far as npz files use them: stored and deflated members, zip64 (PKWARE's
// APPNOTE.TXT).

#include "core/base/bytes.h"
#include "core/base/input_file.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace eg::data {

class Inflater;

/// A file in an archive.
struct ZipMember {
  std::string name;
  std::uint64_t header = 0; ///< where its local header is in the archive
  std::uint64_t packed = 0; ///< bytes in the archive
  std::uint64_t size = 0;   ///< bytes unpacked
  std::uint32_t crc = 0;    ///< of the unpacked bytes
  bool deflated = false;
};

/// The members of an archive, in the order of its directory. Nothing but names and numbers is held. Throws FileError
/// for anything but a whole archive of one part, and for members that are encrypted, neither stored nor deflated, given
/// twice, overlapping, outside the file, or larger than deflate can make out of what is there.
std::vector<ZipMember> read_zip_directory(const InputFile& file);

/// Unpacks one member from its beginning. The file and the member must outlive the reader.
class ZipReader {
public:
  /// Throws FileError when the local header contradicts the directory.
  ZipReader(const InputFile& file, const ZipMember& member);
  ~ZipReader();
  ZipReader(const ZipReader&) = delete;
  ZipReader& operator=(const ZipReader&) = delete;

  /// The next bytes. Throws FileError when the member has fewer or its packed data are corrupt.
  void read(void* to, std::size_t bytes);
  /// To be called after the last byte was read. Throws FileError when there are more, or the checksum is another.
  void finish();

private:
  class Pieces;
  [[noreturn]] void fail(const std::string& reason) const;

  const InputFile& file_;
  const ZipMember& member_;
  std::uint64_t at_ = 0;   ///< place in the archive of the next packed byte
  std::uint64_t done_ = 0; ///< unpacked bytes given so far
  std::uint32_t crc_ = 0;
  std::unique_ptr<Pieces> pieces_; ///< of a deflated member
  std::unique_ptr<Inflater> inflater_;
};

/// Writes an archive of stored members, piece by piece, into a file of its own. Sizes and checksums must be known
/// before a member's bytes are written.
class ZipWriter {
public:
  explicit ZipWriter(AtomicFile& file) : file_(file) {}
  /// Throws ValueError beyond 4 GiB or 65,535 members. `name` is UTF-8.
  void begin(const std::string& name, std::uint64_t size, std::uint32_t crc);
  void write(const void* data, std::size_t bytes);
  /// Writes the directory.
  void finish();

private:
  AtomicFile& file_;
  std::vector<ZipMember> members_;
  std::uint64_t at_ = 0;
};

} // namespace eg::data
