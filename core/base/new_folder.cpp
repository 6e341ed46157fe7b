#include "core/base/new_folder.h"

#include "core/base/bytes.h"
#include "core/base/error.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string_view>

namespace eg {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view temporary_mark = ".tmp-";
/// The one thing inside a temporary folder: the folder that gets the final name. It is the mark by which a leftover is
/// known, since a folder of the user may be called NAME.tmp-2024-01.
constexpr std::string_view content_name = "equigrad-unfinished";

std::string content_of(const std::string& temporary) { return join_path(temporary, content_name); }

std::string without_slashes(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

[[noreturn]] void fail_making(const std::string& path, const std::string& why) {
  throw FileError(fmt::format("{}: cannot be made: {}", path, why));
}

void make(const std::string& path, const std::string& name) {
  std::error_code error;
  fs::create_directories(fs::path(path), error);
  if (error) fail_making(name, error.message());
}

bool is_number(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// Whether a name beside `path` is one that a temporary folder of it may have.
bool is_temporary_of(const std::string& path, const std::string& name) {
  const std::size_t mark = name.rfind(temporary_mark);
  if (mark == std::string::npos) return false;
  const std::string_view numbers = std::string_view(name).substr(mark + temporary_mark.size());
  const std::size_t dash = numbers.find('-');
  return dash != std::string_view::npos && is_number(numbers.substr(0, dash)) && is_number(numbers.substr(dash + 1)) &&
         fs::path(beside(path, name.substr(mark))).filename() == name;
}

/// `lost`: another process has the lock, or the folder was renamed or removed. `unknown`: the file system has no such
/// locks, so that it is unknown whether the folder is in use.
enum class Lock : std::uint8_t { taken, lost, unknown };

/// Takes the lock of an open folder.
Lock lock_of(const FileDescriptor& folder, const std::string& path) {
  int refused = 0;
  while ((refused = ::flock(folder.get(), LOCK_EX | LOCK_NB) == 0 ? 0 : errno) == EINTR) {
  }
  if (refused != 0) return refused == EWOULDBLOCK ? Lock::lost : Lock::unknown;
  struct stat open {};
  struct stat named {};
  const bool there = ::fstat(folder.get(), &open) == 0 && ::lstat(path.c_str(), &named) == 0 &&
                     open.st_dev == named.st_dev && open.st_ino == named.st_ino;
  return there ? Lock::taken : Lock::lost;
}

/// A descriptor of the folder, or -1.
int opened(const std::string& path) { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC); }

bool is_folder(const std::string& path) {
  std::error_code ignored;
  return fs::symlink_status(path, ignored).type() == fs::file_type::directory;
}

/// Removes what was put into a temporary folder, and the folder itself unless something else is in it.
void remove_temporary(const std::string& temporary) {
  std::error_code ignored;
  fs::remove_all(content_of(temporary), ignored);
  ::rmdir(temporary.c_str());
}

/// Removes the temporary folders of `path` whose processes have ended.
void remove_leftovers(const std::string& path) {
  const fs::path parent = fs::path(path).has_parent_path() ? fs::path(path).parent_path() : fs::path(".");
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(parent, ignored)) {
    const std::string temporary = entry.path().string();
    if (!is_temporary_of(path, entry.path().filename().string())) continue;
    const FileDescriptor folder(opened(temporary));
    // The mark appears once its process has the lock.
    if (folder.get() >= 0 && is_folder(content_of(temporary)) && lock_of(folder, temporary) == Lock::taken)
      remove_temporary(temporary);
  }
}

} // namespace

NewFolder::NewFolder(std::string path) : path_(without_slashes(std::move(path))) {
  std::error_code error;
  if (fs::exists(fs::symlink_status(path_, error)))
    throw FileError(path_ + ": is there already; nothing is overwritten");
  if (const fs::path parent = fs::path(path_).parent_path(); !parent.empty()) make(parent.string(), path_);
  remove_leftovers(path_);
  constexpr int attempts = 1000;
  for (int i = 0; i < attempts; ++i) {
    temporary_ = beside(path_, fmt::format("{}{}-{}", temporary_mark, ::getpid(), i));
    if (::mkdir(temporary_.c_str(), 0777) != 0) {
      if (errno != EEXIST) fail_making(path_, std::strerror(errno));
      continue;
    }
    lock_.emplace(opened(temporary_));
    if (lock_->get() >= 0 && lock_of(*lock_, temporary_) == Lock::lost) continue; // another process is writing it
    if (lock_->get() >= 0 && ::mkdir(content_of(temporary_).c_str(), 0777) == 0) return;
    const int why = errno;
    ::rmdir(temporary_.c_str());
    fail_making(path_, std::strerror(why));
  }
  fail_making(path_, "there is no name for a temporary folder beside it");
}

NewFolder::~NewFolder() {
  if (!kept_) remove_temporary(temporary_);
}

std::string NewFolder::file(const std::string& name) const { return join_path(content_of(temporary_), name); }

std::string NewFolder::make_folder(const std::string& name) const {
  make(file(name), join_path(path_, name));
  return file(name);
}

void NewFolder::keep() {
  std::error_code error;
  fs::rename(content_of(temporary_), path_, error);
  if (error) fail_making(path_, error.message());
  kept_ = true;
  ::rmdir(temporary_.c_str());
}

} // namespace eg
