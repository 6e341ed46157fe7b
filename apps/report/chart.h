#pragma once
// Draws line charts as SVG text, for pages that work offline.

#include <string>
#include <vector>

namespace eg::report {

/// One line of a chart. `dashed` and `width` distinguish curves that coincide.
struct Series {
  std::string name = {};
  std::vector<double> x = {}, y = {};
  bool dashed = false;
  double width = 2.0;
  int color = -1;     ///< place in the palette; -1: the series' own place
  bool faint = false; ///< half transparent
  bool dots = false;  ///< a dot at every point, so that a single one is seen
};

struct Chart {
  std::string title = {}, x_label = {}, y_label = {};
  std::vector<Series> series = {};
  bool log_y = false; ///< values <= 0 are left out
};

/// The chart as one <svg> element, 720 x 330 units, with axes, ticks and grid; its title is its name. Without any point
/// it says so.
std::string svg(const Chart& chart);

/// The chart as an SVG file that needs no page: with its title above, the names of its lines below, and its styles.
std::string picture(const Chart& chart);

/// The names of a chart's lines, each after a piece of its line, as markup that breaks where there is no room.
std::string legend(const Chart& chart);

/// Text with &, <, > and quotes escaped.
std::string escape(const std::string& text);

} // namespace eg::report
