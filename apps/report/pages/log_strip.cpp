#include "apps/report/pages/log_strip.h"

#include "apps/report/chart.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace eg::report {
namespace {

constexpr double strip_width = 520;
constexpr double strip_left = 52;
constexpr double before = 10; ///< the zone of an error of 0 begins left of the axis
constexpr double strip_right = 14;
constexpr double line_height = 30;
constexpr double foot = 22;
constexpr double least = -18; ///< decades at the ends of the axis
constexpr double largest = 3;

double at(double value) {
  const double decade = value > 0 ? std::log10(value) : value == 0 ? least : largest;
  const double inside = std::isfinite(decade) ? std::clamp(decade, least, largest) : largest;
  return strip_left + (inside - least) / (largest - least) * (strip_width - strip_left - strip_right);
}

std::string zone(const char* name, double from, double to, double top) {
  return fmt::format(R"(<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>)", name, from, top,
                     std::max(0.0, to - from), line_height - 8);
}

std::string dot(double x, double y, bool good) {
  return fmt::format(R"(<circle class="error{}" cx="{:.1f}" cy="{:.1f}" r="5.5"/>)", good ? "" : " off", x, y);
}

std::string diamond(double x, double y, bool good) {
  return fmt::format(
      R"(<path class="control{0}" d="M{1:.1f} {3:.1f} L{2:.1f} {4:.1f} L{1:.1f} {5:.1f} L{6:.1f} {4:.1f} Z"/>)",
      good ? "" : " off", x, x + 6.5, y - 6.5, y, y + 6.5, x - 6.5);
}

std::string line(const Measured& m, double top) {
  const double middle = top + line_height / 2;
  std::string out = zone("allowed", strip_left - before, at(m.tolerance), top + 4);
  out += zone("wrong", at(m.must_exceed), strip_width - strip_right, top + 4);
  out += fmt::format(R"(<text class="tick" x="{:.1f}" y="{:.1f}" text-anchor="end">{}</text>)", strip_left - before - 6,
                     middle + 4, escape(m.label));
  out += dot(at(m.error), middle, m.error <= m.tolerance);
  return out + diamond(at(m.control), middle, m.control > m.must_exceed);
}

} // namespace

std::string log_strip(const std::vector<Measured>& lines) {
  const double bottom = 2 + line_height * static_cast<double>(lines.size());
  std::string label;
  for (const Measured& m : lines)
    label += fmt::format("{}{}: error {:.2g}, tolerance {:.2g}, control {:.2g}", label.empty() ? "" : "; ", m.label,
                         m.error, m.tolerance, m.control);
  std::string out = fmt::format(R"(<svg class="strip" viewBox="0 0 {:g} {:g}" role="img" aria-label="{}">)",
                                strip_width, bottom + foot, escape(label));
  for (int decade = static_cast<int>(least); decade <= static_cast<int>(largest); decade += 3) {
    const double x = at(std::pow(10.0, decade));
    out += fmt::format(R"(<line class="grid" x1="{0:.1f}" y1="2" x2="{0:.1f}" y2="{1:.1f}"/>)", x, bottom);
    const std::string text = decade == 0 ? "1" : decade == static_cast<int>(least) ? "0" : fmt::format("1e{}", decade);
    out +=
        fmt::format(R"(<text class="tick" x="{:.1f}" y="{:.1f}" text-anchor="middle">{}</text>)", x, bottom + 16, text);
  }
  double top = 2;
  for (const Measured& m : lines) {
    out += line(m, top);
    top += line_height;
  }
  return out + "</svg>";
}

} // namespace eg::report
