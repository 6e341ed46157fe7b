#include "picture.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <fmt/format.h>
#include <stdexcept>

namespace pictures {

namespace {

constexpr double cell_width = 37, cell_height = 22, row_names = 20, arrow_width = 56, margin = 12, heading_height = 22,
                 title_height = 20, column_names = 15, line_gap = 14, verdict_height = 20;
/// Colours are rounded to this many steps, so that a last bit does not change a file.
constexpr double steps = 32.0;

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else
      out += c;
  }
  return out;
}

/// Escaped, with what follows an underline (letters, one other character, or brackets) set lower: P_R, Enc_(C).
std::string with_subscripts(const std::string& text) {
  std::string out;
  bool lowered = false; // the next character goes back to the line
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] != '_') {
      const std::size_t end = std::min(text.find('_', i), text.size());
      const std::string plain = escaped(text.substr(i, end - i));
      out += lowered ? "<tspan dy=\"-3\">" + plain + "</tspan>" : plain;
      lowered = false;
      i = end;
      continue;
    }
    std::size_t end = i + 1;
    if (text[end] == '(') {
      end = text.find(')', end) + 1;
    } else {
      while (end < text.size() && std::isalpha(static_cast<unsigned char>(text[end])) != 0) ++end;
      if (end == i + 1) ++end;
      while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80)
        ++end; // bytes of one character
    }
    out += fmt::format("<tspan dy=\"{}\" class=\"low\">{}</tspan>", lowered ? 0 : 3,
                       escaped(text.substr(i + 1, end - i - 1)));
    lowered = true;
    i = end;
  }
  return out;
}

/// A number in at most five characters, with a true minus.
std::string number(double value, double largest) {
  if (std::isinf(value)) return value < 0.0 ? "−∞" : "∞";
  const int digits = largest >= 1.0 ? 1 : 2;
  std::string text = fmt::format("{:.{}f}", value, digits);
  if (std::all_of(text.begin(), text.end(), [](char c) { return c == '-' || c == '0' || c == '.'; })) return "0";
  if (text.front() == '-') text = "−" + text.substr(1);
  return text;
}

/// How many characters a text shows.
double length(const std::string& text) {
  return static_cast<double>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string cell(double value, double largest, double x, double y) {
  const std::string box = fmt::format("d=\"M{} {}h{}v{}h-{}z\"", x, y, cell_width - 1, cell_height - 1, cell_width - 1);
  if (std::isinf(value)) return fmt::format("<path class=\"closed\" {}/>\n", box);
  const double strength = largest > 0.0 ? std::round(std::abs(value) / largest * steps) / steps : 0.0;
  if (strength == 0.0) return fmt::format("<path class=\"cell\" {}/>\n", box);
  return fmt::format("<path class=\"cell {}\" {} fill-opacity=\"{:.2f}\"/>\n", value < 0.0 ? "minus" : "plus", box,
                     0.85 * strength);
}

std::int64_t rows_of(const Matrix& m) { return m.values.rank() == 1 ? 1 : m.values.size(0); }
std::int64_t columns_of(const Matrix& m) { return m.values.size(-1); }

/// Of the cells and the names beside them, or of the name above them.
double width_of(const Matrix& m, const std::string& name) {
  const double names = m.rows.empty() ? 0.0 : row_names;
  return std::max(names + cell_width * static_cast<double>(columns_of(m)),
                  names + (cell_width * static_cast<double>(columns_of(m)) + 8.0 * length(name)) / 2);
}
double height_of(const Matrix& m) {
  return title_height + (m.columns.empty() ? 0.0 : column_names) + cell_height * static_cast<double>(rows_of(m));
}

std::string drawn(const std::string& name, const Matrix& m, double largest, double x, double y) {
  const std::vector<double> values = m.values.to_vector<double>();
  const double left = x + (m.rows.empty() ? 0.0 : row_names), columns = static_cast<double>(columns_of(m));
  std::string out = fmt::format("<text class=\"name\" x=\"{}\" y=\"{}\">{}</text>\n", left + cell_width * columns / 2,
                                y + title_height - 6, with_subscripts(name));
  double top = y + title_height;
  if (!m.columns.empty()) {
    for (std::size_t j = 0; j < m.columns.size(); ++j)
      out += fmt::format("<text class=\"label\" x=\"{}\" y=\"{}\">{}</text>\n",
                         left + cell_width * (static_cast<double>(j) + 0.5), top + column_names - 4,
                         escaped(m.columns[j]));
    top += column_names;
  }
  for (std::size_t i = 0; i < m.rows.size(); ++i)
    out += fmt::format("<text class=\"label\" x=\"{}\" y=\"{}\">{}</text>\n", left - row_names / 2,
                       top + cell_height * (static_cast<double>(i) + 0.5) + 3.5, escaped(m.rows[i]));
  std::string texts;
  for (std::int64_t i = 0; i < rows_of(m); ++i)
    for (std::int64_t j = 0; j < columns_of(m); ++j) {
      const double value = values[static_cast<std::size_t>(i * columns_of(m) + j)];
      const double at_x = left + cell_width * static_cast<double>(j), at_y = top + cell_height * static_cast<double>(i);
      out += cell(value, largest, at_x, at_y);
      texts += fmt::format("<text x=\"{}\" y=\"{}\">{}</text>", at_x + (cell_width - 1) / 2,
                           at_y + cell_height / 2 + 3.5, number(value, largest));
    }
  return out + "<g class=\"number\">" + texts + "</g>\n";
}

Labels gathered(const Labels& names, const eg::permute::Permutation& p) {
  Labels out;
  for (std::size_t i = 0; i < names.size(); ++i)
    out.push_back(names[static_cast<std::size_t>(p[static_cast<std::int64_t>(i)])]);
  return out;
}

const char* const style = R"(<style>
  text { font-family: sans-serif; fill: #1b1f24; text-anchor: middle }
  .card { fill: #ffffff; stroke: #d0d7de } .cell { fill: none; stroke: #d0d7de } .closed { fill: #8b949e; fill-opacity: 0.35; stroke: #8b949e }
  .minus { fill: #2f81d6 } .plus { fill: #e8872b }
  .number { font-size: 10.5px } .label { font-size: 11px; fill: #57606a } .name { font-size: 12.5px; font-weight: bold }
  .low { font-size: 75% }
  .heading, .verdict { font-size: 12.5px; text-anchor: start } .heading { fill: #57606a } .arrow { fill: none; stroke: #57606a; stroke-width: 1.4 }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f3f6 } .card { fill: #0d1117; stroke: #30363d } .cell { stroke: #30363d } .closed { stroke: #484f58 }
    .minus { fill: #2a6fbd } .plus { fill: #b8651a }
    .label, .heading { fill: #9da7b3 } .arrow { stroke: #9da7b3 }
  }
</style>
)";

} // namespace

Labels numbers(std::int64_t count) {
  Labels names;
  for (std::int64_t i = 1; i <= count; ++i) names.push_back(std::to_string(i));
  return names;
}

Labels letters(std::int64_t count, char first) {
  Labels names;
  for (std::int64_t i = 0; i < count; ++i) names.emplace_back(1, static_cast<char>(first + i));
  return names;
}

Matrix permute_rows(const Matrix& x, const eg::permute::Permutation& p) {
  return {p.apply(x.values, 0), gathered(x.rows, p), x.columns};
}

Matrix permute_columns(const Matrix& x, const eg::permute::Permutation& p) {
  return {p.apply(x.values, -1), x.rows, gathered(x.columns, p)};
}

Picture& Picture::line(std::string heading) {
  lines_.push_back({std::move(heading), {}});
  return *this;
}

Picture& Picture::add(std::string name, Matrix matrix, std::string arrow, int scale) {
  matrix.values = matrix.values.clone();
  lines_.back().panels.push_back({std::move(name), std::move(arrow), std::move(matrix), scale});
  return *this;
}

Picture& Picture::equal(std::string what, const eg::Tensor& a, const eg::Tensor& b) {
  if (!(eg::relative_error(a, b) <= 1e-11)) throw std::logic_error(id_ + ": not equal: " + what);
  verdicts_.push_back({true, std::move(what)});
  return *this;
}

Picture& Picture::differ(std::string what, const eg::Tensor& a, const eg::Tensor& b) {
  if (!(eg::relative_error(a, b) > 1e-2)) throw std::logic_error(id_ + ": equal: " + what);
  verdicts_.push_back({false, std::move(what)});
  return *this;
}

double Picture::largest(int scale) const {
  double value = 0.0;
  for (const Line& line : lines_)
    for (const Panel& panel : line.panels)
      if (panel.scale == scale)
        for (const double x : panel.matrix.values.to_vector<double>())
          if (std::isfinite(x)) value = std::max(value, std::abs(x));
  return value;
}

std::string Picture::svg() const {
  std::string body;
  double y = margin, width = 0.0;
  std::string description;
  for (const Line& line : lines_) {
    double height = 0.0, x = margin;
    for (const Panel& panel : line.panels) height = std::max(height, height_of(panel.matrix));
    body += fmt::format("<text class=\"heading\" x=\"{}\" y=\"{}\">{}</text>\n", margin, y + heading_height - 8,
                        with_subscripts(line.heading));
    width = std::max(width, margin + 6.8 * length(line.heading));
    y += heading_height;
    description += line.heading + ": ";
    for (std::size_t i = 0; i < line.panels.size(); ++i) {
      const Panel& panel = line.panels[i];
      if (i > 0) {
        const double wide = std::max(arrow_width, 6.5 * length(panel.arrow) + 20.0);
        const double at = y + title_height + (height - title_height) / 2 + 4;
        if (!panel.arrow.empty())
          body += fmt::format("<path class=\"arrow\" d=\"M{} {}h{}m-6 -4l6 4l-6 4\"/><text class=\"label\" x=\"{}\" "
                              "y=\"{}\">{}</text>\n",
                              x + 8, at, wide - 16, x + wide / 2, at - 7, with_subscripts(panel.arrow));
        description += panel.arrow.empty() ? ", " : ", then " + panel.arrow + ", ";
        x += panel.arrow.empty() ? arrow_width / 2 : wide;
      }
      body += drawn(panel.name, panel.matrix, largest(panel.scale), x, y);
      description += panel.name;
      x += width_of(panel.matrix, panel.name);
    }
    description += ". ";
    width = std::max(width, x);
    y += height + line_gap;
  }
  for (const Verdict& verdict : verdicts_) {
    const std::string text = fmt::format("{} {}", verdict.equal ? "=" : "≠", verdict.what);
    body += fmt::format("<text class=\"verdict\" x=\"{}\" y=\"{}\">{}</text>\n", margin, y + verdict_height - 8,
                        with_subscripts(text));
    description += (verdict.equal ? "Equal: " : "Different: ") + verdict.what + ". ";
    width = std::max(width, margin + 7.0 * length(text));
    y += verdict_height;
  }
  width += margin;
  y += margin / 2;
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\" role=\"img\" aria-labelledby=\"title description\">\n"
      "<title id=\"title\">{2}</title>\n<desc id=\"description\">{3}</desc>\n{4}"
      "<rect class=\"card\" x=\"0.5\" y=\"0.5\" width=\"{5:.0f}\" height=\"{6:.0f}\" rx=\"6\"/>\n{7}</svg>\n",
      width, y, escaped(title_), escaped(description), style, width - 1, y - 1, body);
}

std::vector<Picture> all() {
  std::vector<Picture> pictures;
  for (const auto& scenes : {of_parts(), of_blocks(), of_groups()})
    pictures.insert(pictures.end(), scenes.begin(), scenes.end());
  std::sort(pictures.begin(), pictures.end(), [](const Picture& a, const Picture& b) { return a.id() < b.id(); });
  return pictures;
}

} // namespace pictures
