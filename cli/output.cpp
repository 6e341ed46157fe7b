#include "cli/output.h"

#include "core/error.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

namespace eg::cli {
namespace {

[[noreturn]] void refuse(const std::string& path, const char* why) {
  throw FileError(fmt::format("{}: cannot be written: {}", path, why));
}

void require_folder(const std::string& path) {
  const auto slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  if (::faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) != 0) refuse(path, std::strerror(errno));
}

} // namespace

void require_writable(const std::string& path, bool replaced) {
  if (path.empty() || path == "-") return;
  struct stat info {};
  const bool there = ::stat(path.c_str(), &info) == 0;
  if (!there && errno != ENOENT) refuse(path, std::strerror(errno));
  if (there && S_ISDIR(info.st_mode)) refuse(path, "it is a folder");
  if (!there || replaced) require_folder(path);
  if (!there || S_ISFIFO(info.st_mode)) return; // opening a pipe tells its reader that we have come and gone
  const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) refuse(path, std::strerror(errno));
  ::close(file);
}

void say(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

void survive_broken_pipes() { std::signal(SIGPIPE, SIG_IGN); }

} // namespace eg::cli
