#include "cli/output.h"

#include "cli/interrupt.h"

#include "core/error.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <tuple>

namespace eg::cli {
namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw FileError(fmt::format("{}: cannot be written: {}", path, why));
}

void require_folder(const std::string& path) {
  const auto slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  if (::faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) != 0) refuse(path, std::strerror(errno));
}

/// What a path leads to: the file that is there, or the place where one would be made.
struct Target {
  explicit Target(const std::string& path) {
    struct stat info {};
    if (::stat(path.c_str(), &info) == 0) {
      file = info.st_ino;
      device = info.st_dev;
      kept = S_ISREG(info.st_mode);
    } else {
      std::error_code code;
      place = std::filesystem::weakly_canonical(std::filesystem::absolute(path, code), code).string();
    }
  }
  bool same(const Target& other) const {
    return kept && std::tie(device, file, place) == std::tie(other.device, other.file, other.place);
  }

  bool kept = true; ///< what is written there can be read again
  dev_t device = 0;
  ino_t file = 0;
  std::string place; ///< "" for a file that is there
};

/// Characters that a terminal obeys, but line ends and tabs: C0, DEL, and C1 with its lead byte. Bytes at the front.
std::size_t control_size(std::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  if (first == 0xc2 && text.size() > 1 && static_cast<unsigned char>(text[1]) < 0xa0) return 2;
  return (first < 0x20 && first != '\n' && first != '\t') || first == 0x7f ? 1 : 0;
}

std::string without_controls(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const std::size_t size = control_size(text);
    for (const char byte : text.substr(0, size)) shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
    if (size == 0) shown += text.front();
    text.remove_prefix(size == 0 ? 1 : size);
  }
  return shown;
}

} // namespace

void require_apart(const CommonOptions& common, std::vector<std::string> written,
                   const std::vector<std::string>& read) {
  written.insert(written.end(), {common.json, common.profile});
  std::vector<Target> targets, sources;
  for (const std::string& path : read) sources.emplace_back(path);
  for (const std::string& path : written) {
    if (path.empty() || path == "-") continue;
    const Target target(path);
    for (std::size_t i = 0; i < read.size(); ++i)
      if (target.same(sources[i]))
        refuse(path, read[i] == path ? "it is read" : fmt::format("it is {}, which is read", read[i]));
    for (const Target& other : targets)
      if (target.same(other)) refuse(path, "another result goes there");
    targets.push_back(target);
  }
}

void require_writable(const std::string& path, bool replaced) {
  if (path.empty() || path == "-") return;
  struct stat info {};
  const bool there = ::stat(path.c_str(), &info) == 0;
  if (!there && errno != ENOENT) refuse(path, std::strerror(errno));
  if (there && S_ISDIR(info.st_mode)) refuse(path, "it is a folder");
  if (there && replaced && !S_ISREG(info.st_mode)) refuse(path, "it is not a regular file");
  if (!there || replaced) require_folder(path);
  if (!there || S_ISFIFO(info.st_mode)) return; // opening a pipe tells its reader that we have come and gone
  const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) refuse(path, std::strerror(errno));
  ::close(file);
}

void say(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void say_text(std::string_view text) {
  static const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  say(terminal ? without_controls(text) : std::string(text));
}

bool output_is_lost() { return std::ferror(stdout) != 0; }

void require_output() {
  if (output_is_lost()) throw FileError("standard output: cannot be written");
}

void LongOutput::add(std::string_view text) {
  text_ += text;
  if (text_.size() < (1U << 16U)) return;
  throw_if_stopped();
  finish();
}

void LongOutput::finish() {
  say(text_);
  text_.clear();
  require_output();
}

void survive_broken_pipes() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

} // namespace eg::cli
