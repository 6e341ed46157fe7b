#include "permute/report/axis_diagram.h"

#include "permute/report/chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>

namespace eg::permute::report {
namespace {

constexpr std::size_t columns = 4;
constexpr double cell_width = 236;
constexpr double cell_height = 116;
constexpr double box_left = 34; ///< within a cell
constexpr double box_top = 44;
constexpr double longest = 150;
constexpr double highest = 56;
constexpr double thin = 12; ///< the short side of a vector

/// As in charts: Okabe and Ito's palette.
constexpr std::array colors = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"};

struct Group {
  std::string name;
  std::int64_t size = 0;
  std::int64_t axes = 0;
};

/// a, b, ..., z, aa, ab, ...
std::string letter(std::size_t i) {
  std::string text(1, static_cast<char>('a' + static_cast<char>(i % 26)));
  return i < 26 ? text : letter(i / 26 - 1) + text;
}

class Diagram {
public:
  explicit Diagram(const std::vector<DiagramParameter>& parameters) : parameters_(parameters) {
    for (const DiagramParameter& parameter : parameters)
      for (const DiagramAxis& axis : parameter.axes) {
        largest_ = std::max(largest_, axis.size);
        count(axis);
      }
  }

  std::string svg() const {
    const std::size_t rows = (parameters_.size() + columns - 1) / columns;
    const double legend_top = static_cast<double>(rows) * cell_height + 16;
    const std::size_t legend_rows = (groups_.size() + 1 + 1) / 2; // two columns, and what does not move
    const double width = cell_width * columns, height = legend_top + 24 * static_cast<double>(legend_rows) + 8;
    std::string out = fmt::format(R"(<svg class="axes" viewBox="0 0 {:g} {:g}" role="img" aria-label="{}">)", width,
                                  height, "groups of axes that one permutation moves");
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const std::size_t row = i / columns;
      out +=
          cell(parameters_[i], static_cast<double>(i % columns) * cell_width, static_cast<double>(row) * cell_height);
    }
    return out + legend(legend_top, width / 2) + "</svg>";
  }

private:
  void count(const DiagramAxis& axis) {
    if (axis.group.empty()) return;
    const auto found =
        std::find_if(groups_.begin(), groups_.end(), [&](const Group& g) { return g.name == axis.group; });
    if (found == groups_.end())
      groups_.push_back({axis.group, axis.size, 1});
    else
      ++found->axes;
  }

  std::size_t place(const std::string& group) const {
    const auto found = std::find_if(groups_.begin(), groups_.end(), [&](const Group& g) { return g.name == group; });
    return static_cast<std::size_t>(found - groups_.begin());
  }

  /// Side of an axis: square roots, so that 64 and 768 fit beside each other.
  double side(std::int64_t size, double most) const {
    return std::max(24.0, most * std::sqrt(static_cast<double>(size) / static_cast<double>(largest_)));
  }

  std::string edge(const DiagramAxis& axis, double x1, double y1, double x2, double y2) const {
    if (axis.group.empty())
      return fmt::format(R"(<line class="fixed" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>)", x1, y1, x2, y2);
    return fmt::format(R"(<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" stroke="{}" stroke-width="6"/>)", x1,
                       y1, x2, y2, colors[place(axis.group) % colors.size()]);
  }

  static std::string text(double x, double y, const std::string& words, const char* anchor, const char* name) {
    return fmt::format(R"(<text class="{}" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>)", name, x, y, anchor,
                       escape(words));
  }

  std::string label(const DiagramAxis& axis) const {
    return axis.group.empty() ? fmt::format("{}", axis.size)
                              : fmt::format("{} {}", letter(place(axis.group)), axis.size);
  }

  std::string cell(const DiagramParameter& parameter, double x, double y) const {
    std::vector<DiagramAxis> axes;
    for (const DiagramAxis& axis : parameter.axes)
      if (axis.size != 1) axes.push_back(axis);
    std::string out = text(x + 6, y + 18, parameter.name, "start", "name");
    if (axes.empty()) return out + text(x + box_left, y + box_top + 10, "one number", "start", "tick");
    const DiagramAxis& across = axes.back();
    const double left = x + box_left, top = y + box_top, width = side(across.size, longest);
    const double height = axes.size() > 1 ? side(axes[axes.size() - 2].size, highest) : thin;
    out += fmt::format(R"(<rect class="box" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>)", left, top, width,
                       height);
    out += edge(across, left, top, left + width, top);
    out += text(left + width / 2, top - 7, label(across), "middle", "tick");
    if (axes.size() < 2) return out;
    const DiagramAxis& down = axes[axes.size() - 2];
    out += edge(down, left, top, left, top + height);
    const double middle = top + height / 2;
    out += fmt::format(
        R"svg(<text class="tick" x="{0:.1f}" y="{1:.1f}" text-anchor="middle" transform="rotate(-90 {0:.1f} {1:.1f})">{2}</text>)svg",
        left - 9, middle, escape(label(down)));
    return out;
  }

  std::string legend(double top, double column) const {
    std::string out;
    for (std::size_t i = 0; i <= groups_.size(); ++i) {
      const std::size_t row = i / 2;
      const double x = 8 + static_cast<double>(i % 2) * column, y = top + 24 * static_cast<double>(row) + 8;
      const bool fixed = i == groups_.size();
      out += edge({fixed ? "" : groups_[i].name, 0}, x, y, x + 30, y);
      out += text(x + 40, y + 4,
                  fixed ? "does not move"
                        : fmt::format("{}   {}: {} elements, {} {}", letter(i), groups_[i].name, groups_[i].size,
                                      groups_[i].axes, groups_[i].axes == 1 ? "axis" : "axes"),
                  "start", "tick");
    }
    return out;
  }

  const std::vector<DiagramParameter>& parameters_;
  std::vector<Group> groups_;
  std::int64_t largest_ = 1;
};

} // namespace

std::string axis_diagram(const std::vector<DiagramParameter>& parameters) { return Diagram(parameters).svg(); }

} // namespace eg::permute::report
