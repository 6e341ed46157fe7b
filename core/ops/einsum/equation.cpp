#include "core/ops/einsum/equation.h"

#include "core/base/error.h"

#include <algorithm>
#include <bit>
#include <fmt/format.h>
#include <limits>

namespace eg::einsum_notation {
namespace {

constexpr int label_count = first_unnamed + max_rank;
constexpr int dots = -1; // stands for the axes under "..."

int label_of(char letter) {
  if (letter >= 'A' && letter <= 'Z') return letter - 'A';
  if (letter >= 'a' && letter <= 'z') return 26 + letter - 'a';
  return -2;
}

[[noreturn]] void refuse(const OpArgs& args, const std::string& what) {
  throw ValueError(fmt::format("einsum: {}: '{}'", what, args.attrs.text("equation")));
}

/// Letters of one operand or of the result, `dots` for "...".
std::vector<int> letters(const OpArgs& args, std::string_view text) {
  std::vector<int> list;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ') continue;
    if (text.substr(i, 3) == "...") {
      if (std::find(list.begin(), list.end(), dots) != list.end()) refuse(args, "'...' stands twice in one operand");
      list.push_back(dots);
      i += 2;
      continue;
    }
    const int label = label_of(text[i]);
    if (label < 0) refuse(args, fmt::format("'{}' is neither a letter nor '...', ',' or '->'", text[i]));
    list.push_back(label);
  }
  return list;
}

std::vector<std::vector<int>> split(const OpArgs& args, std::string_view text) {
  std::vector<std::vector<int>> list;
  while (true) {
    const std::size_t comma = text.find(',');
    list.push_back(letters(args, text.substr(0, comma)));
    if (comma == std::string_view::npos) return list;
    text.remove_prefix(comma + 1);
  }
}

int unnamed_axes(const OpArgs& args, const std::vector<int>& written, std::size_t i) {
  const int rank = args.in[i].rank();
  const int unnamed = rank - static_cast<int>(written.size()) + 1;
  const bool has_dots = std::find(written.begin(), written.end(), dots) != written.end();
  if (has_dots ? unnamed < 0 : unnamed != 1)
    throw ShapeError(fmt::format("einsum: operand {} has {} axes, '{}' names {}: it is {}", i, rank,
                                 args.attrs.text("equation"), written.size() - (has_dots ? 1 : 0),
                                 args.in[i].shape().str()));
  return has_dots ? unnamed : 0;
}

/// `dots` replaced by the last `count` of the `most` unnamed labels, so that they align at the right.
std::vector<int> spelled_out(const std::vector<int>& written, int count, int most) {
  std::vector<int> list;
  for (const int label : written) {
    if (label != dots) list.push_back(label);
    for (int k = most - count; label == dots && k < most; ++k) list.push_back(first_unnamed + k);
  }
  return list;
}

/// Letters that occur once, in order, after the unnamed axes.
std::vector<int> implicit_result(const std::vector<std::vector<int>>& operands, int unnamed) {
  std::vector<int> times(first_unnamed, 0);
  for (const std::vector<int>& operand : operands)
    for (const int label : operand)
      if (label >= 0 && label < first_unnamed) ++times[static_cast<std::size_t>(label)];
  std::vector<int> result;
  for (int k = 0; k < unnamed; ++k) result.push_back(first_unnamed + k);
  for (int label = 0; label < first_unnamed; ++label)
    if (times[static_cast<std::size_t>(label)] == 1) result.push_back(label);
  return result;
}

/// Extents agree or are 1; within one operand they agree.
void find_extents(const OpArgs& args, Equation& e) {
  e.extents.assign(label_count, -1);
  for (std::size_t i = 0; i < e.operands.size(); ++i)
    for (std::size_t axis = 0; axis < e.operands[i].size(); ++axis) {
      const int label = e.operands[i][axis];
      const std::int64_t extent = args.in[i].shape()[static_cast<int>(axis)];
      for (std::size_t before = 0; before < axis; ++before)
        if (e.operands[i][before] == label && args.in[i].shape()[static_cast<int>(before)] != extent)
          throw ShapeError(fmt::format("einsum: {} repeats in operand {} with different extents: it is {}",
                                       name_of(label), i, args.in[i].shape().str()));
      std::int64_t& known = e.extents[static_cast<std::size_t>(label)];
      if (known >= 0 && known != extent && known != 1 && extent != 1)
        throw ShapeError(fmt::format("einsum: {} is {} and {}: operand {} is {}, equation '{}'", name_of(label), known,
                                     extent, i, args.in[i].shape().str(), args.attrs.text("equation")));
      if (known < 0 || known == 1) known = extent;
    }
}

void check_result(const OpArgs& args, const Equation& e) {
  Labels seen = 0;
  for (const int label : e.result) {
    if (holds(seen, label)) refuse(args, fmt::format("{} stands twice in the result", name_of(label)));
    seen |= only(label);
    if (e.extents[static_cast<std::size_t>(label)] < 0)
      refuse(args, fmt::format("{} is in the result and in no operand", name_of(label)));
  }
  if (e.result.size() > static_cast<std::size_t>(max_rank))
    throw ShapeError(fmt::format("einsum: the result would have {} axes, at most {} are possible: '{}'",
                                 e.result.size(), max_rank, args.attrs.text("equation")));
}

} // namespace

std::string name_of(int label) {
  if (label >= first_unnamed) return "an axis under '...'";
  return fmt::format("'{}'", static_cast<char>(label < 26 ? 'A' + label : 'a' + label - 26));
}

Labels Equation::labels_of(std::size_t i, const Shape& shape) const {
  Labels set = 0;
  for (std::size_t axis = 0; axis < operands[i].size(); ++axis) {
    const int label = operands[i][axis];
    if (shape[static_cast<int>(axis)] == extents[static_cast<std::size_t>(label)]) set |= only(label);
  }
  return set;
}

Labels Equation::result_labels() const {
  Labels set = 0;
  for (const int label : result) set |= only(label);
  return set;
}

double Equation::size(Labels labels) const {
  double product = 1;
  for (int label = 0; label < label_count; ++label)
    if (holds(labels, label)) product *= static_cast<double>(extents[static_cast<std::size_t>(label)]);
  return product;
}

Equation equation_of(const OpArgs& args) {
  const std::string& text = args.attrs.text("equation");
  const std::size_t arrow = text.find("->");
  const std::vector<std::vector<int>> written = split(args, std::string_view(text).substr(0, arrow));
  if (written.size() != args.in.size())
    refuse(args, fmt::format("{} operands were given, the equation names {}", args.in.size(), written.size()));
  std::vector<int> counts;
  for (std::size_t i = 0; i < written.size(); ++i) counts.push_back(unnamed_axes(args, written[i], i));
  const int unnamed = *std::max_element(counts.begin(), counts.end());
  Equation e;
  for (std::size_t i = 0; i < written.size(); ++i) e.operands.push_back(spelled_out(written[i], counts[i], unnamed));
  e.result = arrow == std::string::npos
                 ? implicit_result(written, unnamed)
                 : spelled_out(letters(args, std::string_view(text).substr(arrow + 2)), unnamed, unnamed);
  find_extents(args, e);
  check_result(args, e);
  return e;
}

std::vector<Step> plan(const OpArgs& args, const Equation& e) {
  const std::string& order = args.attrs.text("order");
  if (order != "left_to_right" && order != "greedy")
    throw ValueError(fmt::format("einsum: order is '{}'; it must be left_to_right or greedy", order));
  std::vector<Labels> sets;
  for (std::size_t i = 0; i < args.in.size(); ++i) sets.push_back(e.labels_of(i, args.in[i].shape()));
  const auto needed_beside = [&](std::size_t a, std::size_t b) {
    Labels needed = e.result_labels();
    for (std::size_t k = 0; k < sets.size(); ++k)
      if (k != a && k != b) needed |= sets[k];
    return needed;
  };
  for (std::size_t i = 0; i < sets.size(); ++i) sets[i] &= needed_beside(i, i); // the rest is summed beforehand
  std::vector<Step> steps;
  while (sets.size() > 1) {
    Step best{0, 1, 0, e.size(sets[0] | sets[1])};
    if (order == "greedy")
      for (std::size_t a = 0; a < sets.size(); ++a)
        for (std::size_t b = a + 1; b < sets.size(); ++b)
          if (const double cost = e.size(sets[a] | sets[b]); cost < best.multiplications) best = {a, b, 0, cost};
    best.result = (sets[best.left] | sets[best.right]) & needed_beside(best.left, best.right);
    if (std::popcount(best.result) > max_rank)
      throw ShapeError(fmt::format("einsum: a product on the way would have {} axes, at most {} are possible: '{}'",
                                   std::popcount(best.result), max_rank, args.attrs.text("equation")));
    sets[best.left] = best.result;
    sets.erase(sets.begin() + static_cast<std::ptrdiff_t>(best.right));
    steps.push_back(best);
  }
  return steps;
}

} // namespace eg::einsum_notation
