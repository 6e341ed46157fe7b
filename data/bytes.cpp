#include "data/bytes.h"

#include "core/file_descriptor.h"
#include "data/crc.h"
#include "data/write_all.h"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace eg::data {

namespace {

std::string folder_of(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

} // namespace

bool file_exists(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

bool folder_exists(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

std::string join_path(std::string_view folder, std::string_view name) {
  std::string path(folder);
  if (!path.empty() && path.back() != '/') path += '/';
  path += name;
  return path;
}

std::string shell_word(const std::string& text) {
  constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:@%+,=";
  const std::string word = text.starts_with('-') ? "./" + text : text;
  if (!word.empty() && word.find_first_not_of(plain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string(R"('\'')") : std::string(1, c);
  return quoted + "'";
}

Bytes read_file(const std::string& path, std::uint64_t limit) {
  // O_NONBLOCK: opening a pipe must not hang; regular files ignore it.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) fail_errno(path, "cannot open");
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) fail_errno(path, "cannot read");
  if (!S_ISREG(info.st_mode)) throw FileError(path + ": not a regular file");
  const auto size = static_cast<std::uint64_t>(info.st_size);
  if (size > limit) throw FileError(fmt::format("{}: {} bytes, more than the {} that are read", path, size, limit));
  Bytes bytes(static_cast<std::size_t>(size));
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::read(file.get(), bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_errno(path, "cannot read");
    if (got == 0) throw FileError(fmt::format("{}: ended after {} of {} bytes while being read", path, done, size));
    done += static_cast<std::size_t>(got);
  }
  return bytes;
}

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)) {
  // A link is written through; a device or pipe would be replaced by a file.
  std::error_code code;
  if (const auto target = std::filesystem::canonical(path_, code); !code) {
    if (!std::filesystem::is_regular_file(target, code)) throw FileError(path_ + ": is not a regular file");
    path_ = target.string();
  }
  constexpr int attempts = 1000;
  for (int i = 0; i < attempts && descriptor_ < 0; ++i) {
    temporary_ = fmt::format("{}.tmp-{}-{}", path_, ::getpid(), i);
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && errno != EEXIST) fail_errno(path_, "cannot create");
  }
  if (descriptor_ < 0) fail_errno(path_, "cannot create a temporary file beside it");
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::write(const void* data, std::size_t size) {
  write_all(descriptor_, {static_cast<const char*>(data), size}, path_);
}

void AtomicFile::commit() {
  if (::fsync(descriptor_) != 0) fail_errno(path_, "cannot flush");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail_errno(path_, "cannot rename into place");
  ::close(descriptor_);
  descriptor_ = -1;
  // The rename lives in the folder, which must reach the disk as well. Some file systems cannot flush a folder.
  const FileDescriptor folder(::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() >= 0 && ::fsync(folder.get()) != 0 && errno != EINVAL && errno != ENOTSUP)
    fail_errno(path_, "cannot flush the folder");
}

void write_file(const std::string& path, ByteView bytes) {
  AtomicFile file(path);
  file.write(bytes.data(), bytes.size());
  file.commit();
}

void write_file(const std::string& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

std::uint32_t crc32(ByteView bytes, std::uint32_t crc) {
  static constexpr CrcTables tables = crc_tables(0xEDB88320U);
  return crc_of(tables, bytes, crc);
}

} // namespace eg::data
