#include "cli/progress.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace eg::cli {
namespace {

std::size_t terminal_width() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string bar(double fraction) {
  constexpr int cells = 24;
  const int full = std::clamp(static_cast<int>(std::lround(fraction * cells)), 0, cells);
  return std::string(static_cast<std::size_t>(full), '#') + std::string(static_cast<std::size_t>(cells - full), '.');
}

} // namespace

Progress::Progress(bool wanted) : drawing_(wanted && isatty(STDERR_FILENO) == 1) {}

void Progress::show(double done, double total, const std::string& text) {
  const Clock::time_point now = Clock::now();
  if (!drawing_ || (drawn_ && now - last_ < std::chrono::milliseconds(100) && done < total)) return;
  last_ = now;
  const double fraction = total > 0 ? std::clamp(done / total, 0.0, 1.0) : 0.0;
  const double spent = std::chrono::duration<double>(now - start_).count();
  const std::string left = fraction > 0 ? clock_time(spent / fraction * (1 - fraction)) : "?";
  std::string line = fmt::format("[{}] {:3.0f} %  {} left  {}", bar(fraction), 100 * fraction, left, text);
  if (const std::size_t width = terminal_width(); line.size() >= width) line.resize(width - 1);
  std::fputs(fmt::format("\r\x1b[K{}", line).c_str(), stderr);
  std::fflush(stderr);
  drawn_ = true;
}

void Progress::clear() {
  if (!drawn_) return;
  std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
  drawn_ = false;
}

std::string clock_time(double seconds) {
  const auto whole = static_cast<long>(std::lround(std::max(0.0, seconds)));
  if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

} // namespace eg::cli
