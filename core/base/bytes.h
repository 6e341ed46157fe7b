#pragma once
// Reads whole files into memory, and writes files that appear under their name complete or not at all.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace eg {

using Bytes = std::vector<std::uint8_t>;
using ByteView = std::span<const std::uint8_t>;

/// Most bytes that a file may have, packed or unpacked, unless a caller says otherwise: 4 GiB.
inline constexpr std::uint64_t default_byte_limit = std::uint64_t{4} << 30;

bool file_exists(const std::string& path);
bool folder_exists(const std::string& path);
/// Folder and name with one '/' between them; `name` alone when `folder` is empty.
std::string join_path(std::string_view folder, std::string_view name);

/// Where a path leads when links are followed, also where the last one leads to a missing file; `path` itself when it
/// is not a link, or when links lead in a circle.
std::string link_target(const std::string& path);
/// `path` with `suffix` behind its name, which is cut where both are longer than a name may be (NAME_MAX bytes).
std::string beside(const std::string& path, const std::string& suffix);

/// `text` as one word of a shell command: as it is when it is plain, in single quotes otherwise, with ./ before a '-'.
std::string shell_word(const std::string& text);

/// The whole file. Throws FileError when it is missing, not a regular file, unreadable or larger than `limit`.
Bytes read_file(const std::string& path, std::uint64_t limit = default_byte_limit);

/// A file that is written under a temporary name beside its final one, then flushed to the disk and renamed by
/// commit(); it gets the old one's mode. Without commit() it vanishes and the old file stays. Links are followed.
/// Pipes, character devices and the file that is this process's stdout or stderr are written to directly: opening a
/// pipe waits for its reader, writing waits for space, and both stop when poll_interrupt() throws. Every member throws
/// FileError, with the path and the reason, when the system refuses or when something else is there.
class AtomicFile {
public:
  explicit AtomicFile(std::string path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, std::size_t size);
  void write(std::string_view text) { write(text.data(), text.size()); }
  void commit();

private:
  std::string path_;
  std::string temporary_; ///< "" where it is written to directly
  int descriptor_ = -1;
};

/// Writes a whole file atomically.
void write_file(const std::string& path, ByteView bytes);
void write_file(const std::string& path, std::string_view text);

/// CRC-32 (ISO 3309, polynomial 0xEDB88320, as in PNG and gzip) of `bytes`, continued from `crc` (0 to begin).
std::uint32_t crc32(ByteView bytes, std::uint32_t crc = 0);

} // namespace eg
