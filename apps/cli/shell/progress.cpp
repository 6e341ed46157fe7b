#include "apps/cli/shell/progress.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <string_view>
#include <sys/ioctl.h>
#include <unistd.h>

namespace eg::cli {
namespace {

std::string bar(double fraction) {
  constexpr int cells = 24;
  const int full = std::clamp(static_cast<int>(std::lround(fraction * cells)), 0, cells);
  return fmt::format("[{}{}]", std::string(static_cast<std::size_t>(full), '#'),
                     std::string(static_cast<std::size_t>(cells - full), '.'));
}

} // namespace

bool obeys_escapes(int descriptor) {
  const char* const kind = std::getenv("TERM");
  return isatty(descriptor) == 1 && kind != nullptr && *kind != '\0' && std::string_view(kind) != "dumb";
}

std::size_t terminal_width(int descriptor, std::size_t otherwise) {
  winsize size{};
  return ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : otherwise;
}

std::string fit(std::vector<ProgressField> fields, std::size_t width) {
  const auto line = [&] {
    std::string text;
    for (const ProgressField& field : fields) text += (text.empty() ? "" : "  ") + field.text;
    return text;
  };
  std::string text = line();
  while (text.size() > width) {
    // Of equal ranks the last one goes.
    const auto last =
        std::max_element(fields.rbegin(), fields.rend(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
    fields.erase(std::next(last).base());
    text = line();
  }
  return text;
}

Progress::Progress(bool wanted) : drawing_(wanted && obeys_escapes(STDERR_FILENO)) {}

bool Progress::due(bool last) {
  const Clock::time_point now = Clock::now();
  if (!drawing_ || (drawn_ && now - last_ < std::chrono::milliseconds(100) && !last)) return false;
  last_ = now;
  return true;
}

void Progress::draw(std::vector<ProgressField> fields) {
  // A line as wide as the terminal would wrap on some.
  const std::size_t width = terminal_width(STDERR_FILENO, 80) - 1;
  std::fputs(fmt::format("\r\x1b[K{}", fit(std::move(fields), width)).c_str(), stderr);
  std::fflush(stderr);
  drawn_ = true;
}

void Progress::show_open(std::vector<ProgressField> fields) {
  if (due(false)) draw(std::move(fields));
}

void Progress::show(double done, double total, const std::vector<ProgressField>& fields) {
  const Clock::time_point now = Clock::now();
  if (!began_) began_ = done, start_ = now; // earlier work is not this process's
  if (!due(done >= total)) return;
  const double fraction = total > 0 ? std::clamp(done / total, 0.0, 1.0) : 0.0;
  const double spent = std::chrono::duration<double>(now - start_).count();
  const std::string left = done > *began_ ? clock_time(spent * std::max(0.0, total - done) / (done - *began_)) : "?";
  std::vector<ProgressField> all = {
      {bar(fraction), 9}, {fmt::format("{:3.0f} %", 100 * fraction), 0}, {left + " left", 2}};
  all.insert(all.end(), fields.begin(), fields.end());
  draw(std::move(all));
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
