#pragma once
// A line that is rewritten in place on a terminal, and nothing at all in a pipe.

#include <chrono>
#include <string>

namespace eg::cli {

class Progress {
public:
  /// `wanted`: not quiet. Draws on stderr when that is a terminal.
  explicit Progress(bool wanted);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Shows `text` behind a bar of done/total and the time that is left, at most ten times a second.
  void show(double done, double total, const std::string& text);
  /// Removes the line, so that something else can be printed.
  void clear();

private:
  using Clock = std::chrono::steady_clock;
  bool drawing_;
  bool drawn_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_{};
};

/// "1:02:03" or "2:03".
std::string clock_time(double seconds);

} // namespace eg::cli
