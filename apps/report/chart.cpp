#include "apps/report/chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>

namespace eg::report {
namespace {

constexpr double width = 720;
constexpr double height = 330;
constexpr double left = 74;
constexpr double right = 16;
constexpr double top = 14;
constexpr double bottom = 48;
constexpr const char* dashes = R"( stroke-dasharray="7 6")";
constexpr const char* half = R"( stroke-opacity="0.5")";

/// Okabe and Ito's palette, which any colour vision can distinguish.
constexpr std::array colors = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"};

const char* color_of(const Chart& chart, std::size_t i) {
  const int place = chart.series[i].color;
  return colors[(place >= 0 ? static_cast<std::size_t>(place) : i) % colors.size()];
}

struct Range {
  double low = 0;
  double high = 1;

  double span() const { return high - low; }
};

struct Points {
  std::vector<double> x, y;
};

/// The finite points of a series, y in decades where the axis is logarithmic.
Points drawable(const Series& series, bool log_y) {
  Points points;
  for (std::size_t i = 0; i < std::min(series.x.size(), series.y.size()); ++i) {
    const double y = log_y ? std::log10(series.y[i]) : series.y[i];
    if (!std::isfinite(series.x[i]) || !std::isfinite(y)) continue;
    points.x.push_back(series.x[i]);
    points.y.push_back(y);
  }
  return points;
}

Range range_of(const std::vector<std::vector<double>>& lists, double least_span) {
  Range range{INFINITY, -INFINITY};
  for (const std::vector<double>& list : lists)
    for (const double value : list) {
      range.low = std::min(range.low, value);
      range.high = std::max(range.high, value);
    }
  if (range.span() < least_span) {
    const double middle = (range.low + range.high) / 2;
    range = {middle - least_span / 2, middle + least_span / 2};
  }
  return range;
}

/// 1, 2 or 5 times a power of ten, so that about five ticks fit.
double tick_step(double span) {
  const double rough = span / 5;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= rough) return factor * power;
  return 10 * power;
}

/// Whole decades around the values, so that at least two powers of ten are labelled.
Range decades(const Range& range) {
  const Range whole{std::floor(range.low), std::ceil(range.high)};
  return whole.span() > 0 ? whole : Range{whole.low, whole.high + 1};
}

bool whole_numbers(const std::vector<std::vector<double>>& lists) {
  for (const std::vector<double>& list : lists)
    if (std::any_of(list.begin(), list.end(), [](double value) { return value != std::floor(value); })) return false;
  return true;
}

std::vector<double> ticks(const Range& range, bool whole) {
  const double step = whole ? std::max(1.0, std::ceil(tick_step(range.span()))) : tick_step(range.span());
  std::vector<double> values;
  for (double value = std::ceil(range.low / step) * step; value <= range.high + step * 1e-9; value += step)
    values.push_back(std::abs(value) < step * 1e-9 ? 0.0 : value);
  return values;
}

class Plot {
public:
  Plot(const Range& x, bool whole_x, const Range& y) : x_(x), y_(y), whole_x_(whole_x) {}
  double at_x(double value) const { return left + (value - x_.low) / x_.span() * (width - left - right); }
  double at_y(double value) const { return height - bottom - (value - y_.low) / y_.span() * (height - top - bottom); }

  std::string axes(const Chart& chart) const {
    std::string out;
    for (const double value : ticks(x_, whole_x_))
      out += fmt::format(R"(<text class="tick" x="{:.1f}" y="{:.1f}" text-anchor="middle">{:g}</text>)", at_x(value),
                         height - bottom + 18, value);
    for (const double value : ticks(y_, chart.log_y)) {
      const double y = at_y(value);
      out += fmt::format(R"(<line class="grid" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>)", left, y,
                         width - right, y);
      out += fmt::format(R"(<text class="tick" x="{:.1f}" y="{:.1f}" text-anchor="end">{}</text>)", left - 8, y + 4,
                         chart.log_y ? fmt::format("1e{:g}", value) : fmt::format("{:g}", value));
    }
    out += fmt::format(R"(<line class="axis" x1="{0:.1f}" y1="{1:.1f}" x2="{2:.1f}" y2="{1:.1f}"/>)", left,
                       height - bottom, width - right);
    out += fmt::format(R"(<text class="label" x="{:.1f}" y="{:.1f}" text-anchor="middle">{}</text>)",
                       (left + width - right) / 2, height - 8, escape(chart.x_label));
    const double middle = (top + height - bottom) / 2;
    out += fmt::format(
        R"svg(<text class="label upright" x="16" y="{0:.1f}" text-anchor="middle" transform="rotate(-90 16 {0:.1f})">{1}</text>)svg",
        middle, escape(chart.y_label));
    return out;
  }

  std::string line(const Points& points, const Series& series, const char* color) const {
    std::string path;
    for (std::size_t i = 0; i < points.x.size(); ++i)
      path += fmt::format("{}{:.1f} {:.1f}", i == 0 ? "M" : " L", at_x(points.x[i]), at_y(points.y[i]));
    std::string out = fmt::format(R"(<path d="{}" fill="none" stroke="{}" stroke-width="{}"{}{}/>)", path, color,
                                  series.width, series.dashed ? dashes : "", series.faint ? half : "");
    for (std::size_t i = 0; series.dots && i < points.x.size(); ++i)
      out += fmt::format(R"(<circle cx="{:.1f}" cy="{:.1f}" r="2.8" fill="{}"/>)", at_x(points.x[i]), at_y(points.y[i]),
                         color);
    return out;
  }

private:
  Range x_, y_;
  bool whole_x_;
};

} // namespace

std::string escape(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
    case '&':
      out += "&amp;";
      break;
    case '<':
      out += "&lt;";
      break;
    case '>':
      out += "&gt;";
      break;
    case '"':
      out += "&quot;";
      break;
    default:
      out += c;
    }
  }
  return out;
}

namespace {

/// What is in the chart's box, 720 x 330 units.
std::string drawing(const Chart& chart) {
  std::vector<Points> lines;
  std::vector<std::vector<double>> xs;
  std::vector<std::vector<double>> ys;
  for (const Series& series : chart.series) {
    lines.push_back(drawable(series, chart.log_y));
    xs.push_back(lines.back().x);
    ys.push_back(lines.back().y);
  }
  const bool empty = std::all_of(xs.begin(), xs.end(), [](const auto& list) { return list.empty(); });
  if (empty) return fmt::format(R"(<text class="tick" x="{:g}" y="{:g}">no points</text>)", left, height / 2);
  const bool whole_x = whole_numbers(xs);
  const Range y = range_of(ys, 0.0);
  const double least_y = 0.01 * std::max(std::abs(y.low), std::abs(y.high)); // a level line, not its rounding
  const Plot plot(range_of(xs, whole_x ? 2.0 : 1e-9), whole_x,
                  chart.log_y ? decades(y) : range_of(ys, std::max(1e-9, least_y)));
  std::string out = plot.axes(chart);
  for (std::size_t i = 0; i < lines.size(); ++i) out += plot.line(lines[i], chart.series[i], color_of(chart, i));
  return out;
}

/// What ends the text of an <svg> element's role and name.
std::string named(const Chart& chart) {
  return fmt::format(R"(role="img" aria-label="{}">)", escape(chart.title.empty() ? "chart" : chart.title));
}

std::string piece_of_line(const Chart& chart, std::size_t i, double x, double y) {
  const Series& series = chart.series[i];
  return fmt::format(R"(<line x1="{0:g}" y1="{1:g}" x2="{2:g}" y2="{1:g}" stroke="{3}" stroke-width="{4}"{5}{6}/>)", x,
                     y, x + 26, color_of(chart, i), series.width, series.dashed ? dashes : "",
                     series.faint ? half : "");
}

} // namespace

std::string svg(const Chart& chart) {
  return fmt::format(R"(<svg class="chart" viewBox="0 0 {:g} {:g}" {}{}</svg>)", width, height, named(chart),
                     drawing(chart));
}

std::string picture(const Chart& chart) {
  constexpr double row = 20, head = 20, letter = 8; // of the font below, about
  std::string names;
  double x = left, y = height + 18;
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    const std::string& name = chart.series[i].name;
    const double needed = 48 + letter * static_cast<double>(name.size());
    if (x + needed > width && x > left) {
      x = left;
      y += row;
    }
    names += piece_of_line(chart, i, x, y - 4) +
             fmt::format(R"(<text x="{:g}" y="{:g}">{}</text>)", x + 32, y, escape(name));
    x += needed;
  }
  const double upper = chart.title.empty() ? 0.0 : -head;
  const std::string title =
      chart.title.empty() ? ""
                          : fmt::format(R"(<text class="title" x="{:g}" y="-4">{}</text>)", left, escape(chart.title));
  return fmt::format(R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0:g}" viewBox="0 {1:g} {0:g} {2:g}" {3}<style>)"
                     "text{{font:13px sans-serif;fill:currentColor}}.grid{{stroke:#8884;stroke-width:1}}"
                     ".axis{{stroke:currentColor;stroke-width:1}}.title{{font-weight:600}}</style>{4}{5}{6}</svg>",
                     width, upper, y + 10 - upper, named(chart), title, drawing(chart), names);
}

std::string legend(const Chart& chart) {
  std::string out = "<div class=\"legend-of-chart\">";
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    out += fmt::format(
        R"(<span><svg class="key" viewBox="0 0 26 8" width="26" height="8" aria-hidden="true">{}</svg> {}</span>)",
        piece_of_line(chart, i, 0, 4), escape(chart.series[i].name));
  }
  return out + "</div>";
}

} // namespace eg::report
