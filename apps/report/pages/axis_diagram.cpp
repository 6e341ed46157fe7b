#include "apps/report/pages/axis_diagram.h"

#include "apps/report/chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>

namespace eg::report {

using permute::SymmetryGroup;
namespace {

constexpr std::size_t columns = 4;
constexpr double cell_width = 236;
constexpr double cell_height = 128;
constexpr double box_left = 40; ///< within a cell
constexpr double box_top = 56;
constexpr double longest = 150;
constexpr double highest = 56;
constexpr double thin = 12; ///< the short side of a vector

/// Okabe and Ito's palette, as in charts, and four more.
constexpr std::array group_colors = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00",
                                     "#56b4e9", "#6a3d9a", "#999933", "#b15928", "#882255"};

constexpr double stripe = 5; ///< width of a group's line

struct Group {
  std::string name;
  std::int64_t axes = 0;
};

/// a, b, ..., z, aa, ab, ...
std::string letter(std::size_t i) {
  std::string text(1, static_cast<char>('a' + static_cast<char>(i % 26)));
  return i < 26 ? text : letter(i / 26 - 1) + text;
}

/// From one point to another, straight across or down.
struct Edge {
  double x, y, length;
  bool down;
};

class Diagram {
public:
  Diagram(const std::vector<DiagramParameter>& parameters, const std::map<std::string, std::string>& notes)
      : parameters_(parameters), notes_(notes) {
    for (const DiagramParameter& parameter : parameters)
      for (const DiagramAxis& axis : parameter.axes) {
        largest_ = std::max(largest_, axis.size);
        for (const DiagramUse& use : axis.uses) count(use.group);
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
  void count(const std::string& group) {
    if (place(group) == groups_.size()) groups_.push_back({group, 0});
    ++groups_[place(group)].axes;
  }

  std::size_t place(const std::string& group) const {
    const auto found = std::find_if(groups_.begin(), groups_.end(), [&](const Group& g) { return g.name == group; });
    return static_cast<std::size_t>(found - groups_.begin());
  }

  /// Side of an axis: square roots, so that 64 and 768 fit beside each other.
  double side(std::int64_t size, double most) const {
    return std::max(24.0, most * std::sqrt(static_cast<double>(size) / static_cast<double>(largest_)));
  }

  static std::string stroke(const Edge& edge, double from, double to, double aside, const std::string& look) {
    const double x1 = edge.down ? edge.x - aside : edge.x + from * edge.length;
    const double y1 = edge.down ? edge.y + from * edge.length : edge.y - aside;
    const double x2 = edge.down ? x1 : edge.x + to * edge.length, y2 = edge.down ? edge.y + to * edge.length : y1;
    return fmt::format(R"(<line {} x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>)", look, x1, y1, x2, y2);
  }

  std::string colored(const std::string& group) const {
    return fmt::format(R"(stroke="{}" stroke-width="{:g}")", group_colors[place(group) % group_colors.size()], stripe);
  }

  static std::string text(double x, double y, const std::string& words, const char* anchor, const char* name) {
    return fmt::format(R"(<text class="{}" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>)", name, x, y, anchor,
                       escape(words));
  }

  /// The lines of an axis, one outside the other, and its letters and extent outside all of them.
  std::string drawn(const DiagramAxis& axis, const Edge& edge) const {
    std::string out, letters;
    double aside = 0;
    if (axis.uses.empty()) out = stroke(edge, 0, 1, 0, R"(class="fixed")");
    for (const DiagramUse& use : axis.uses) {
      const double last = use.last == 0 ? 1.0 : static_cast<double>(use.last) / static_cast<double>(axis.size);
      out += stroke(edge, static_cast<double>(use.first) / static_cast<double>(axis.size), last, aside,
                    colored(use.group));
      letters += letter(place(use.group)) + " ";
      aside += stripe + 1;
    }
    const std::string label = letters + fmt::format("{}", axis.size);
    const double away = 4 + std::max(aside, stripe);
    if (!edge.down) return out + text(edge.x + edge.length / 2, edge.y - away, label, "middle", "tick");
    const double x = edge.x - away, y = edge.y + edge.length / 2;
    return out +
           fmt::format(
               R"svg(<text class="tick" x="{0:.1f}" y="{1:.1f}" text-anchor="middle" transform="rotate(-90 {0:.1f} {1:.1f})">{2}</text>)svg",
               x, y, escape(label));
  }

  std::string cell(const DiagramParameter& parameter, double x, double y) const {
    std::vector<DiagramAxis> axes;
    for (const DiagramAxis& axis : parameter.axes)
      if (axis.size != 1) axes.push_back(axis);
    std::string out = text(x + 6, y + 14, shortened(parameter.name, 31), "start", "name");
    if (axes.empty()) return out + text(x + box_left, y + box_top + 10, "one number", "start", "tick");
    const bool flat = axes.size() == 1;
    const double left = x + box_left, top = y + box_top, width = side(axes.back().size, longest);
    const double height = flat ? thin : side(axes[axes.size() - 2].size, highest);
    out += fmt::format(R"(<rect class="box" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>)", left, top, width,
                       height);
    out += drawn(axes.back(), {left, top, width, false});
    return flat ? out : out + drawn(axes[axes.size() - 2], {left, top, height, true});
  }

  /// The end of a long name: that is where names differ.
  static std::string shortened(const std::string& name, std::size_t most) {
    return name.size() <= most ? name : "…" + name.substr(name.size() - most);
  }

  std::string legend(double top, double column) const {
    std::string out;
    for (std::size_t i = 0; i <= groups_.size(); ++i) {
      const std::size_t row = i / 2;
      const Edge line{8 + static_cast<double>(i % 2) * column, top + 24 * static_cast<double>(row) + 8, 30, false};
      const bool fixed = i == groups_.size();
      out += stroke(line, 0, 1, 0, fixed ? R"(class="fixed")" : colored(groups_[i].name));
      out += text(line.x + 40, line.y + 4, fixed ? "does not move" : described(i), "start", "tick");
    }
    return out;
  }

  std::string described(std::size_t i) const {
    const auto note = notes_.find(groups_[i].name);
    return fmt::format("{}   {}: {}{} {}", letter(i), shortened(groups_[i].name, 40),
                       note == notes_.end() ? "" : note->second + ", ", groups_[i].axes,
                       groups_[i].axes == 1 ? "axis" : "axes");
  }

  const std::vector<DiagramParameter>& parameters_;
  const std::map<std::string, std::string>& notes_;
  std::vector<Group> groups_;
  std::int64_t largest_ = 1;
};

std::string elements_of(const SymmetryGroup& g) {
  if (g.kind == permute::GroupKind::automorphisms) return fmt::format("automorphisms of {} places", g.size);
  if (g.copies == 1) return fmt::format("S_{}", g.size);
  return g.over.empty() ? fmt::format("S_{} wr S_{}", g.size, g.copies) : fmt::format("(S_{})^{}", g.size, g.copies);
}

/// Where the group acts along its axis: from the first of its places to the last.
DiagramUse use_of(const SymmetryGroup& group, const permute::AxisUse& use) {
  if (use.whole || use.places.empty()) return {group.name};
  return {group.name, use.places.front(), use.places.back() + 1};
}

} // namespace

std::string axis_diagram(const std::vector<DiagramParameter>& parameters,
                         const std::map<std::string, std::string>& notes) {
  return Diagram(parameters, notes).svg();
}

SymmetryDiagram diagram_of(const permute::ModelSymmetries& symmetries, const nn::StateDict& tensors, std::size_t most) {
  SymmetryDiagram diagram;
  for (const auto& [name, tensor] : tensors) {
    if (diagram.parameters.size() == most) break;
    DiagramParameter& parameter = diagram.parameters.emplace_back(DiagramParameter{name, {}});
    for (int axis = 0; axis < tensor.rank(); ++axis) parameter.axes.push_back({tensor.size(axis)});
  }
  for (const SymmetryGroup& group : symmetries.groups()) {
    if (group.kind == permute::GroupKind::trivial) continue;
    diagram.notes[group.name] = fmt::format("{}, {:.1f} bits", elements_of(group), group.log2_count);
    for (const permute::AxisUse& use : group.axes)
      for (DiagramParameter& parameter : diagram.parameters)
        if (use.role == permute::TensorRole::parameter && use.axis >= 0 && parameter.name == use.tensor)
          parameter.axes[static_cast<std::size_t>(use.axis)].uses.push_back(use_of(group, use));
  }
  return diagram;
}

} // namespace eg::report
