#include "training/run_lock.h"

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "training/checkpoint.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

namespace eg::training {
namespace {

constexpr const char* lock_name = "run.lock";

[[noreturn]] void fail(const std::string& path, const char* what) {
  throw FileError(fmt::format("{}: {}: {}", path, what, std::strerror(errno)));
}

/// The folders on the way to `folder`, itself included, that do not exist; outermost first.
std::vector<std::string> missing_folders(const std::string& folder) {
  std::vector<std::string> missing;
  std::error_code ignored;
  for (std::filesystem::path at = folder; !at.empty() && !std::filesystem::exists(at, ignored); at = at.parent_path()) {
    if (at.has_filename()) missing.push_back(at.string());
    if (at == at.parent_path()) break;
  }
  std::reverse(missing.begin(), missing.end());
  return missing;
}

/// The process number that the holder wrote, " (process 12)", or "".
std::string holder(int descriptor) {
  std::array<char, 24> text{};
  const ssize_t got = ::pread(descriptor, text.data(), text.size() - 1, 0);
  std::string number(text.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
  number.erase(std::find_if(number.begin(), number.end(), [](char c) { return c < '0' || c > '9'; }), number.end());
  return number.empty() ? "" : fmt::format(" (process {})", number);
}

/// Whether `path` still names the file that is open: its last holder may have removed it in between.
bool is_at(int descriptor, const std::string& path) {
  struct stat open {};
  struct stat named {};
  return ::fstat(descriptor, &open) == 0 && ::stat(path.c_str(), &named) == 0 && open.st_dev == named.st_dev &&
         open.st_ino == named.st_ino;
}

/// Refuses a folder in which writing or reading a file could wait for another process, or never end.
void refuse_pipes(const std::string& folder) {
  for (const std::string& at : {folder, join_path(folder, "checkpoints")}) {
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(at, none)) {
      if (std::filesystem::is_other(entry.status(none)))
        throw FileError(entry.path().string() + ": is a pipe, socket or device; a run folder holds files and folders");
    }
  }
}

int lock_now(int descriptor) {
  while (::flock(descriptor, LOCK_EX | LOCK_NB) != 0)
    if (errno != EINTR) return errno;
  return 0;
}

} // namespace

RunLock::RunLock(const std::string& folder) : path_(join_path(folder, lock_name)), made_(missing_folders(folder)) {
  refuse_pipes(folder);
  make_folder(folder);
  take(folder);
  const std::string process = fmt::format("{}\n", ::getpid());
  // For the message alone; a full disk must not stop the run.
  if (::ftruncate(descriptor_, 0) == 0) static_cast<void>(::pwrite(descriptor_, process.data(), process.size(), 0) > 0);
}

void RunLock::take(const std::string& folder) {
  for (;;) {
    descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (descriptor_ < 0) fail(path_, "cannot create");
    const int refused = lock_now(descriptor_);
    if (refused == 0 && is_at(descriptor_, path_)) return;
    const std::string who = refused == EWOULDBLOCK ? holder(descriptor_) : "";
    ::close(descriptor_);
    descriptor_ = -1;
    if (refused == 0) continue;
    if (refused == EWOULDBLOCK)
      throw FileError(fmt::format("{}: another training is using this run folder{}: wait for it or give another --out",
                                  folder, who));
    errno = refused;
    fail(path_, "cannot lock");
  }
}

RunLock::~RunLock() {
  ::unlink(path_.c_str()); // while it is held: a process that has it open notices by is_at
  ::close(descriptor_);
  for (auto at = made_.rbegin(); at != made_.rend(); ++at)
    if (::rmdir(at->c_str()) != 0) return;
}

bool run_is_locked(const std::string& folder) {
  const int descriptor = ::open(join_path(folder, lock_name).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return false;
  const bool locked = ::flock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(descriptor);
  return locked;
}

} // namespace eg::training
