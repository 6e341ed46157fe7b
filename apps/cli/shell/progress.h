#pragma once
// Rewrites a progress line in place on a terminal, and prints nothing in a pipe or on a terminal without escape
// sequences.

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace eg::cli {

/// A part of the line that is shown whole or not at all.
struct ProgressField {
  std::string text;
  int rank = 0; ///< where there is no room for all, the highest rank goes first
};

/// The fields in their order, two spaces apart, without those that have no room in `width` columns.
std::string fit(std::vector<ProgressField> fields, std::size_t width);

class Progress {
public:
  /// `wanted`: not quiet. Draws on stderr when that is a terminal with escape sequences.
  explicit Progress(bool wanted);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Shows a bar of done/total, the time that is left at the pace since the first call, and `fields`, at most ten times
  /// a second. The bar gives way first on a narrow terminal, the percentage last; ranks between 1 and 8 are the
  /// caller's.
  void show(double done, double total, const std::vector<ProgressField>& fields);
  /// The same for work without an end that is known: `fields` alone.
  void show_open(std::vector<ProgressField> fields);
  /// Removes the line, so that something else can be printed.
  void clear();

private:
  bool due(bool last);
  void draw(std::vector<ProgressField> fields);
  using Clock = std::chrono::steady_clock;
  bool drawing_;
  bool drawn_ = false;
  std::optional<double> began_; ///< what was done when the first line was asked for
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_{};
};

/// Whether a file descriptor leads to a terminal that obeys escape sequences: TERM names one, and not "dumb".
bool obeys_escapes(int descriptor);

/// Columns of the terminal behind a file descriptor; `otherwise` when it is none or does not say.
std::size_t terminal_width(int descriptor, std::size_t otherwise);

/// "1:02:03" or "2:03".
std::string clock_time(double seconds);

} // namespace eg::cli
