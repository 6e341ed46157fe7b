#include "core/base/input_file.h"

#include "core/base/error.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace eg {

bool path_exists(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

InputFile::InputFile(std::string path) : path_(std::move(path)) {
  // O_NONBLOCK: opening a pipe must not hang; regular files ignore it.
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0)
    throw FileError(errno == ENOENT ? path_ + ": no such file"
                                    : fmt::format("{}: cannot open: {}", path_, std::strerror(errno)));
  struct stat info {};
  const bool known = ::fstat(descriptor_, &info) == 0;
  if (known && S_ISREG(info.st_mode)) {
    size_ = static_cast<std::uint64_t>(info.st_size);
    return;
  }
  const int error = errno;
  ::close(descriptor_); // a constructor that throws has no destructor
  if (!known) throw FileError(fmt::format("{}: cannot read: {}", path_, std::strerror(error)));
  throw FileError(path_ + (S_ISDIR(info.st_mode) ? ": is a folder" : ": not a regular file"));
}

InputFile::~InputFile() { ::close(descriptor_); }

void InputFile::read(std::uint64_t offset, void* to, std::size_t bytes) const {
  auto* at = static_cast<char*>(to);
  constexpr std::size_t most = std::size_t{1} << 30; // the system reads less than 2 GiB at once
  while (bytes > 0) {
    const ssize_t got = ::pread(descriptor_, at, std::min(bytes, most), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw FileError(fmt::format("{}: cannot read: {}", path_, std::strerror(errno)));
    if (got == 0) throw FileError(fmt::format("{}: ended at byte {} while being read", path_, offset));
    at += got;
    offset += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::size_t>(got);
  }
}

std::shared_ptr<std::byte> InputFile::map(std::uint64_t offset, std::size_t bytes) const {
  if (bytes == 0 || offset > size_ || bytes > size_ - offset) return nullptr;
  static const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const auto lead = static_cast<std::size_t>(offset % page);
  const std::size_t length = bytes + lead;
  void* start =
      ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE, descriptor_, static_cast<off_t>(offset - lead));
  if (start == MAP_FAILED) return nullptr;
  try {
    return {static_cast<std::byte*>(start) + lead, [start, length](std::byte*) { ::munmap(start, length); }};
  } catch (...) { // the deleter ran if the owner could not be made
    return nullptr;
  }
}

} // namespace eg
