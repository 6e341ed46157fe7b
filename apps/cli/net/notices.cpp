#include "apps/cli/net/notices.h"

#include "core/base/words.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

namespace eg::cli {

std::function<void(const std::string&)> report_trouble(Progress& progress) {
  using Clock = std::chrono::steady_clock;
  return [&progress, last = std::string(), when = Clock::time_point()](const std::string& words) mutable {
    const Clock::time_point now = Clock::now();
    if (words == last && now - when < std::chrono::minutes(1)) return;
    last = words;
    when = now;
    progress.clear();
    std::fputs(fmt::format("equigrad: {}\n", printable(words)).c_str(), stderr);
  };
}

std::function<void(const net::ConnectionError&, std::chrono::milliseconds)> tell_waiting(const CommonOptions& common,
                                                                                         LineBefore before) {
  if (common.quiet || isatty(STDERR_FILENO) != 1) return {};
  // Without escape sequences there is no line of progress.
  const char* const over = before == LineBefore::text ? "\n" : obeys_escapes(STDERR_FILENO) ? "\r\x1b[K" : "";
  return [over](const net::ConnectionError& why, std::chrono::milliseconds pause) {
    std::fputs(fmt::format("{}equigrad: {}; again in {:.1f} s\n", over, printable(why.what()),
                           std::chrono::duration<double>(pause).count())
                   .c_str(),
               stderr);
  };
}

} // namespace eg::cli
