#include "apps/cli/shell/output.h"

#include "apps/cli/shell/interrupt.h"

#include "core/base/bytes.h"
#include "core/base/error.h"

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

int output_error = 0; ///< errno of the first text for stdout that was lost

[[noreturn]] void refuse_writing(const std::string& path, const std::string& why) {
  throw FileError(fmt::format("{}: cannot be written: {}", path, why));
}

/// `target`: where `path` leads.
void require_folder(const std::string& path, const std::string& target) {
  const auto slash = target.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : target.substr(0, slash + 1);
  if (::faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) != 0) refuse_writing(path, std::strerror(errno));
}

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

void require_writable(const std::string& path) {
  if (path.empty() || path == "-") return;
  struct stat info {};
  const bool there = ::stat(path.c_str(), &info) == 0;
  if (!there && errno != ENOENT) refuse_writing(path, std::strerror(errno));
  if (there && S_ISDIR(info.st_mode)) refuse_writing(path, "it is a folder");
  if (there && S_ISFIFO(info.st_mode)) return; // opening a pipe tells its reader that we have come and gone
  if (there && !S_ISREG(info.st_mode) && !S_ISCHR(info.st_mode)) refuse_writing(path, "it is not a regular file");
  if (!there || S_ISREG(info.st_mode)) require_folder(path, link_target(path));
  if (!there) return;
  const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) refuse_writing(path, std::strerror(errno));
  ::close(file);
}

void write_result(const std::string& path, std::string_view text) {
  const StopScope stopping;
  write_file(path, text);
}

void say(const std::string& text) {
  errno = 0;
  const bool whole = std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  if (!whole && output_error == 0) output_error = errno;
}

void say_text(std::string_view text) {
  static const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  say(terminal ? without_controls(text) : std::string(text));
}

bool output_is_lost() {
  if (std::fflush(stdout) != 0 && output_error == 0) output_error = errno;
  return std::ferror(stdout) != 0;
}

std::string output_trouble() {
  const char* const why = output_error == 0 ? nullptr : std::strerror(output_error);
  return fmt::format("standard output: cannot be written{}{}", why == nullptr ? "" : ": ", why == nullptr ? "" : why);
}

void require_output() {
  if (output_is_lost()) throw FileError(output_trouble());
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

void fail_on_broken_output() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

} // namespace eg::cli
