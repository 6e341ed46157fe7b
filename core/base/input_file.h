#pragma once
// Reads a file in pieces: at any offset, into memory or mapped.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace eg {

/// Something of any kind exists there, or cannot be examined: opening it as an InputFile says what is wrong.
bool path_exists(const std::string& path);

/// A regular file, open for reading. The same file stays behind it when another one takes its name. Reading is safe
/// from several threads.
class InputFile {
public:
  /// Throws FileError when it is missing, a folder, a device, a pipe, or cannot be opened.
  explicit InputFile(std::string path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  /// Bytes when it was opened.
  std::uint64_t size() const { return size_; }
  /// Copies `bytes` bytes that begin at `offset`. Throws FileError when they cannot be read or the file shrank.
  void read(std::uint64_t offset, void* to, std::size_t bytes) const;
  /// The same bytes as memory that reads from the file when it is first touched and may be written: what is written
  /// stays in this process (copy on write) and never reaches the file. Every call makes memory of its own. nullptr when
  /// the system gives no mapping, for no bytes, and beyond the file's end.
  ///
  /// A file that is truncated while it is mapped ends the process with SIGBUS when the missing part is
  /// touched; one that is changed in place may show either state. Files that are replaced by rename, as AtomicFile
  /// does, are safe.
  std::shared_ptr<std::byte> map(std::uint64_t offset, std::size_t bytes) const;

private:
  std::string path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

} // namespace eg
