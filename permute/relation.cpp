#include "permute/relation.h"

#include "core/base/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

namespace eg::permute {
namespace {

constexpr std::int64_t most_tokens = 2048; // memory grows with the square: 100 MB

/// Numbers for different values, in the order of the values.
template <class Key> std::vector<std::int32_t> numbered(const std::vector<Key>& keys) {
  std::map<Key, std::int32_t> numbers;
  for (const Key& key : keys) numbers.emplace(key, 0);
  std::int32_t next = 0;
  for (auto& [key, number] : numbers) number = next++;
  std::vector<std::int32_t> result;
  result.reserve(keys.size());
  for (const Key& key : keys) result.push_back(numbers.at(key));
  return result;
}

/// A hash of three numbers (SplitMix64's last steps).
std::uint64_t mixed(std::int32_t a, std::int32_t b, std::int32_t c) {
  std::uint64_t x = static_cast<std::uint32_t>(a) * 0x9e3779b97f4a7c15U + static_cast<std::uint32_t>(b);
  x = x * 0xbf58476d1ce4e5b9U + static_cast<std::uint32_t>(c);
  x = (x ^ x >> 30U) * 0xbf58476d1ce4e5b9U;
  x = (x ^ x >> 27U) * 0x94d049bb133111ebU;
  return x ^ x >> 31U;
}

using Part = std::pair<std::int32_t, std::uint64_t>; // colour, what is seen
using Parts = std::map<Part, std::vector<std::size_t>>;

/// A part of a colour class that gets a colour of its own.
struct Split {
  Part part;
  std::int32_t colour;
};

/// New colours, from `next` on, for all parts of a class but its largest, so that a point changes its colour at most
/// log2(n) times (Hopcroft, 1971).
std::vector<Split> splits_of(const Parts& parts, std::int32_t& next) {
  std::vector<Split> splits;
  for (auto first = parts.begin(); first != parts.end();) {
    const auto last =
        std::find_if(first, parts.end(), [&](const auto& p) { return p.first.first != first->first.first; });
    const auto kept =
        std::max_element(first, last, [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    for (; first != last; ++first)
      if (first != kept) splits.push_back({first->first, next++});
  }
  return splits;
}

} // namespace

void check_mask(const Tensor& mask) {
  if (mask.rank() < 2 || mask.size(-1) != mask.size(-2))
    throw ShapeError(fmt::format("automorphisms: a mask is [..., tokens, tokens], not {}", mask.shape().str()));
  if (mask.size(-1) > most_tokens)
    throw ValueError(fmt::format("automorphisms: a mask of {} tokens; {} are the most", mask.size(-1), most_tokens));
  if (mask.dtype() == DType::i64) throw DTypeError("automorphisms: a mask is floating, u8 or bool, not i64");
}

Relation Relation::of(const Tensor& mask) {
  check_mask(mask);
  const std::int64_t n = mask.size(-1), cells = n * n, slices = cells == 0 ? 0 : mask.numel() / cells;
  const std::vector<double> values = mask.to(DType::f64).to_vector<double>();
  std::vector<std::int32_t> classes(static_cast<std::size_t>(cells), 0);
  for (std::int64_t s = 0; s < slices; ++s) {
    std::vector<std::pair<std::int32_t, double>> keys;
    keys.reserve(classes.size());
    for (std::size_t i = 0; i < classes.size(); ++i) {
      const double value = values[static_cast<std::size_t>(s * cells) + i];
      if (std::isnan(value)) throw ValueError("automorphisms: the mask holds NaN");
      keys.emplace_back(classes[i], value + 0.0); // -0 is 0
    }
    classes = numbered(keys);
  }
  Relation::Points colours(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < colours.size(); ++i) {
    std::int32_t& diagonal = classes[i * colours.size() + i];
    colours[i] = std::exchange(diagonal, 0);
  }
  return {numbered(colours), std::move(classes)};
}

bool Relation::is_automorphism(const Relation::Points& map) const {
  for (std::size_t i = 0; i < size(); ++i) {
    const auto to = static_cast<std::size_t>(map[i]);
    if (colours_[i] != colours_[to]) return false;
    for (std::size_t j = 0; j < size(); ++j)
      if (pair(i, j) != pair(to, static_cast<std::size_t>(map[j]))) return false;
  }
  return true;
}

bool Relation::are_twins(std::size_t i, std::size_t j) const {
  if (colours_[i] != colours_[j] || pair(i, j) != pair(j, i)) return false;
  for (std::size_t k = 0; k < size(); ++k)
    if (k != i && k != j && (pair(i, k) != pair(j, k) || pair(k, i) != pair(k, j))) return false;
  return true;
}

std::vector<Relation::Points> Relation::twins() const {
  std::vector<Relation::Points> classes;
  for (std::size_t i = 0; i < size(); ++i) {
    const auto home = std::find_if(classes.begin(), classes.end(), [&](const Relation::Points& c) {
      return are_twins(static_cast<std::size_t>(c.front()), i);
    });
    if (home == classes.end())
      classes.push_back({static_cast<std::int32_t>(i)});
    else
      home->push_back(static_cast<std::int32_t>(i));
  }
  return classes;
}

Relation Relation::quotient(const std::vector<Relation::Points>& classes) const {
  std::vector<std::array<std::int32_t, 3>> kinds; // colour, members, the colour between two members
  kinds.reserve(classes.size());
  for (const Relation::Points& c : classes)
    kinds.push_back({colours_[static_cast<std::size_t>(c[0])], static_cast<std::int32_t>(c.size()),
                     c.size() > 1 ? pair(static_cast<std::size_t>(c[0]), static_cast<std::size_t>(c[1])) : -1});
  std::vector<std::int32_t> pairs;
  pairs.reserve(classes.size() * classes.size());
  for (const Relation::Points& a : classes)
    for (const Relation::Points& b : classes)
      pairs.push_back(&a == &b ? 0 : pair(static_cast<std::size_t>(a[0]), static_cast<std::size_t>(b[0])));
  return {numbered(kinds), std::move(pairs)};
}

/// A colouring while it is refined: for each point the sum over its pairs, as hashes. Equal hashes of different values
/// would leave points together that differ, which costs time alone: every map of points is checked.
struct Relation::Side {
  Relation::Points colours;
  std::vector<std::uint64_t> seen = std::vector<std::uint64_t>(colours.size(), 0);

  /// Adds what all points see of point j in this colour, or takes it away.
  void count(const Relation& relation, std::size_t j, std::int32_t colour, bool add) {
    for (std::size_t i = 0; i < seen.size(); ++i) {
      if (i == j) continue;
      const std::uint64_t hash = mixed(relation.pair(i, j), relation.pair(j, i), colour);
      seen[i] += add ? hash : 0 - hash;
    }
  }
  void recolour(const Relation& relation, std::size_t j, std::int32_t colour) {
    count(relation, j, colours[j], false);
    count(relation, j, colour, true);
    colours[j] = colour;
  }
  /// (colour, what is seen) of each point to the points.
  Parts parts() const {
    Parts all;
    for (std::size_t i = 0; i < colours.size(); ++i) all[{colours[i], seen[i]}].push_back(i);
    return all;
  }
};

std::optional<std::pair<Relation::Points, Relation::Points>> Relation::refined(Relation::Points left_colours,
                                                                               Relation::Points right_colours) const {
  Relation::Points both = std::move(left_colours);
  both.insert(both.end(), right_colours.begin(), right_colours.end());
  both = numbered(both); // the same numbers on both sides
  const auto middle = both.begin() + static_cast<std::ptrdiff_t>(size());
  std::array sides{Side{Relation::Points(both.begin(), middle)}, Side{Relation::Points(middle, both.end())}};
  for (Side& side : sides)
    for (std::size_t j = 0; j < size(); ++j) side.count(*this, j, side.colours[j], true);
  std::int32_t next = both.empty() ? 0 : *std::max_element(both.begin(), both.end()) + 1;
  for (;;) {
    const std::array parts{sides[0].parts(), sides[1].parts()};
    if (!std::equal(
            parts[0].begin(), parts[0].end(), parts[1].begin(), parts[1].end(),
            [](const auto& a, const auto& b) { return a.first == b.first && a.second.size() == b.second.size(); }))
      return std::nullopt;
    std::vector<Split> splits = splits_of(parts[0], next);
    if (splits.empty()) return std::pair(std::move(sides[0].colours), std::move(sides[1].colours));
    for (const Split& split : splits)
      for (std::size_t s = 0; s < 2; ++s)
        for (const std::size_t j : parts[s].at(split.part)) sides[s].recolour(*this, j, split.colour);
  }
}

} // namespace eg::permute
