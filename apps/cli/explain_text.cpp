#include "apps/cli/explain_text.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <vector>

namespace eg::cli {
namespace {

using permute::Comparison;
using permute::Explanation;

constexpr std::int64_t most_rows = 12, most_columns = 12, most_slices = 3;

/// A matrix as lines of one width.
using Block = std::vector<std::string>;

/// Numbers of one matrix are written alike: with four digits after the point, or all with an exponent.
std::string number(double x, bool with_exponent) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x > 0 ? "inf" : "-inf";
  if (x == 0.0) return "0";
  return with_exponent ? fmt::format("{:.1e}", x) : fmt::format("{:.4f}", x);
}

bool is_whole(double x) { return x == std::round(x) && std::abs(x) < 1e6; }

/// Rows x columns elements from `first` on.
Block matrix(const double* first, std::int64_t rows, std::int64_t columns) {
  const double* last = first + rows * columns;
  double largest = 0.0;
  for (const double* x = first; x != last; ++x)
    if (std::isfinite(*x)) largest = std::max(largest, std::abs(*x));
  const bool whole = std::all_of(first, last, is_whole);
  const bool with_exponent = largest != 0.0 && (largest < 1e-2 || largest >= 1e5);
  const std::int64_t shown_rows = std::min(rows, most_rows), shown_columns = std::min(columns, most_columns);
  std::vector<std::string> cells;
  std::size_t width = 1;
  for (std::int64_t i = 0; i < shown_rows; ++i)
    for (std::int64_t j = 0; j < shown_columns; ++j) {
      const double x = first[i * columns + j];
      cells.push_back(whole ? fmt::format("{:.0f}", x) : number(x, with_exponent));
      width = std::max(width, cells.back().size());
    }
  Block lines;
  for (std::int64_t i = 0; i < shown_rows; ++i) {
    std::string line = "[";
    for (std::int64_t j = 0; j < shown_columns; ++j)
      line += fmt::format(" {:>{}}", cells[static_cast<std::size_t>(i * shown_columns + j)], width);
    lines.push_back(line + (columns > shown_columns ? " ... ]" : " ]"));
  }
  if (lines.empty()) lines.emplace_back("[ ]");
  return lines;
}

void append_beside(std::string& text, const std::vector<Block>& blocks, const std::string& indent) {
  for (std::size_t i = 0; i < blocks.front().size(); ++i) {
    std::string line = indent;
    for (const Block& block : blocks) line += block[i] + "   ";
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
}

class Text {
public:
  explicit Text(const ExplainStyle& style) : style_(style) {}

  void add(const Explanation& e);
  std::string take() { return std::move(text_); }

private:
  std::string coloured(const std::string& words, int colour) const {
    return style_.colours ? fmt::format("\033[{}m{}\033[0m", colour, words) : words;
  }
  std::string bold(const std::string& words) const { return coloured(words, 1); }
  std::string verdict(const std::string& words, bool good) const { return coloured(words, good ? 32 : 31); }

  void add_matrices(const Comparison& c);
  void add_slice(const double* left, const double* right, std::int64_t rows, std::int64_t columns);

  const ExplainStyle style_;
  std::string text_;
};

void Text::add_slice(const double* left, const double* right, std::int64_t rows, std::int64_t columns) {
  std::vector<double> difference;
  for (std::int64_t i = 0; i < rows * columns; ++i) difference.push_back(left[i] - right[i]);
  std::vector<Block> blocks = {matrix(left, rows, columns), matrix(right, rows, columns),
                               matrix(difference.data(), rows, columns)};
  const char* names[] = {"left", "right", "left - right"};
  std::size_t total = 2;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    Block& block = blocks[i];
    block.insert(block.begin(), names[i]);
    std::size_t width = 0;
    for (const std::string& line : block) width = std::max(width, line.size());
    for (std::string& line : block) line.resize(width, ' ');
    total += width + (i > 0 ? 3 : 0);
  }
  if (total <= style_.width)
    append_beside(text_, blocks, "  ");
  else
    for (const Block& block : blocks) append_beside(text_, {block}, "  ");
  if (rows > most_rows || columns > most_columns)
    text_ += fmt::format("  ... cut: it is {} x {}; --json gives all of it\n", rows, columns);
}

void Text::add_matrices(const Comparison& c) {
  const std::vector<double> left = permute::elements_of(c.value), right = permute::elements_of(c.expected);
  const Shape& shape = c.value.shape();
  const std::int64_t columns = shape.rank() == 0 ? 1 : shape[-1], rows = shape.rank() < 2 ? 1 : shape[-2];
  const std::int64_t size = rows * columns;
  const std::int64_t slices = size == 0 ? 0 : static_cast<std::int64_t>(left.size()) / size;
  for (std::int64_t i = 0; i < std::min(slices, most_slices); ++i) {
    if (slices > 1) {
      std::vector<std::int64_t> place; // of the slice among the leading axes
      for (std::int64_t rest = i, axis = shape.rank() - 3; axis >= 0; --axis) {
        const std::int64_t extent = shape[static_cast<int>(axis)];
        place.insert(place.begin(), rest % extent);
        rest /= extent;
      }
      text_ += fmt::format("  [{}]\n", fmt::join(place, ", "));
    }
    add_slice(left.data() + i * size, right.data() + i * size, rows, columns);
  }
  if (slices > most_slices)
    text_ += fmt::format("  ... and {} further matrices; --json gives all of them\n", slices - most_slices);
}

void Text::add(const Explanation& e) {
  const permute::VerifyResult& r = e.result;
  std::string from = r.paper.empty() ? "in no paper" : r.paper;
  if (!r.equation.empty()) from += ", equation " + r.equation;
  text_ += fmt::format("{}  ({}; {})\n\n", bold(fmt::format("{}: {}", r.id, r.title)), name_of(r.kind), from);
  text_ += fmt::format("{}\n\n  {}\n\n", e.statement, e.tex);
  std::vector<std::string> sizes;
  for (const auto& [name, value] : r.sizes) sizes.push_back(fmt::format("{} {}", name, value));
  text_ += fmt::format("{}; seed {}; {}{}\n", fmt::join(sizes, ", "), r.seed, name_of(r.dtype),
                       r.device.is_cpu() ? "" : " on " + r.device.str());
  if (!r.skipped.empty()) {
    text_ += fmt::format("\nSkipped: {}.\n", r.skipped);
    return;
  }
  if (e.holds.empty()) {
    text_ += fmt::format("\n{}\n", verdict(r.detail, false));
    return;
  }
  text_ += fmt::format("\n{} An error is the largest |left - right| over the largest |right|.\n",
                       bold("Both sides, which must agree."));
  for (const Comparison& c : e.holds) {
    const bool good = c.error <= r.tolerance;
    text_ += fmt::format(
        "\n{}: {}\n", c.what,
        verdict(fmt::format("error {:.1e}, at most {:.0e}{}", c.error, r.tolerance, c.exact ? ", to the bit" : ""),
                good));
    add_matrices(c);
  }
  text_ += fmt::format("\n{} Its largest error must exceed {:.0e}.\n", bold("The control, which must differ."),
                       r.control.must_exceed);
  for (const Comparison& c : e.control) {
    text_ += fmt::format("\n{}: {}\n", c.what,
                         verdict(fmt::format("error {:.1e}", c.error), c.error > r.control.must_exceed));
    add_matrices(c);
  }
  text_ += fmt::format("\n{}: error {:.1e} (gate {:.0e}), control {:.1e} (must exceed {:.0e})\n",
                       verdict(r.pass ? "pass" : "FAIL", r.pass), r.error, r.tolerance, r.control.error,
                       r.control.must_exceed);
}

} // namespace

std::string explanation_text(const Explanation& explanation, const ExplainStyle& style) {
  Text text(style);
  text.add(explanation);
  return text.take();
}

} // namespace eg::cli
