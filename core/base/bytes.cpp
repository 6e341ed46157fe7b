#include "core/base/bytes.h"

#include "core/base/crc.h"
#include "core/base/file_descriptor.h"
#include "core/base/interrupt.h"
#include "core/base/out_of_memory.h"
#include "core/base/write_all.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace eg {

namespace {

std::string folder_of(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

/// A descriptor of stdout or stderr where the file of `info` is what that stream writes to; -1 where neither does.
int standard_stream_of(const std::string& path, const struct stat& info) {
  for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat open {};
    if (::fstat(stream, &open) != 0 || open.st_dev != info.st_dev || open.st_ino != info.st_ino) continue;
    if ((::fcntl(stream, F_GETFL) & O_ACCMODE) == O_RDONLY) continue;
    static_cast<void>(std::fflush(stdout)); // what was printed before comes first
    const int descriptor = ::fcntl(stream, F_DUPFD_CLOEXEC, 0);
    if (descriptor < 0) fail_errno(path, "cannot open");
    return descriptor;
  }
  return -1;
}

/// A pipe or device for writing, whose writes do not block. A pipe is opened once it has a reader.
int open_stream(const std::string& path) {
  while (true) {
    const int descriptor = ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (descriptor >= 0) return descriptor;
    if (errno != ENXIO && errno != EINTR) fail_errno(path, "cannot open");
    if (errno == ENXIO && ::poll(nullptr, 0, poll_ms) < 0 && errno != EINTR) fail_errno(path, "cannot wait");
    poll_interrupt();
  }
}

/// A descriptor of what is written to directly; -1 for a file that another takes the place of. A file that stdout
/// writes to stays (/dev/stdout with stdout going to a file): replaced, it would take what else is printed with it.
int open_directly(const std::string& path, const struct stat& info) {
  if (S_ISFIFO(info.st_mode) || S_ISCHR(info.st_mode)) return open_stream(path);
  if (!S_ISREG(info.st_mode))
    throw FileError(path + (S_ISDIR(info.st_mode) ? ": is a folder" : ": is not a regular file"));
  return standard_stream_of(path, info);
}

/// Gives a new file the mode of the one whose place it is about to take, if there is one.
void take_mode(int descriptor, const std::string& path) {
  constexpr mode_t bits = S_IRWXU | S_IRWXG | S_IRWXO;
  struct stat old {};
  struct stat made {};
  if (::stat(path.c_str(), &old) != 0) return;
  if (::fstat(descriptor, &made) != 0) fail_errno(path, "cannot write");
  if ((old.st_mode & bits) != (made.st_mode & bits) && ::fchmod(descriptor, old.st_mode & bits) != 0)
    fail_errno(path, "cannot keep its mode");
}

} // namespace

std::string link_target(const std::string& path) {
  constexpr int most = 40; // as the kernel has it
  std::filesystem::path at = path;
  for (int i = 0; i < most; ++i) {
    std::error_code code;
    const std::filesystem::path next = std::filesystem::read_symlink(at, code);
    if (code) return at.string();
    at = next.is_absolute() ? next : at.parent_path() / next;
  }
  return path;
}

std::string beside(const std::string& path, const std::string& suffix) {
  const std::size_t slash = path.rfind('/');
  const std::size_t name = slash == std::string::npos ? 0 : slash + 1;
  const std::size_t room = NAME_MAX - std::min<std::size_t>(suffix.size(), NAME_MAX);
  return path.substr(0, name + std::min(path.size() - name, room)) + suffix;
}

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
  Bytes bytes;
  resize_for(path, bytes, static_cast<std::size_t>(size));
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
  struct stat info {};
  const bool there = ::stat(path_.c_str(), &info) == 0;
  if (there && (descriptor_ = open_directly(path_, info)) >= 0) return;
  path_ = link_target(path_);
  // What others may not read in the old file they may not read before it is whole either.
  const mode_t mode = there ? info.st_mode & (S_IRUSR | S_IWUSR) : 0666;
  constexpr int attempts = 1000;
  for (int i = 0; i < attempts && descriptor_ < 0; ++i) {
    temporary_ = beside(path_, fmt::format(".tmp-{}-{}", ::getpid(), i));
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (descriptor_ < 0 && errno != EEXIST) fail_errno(path_, "cannot create");
  }
  if (descriptor_ < 0) fail_errno(path_, "cannot create a temporary file beside it");
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::write(const void* data, std::size_t size) {
  write_all(descriptor_, {static_cast<const char*>(data), size}, path_);
}

void AtomicFile::commit() {
  if (temporary_.empty()) {
    if (::close(std::exchange(descriptor_, -1)) != 0) fail_errno(path_, "cannot write");
    return;
  }
  take_mode(descriptor_, path_);
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

} // namespace eg
