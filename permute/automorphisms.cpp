#include "permute/automorphisms.h"

#include "core/base/error.h"
#include "core/call.h"
#include "permute/relation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <set>

namespace eg::permute {
namespace {

using Points = std::vector<std::int32_t>;

/// The classes of a union-find.
class Orbits {
public:
  explicit Orbits(std::size_t points) : parent_(points) { std::iota(parent_.begin(), parent_.end(), 0); }
  std::int32_t find(std::int32_t x) {
    while (at(x) != x) x = at(x) = at(at(x));
    return x;
  }
  /// The smaller root stays.
  void unite(std::int32_t a, std::int32_t b) {
    const std::int32_t x = find(a), y = find(b);
    at(std::max(x, y)) = std::min(x, y);
  }
  void add(const Points& permutation) {
    for (std::size_t i = 0; i < permutation.size(); ++i) unite(static_cast<std::int32_t>(i), permutation[i]);
  }

private:
  std::int32_t& at(std::int32_t x) { return parent_[static_cast<std::size_t>(x)]; }
  std::vector<std::int32_t> parent_;
};

/// A group while it is being found.
struct Found {
  std::vector<Points> generators;
  std::vector<std::int64_t> factors;
};

/// Looks for automorphisms that extend a chain of choices, by refining two colourings in step.
class Search {
public:
  explicit Search(const Relation& relation) : relation_(relation) {}

  Found run() {
    Found found;
    descend(relation_.refined(relation_.colours(), relation_.colours())->first, found);
    return found;
  }

private:
  static constexpr std::int64_t most_nodes = 1'000'000;

  /// The group that keeps what `colours` singles out: first the stabiliser of one more point, then that point's orbit.
  void descend(const Points& colours, Found& found) {
    const std::optional<Points> cell = smallest_cell(colours);
    if (!cell) return;
    const std::int32_t base = cell->front();
    descend(relation_.refined(single_out(colours, base), single_out(colours, base))->first, found);
    Orbits orbits(relation_.size());
    for (const Points& g : found.generators) orbits.add(g);
    std::int64_t orbit = 0;
    for (const std::int32_t image : *cell) {
      if (orbits.find(image) != orbits.find(base)) {
        Points map;
        if (extend(single_out(colours, base), single_out(colours, image), map)) {
          orbits.add(map);
          found.generators.push_back(std::move(map));
        }
      }
    }
    for (const std::int32_t image : *cell) orbit += orbits.find(image) == orbits.find(base) ? 1 : 0;
    if (orbit > 1) found.factors.push_back(orbit);
  }

  /// An automorphism that carries the colouring `from` to `to`; false when there is none.
  bool extend(const Points& from, const Points& to, Points& map) {
    if (++nodes_ > most_nodes)
      throw ValueError(fmt::format("automorphisms: a relation of {} points is too regular: more than {} nodes searched",
                                   relation_.size(), most_nodes));
    const auto both = relation_.refined(from, to);
    if (!both) return false;
    const auto& [left, right] = *both;
    const std::optional<Points> cell = smallest_cell(left);
    if (!cell) {
      map = by_colour(left, right);
      return relation_.is_automorphism(map);
    }
    const std::int32_t base = cell->front(), colour = left[static_cast<std::size_t>(base)];
    for (std::size_t image = 0; image < right.size(); ++image)
      if (right[image] == colour &&
          extend(single_out(left, base), single_out(right, static_cast<std::int32_t>(image)), map))
        return true;
    return false;
  }

  static Points single_out(Points colours, std::int32_t point) {
    colours[static_cast<std::size_t>(point)] = -1; // no colour that refinement gives
    return colours;
  }

  static Points by_colour(const Points& left, const Points& right) {
    Points place(right.size());
    for (std::size_t i = 0; i < right.size(); ++i)
      place[static_cast<std::size_t>(right[i])] = static_cast<std::int32_t>(i);
    Points map(left.size());
    for (std::size_t i = 0; i < left.size(); ++i) map[i] = place[static_cast<std::size_t>(left[i])];
    return map;
  }

  /// The points of the smallest colour class of two or more; none when every point has a colour of its own.
  static std::optional<Points> smallest_cell(const Points& colours) {
    std::vector<Points> cells(colours.size());
    for (std::size_t i = 0; i < colours.size(); ++i)
      cells[static_cast<std::size_t>(colours[i])].push_back(static_cast<std::int32_t>(i));
    const Points* least = nullptr;
    for (const Points& cell : cells)
      if (cell.size() > 1 && (least == nullptr || cell.size() < least->size())) least = &cell;
    return least == nullptr ? std::nullopt : std::optional(*least);
  }

  const Relation& relation_;
  std::int64_t nodes_ = 0;
};

/// The automorphisms of a relation: points that can be exchanged become one, and so on; the rest is searched.
Found group_of(const Relation& relation) {
  const std::vector<Points> classes = relation.twins();
  if (classes.size() == relation.size()) return Search(relation).run();
  Found inner = group_of(relation.quotient(classes)), all;
  for (const Points& members : classes)
    for (std::size_t k = 1; k < members.size(); ++k) {
      Points swap(relation.size());
      std::iota(swap.begin(), swap.end(), 0);
      std::swap(swap[static_cast<std::size_t>(members[k - 1])], swap[static_cast<std::size_t>(members[k])]);
      all.generators.push_back(std::move(swap));
      all.factors.push_back(static_cast<std::int64_t>(k) + 1);
    }
  for (const Points& between : inner.generators) { // classes go to classes, member by member
    Points map(relation.size());
    for (std::size_t c = 0; c < classes.size(); ++c) {
      const Points& image = classes[static_cast<std::size_t>(between[c])];
      for (std::size_t k = 0; k < classes[c].size(); ++k) map[static_cast<std::size_t>(classes[c][k])] = image[k];
    }
    all.generators.push_back(std::move(map));
  }
  all.factors.insert(all.factors.end(), inner.factors.begin(), inner.factors.end());
  return all;
}

/// Writes row - max(row) without rounding: what the difference is in f64, and what is missing (Moller and Knuth).
void subtract_maximum(const double* row, std::size_t n, double* difference, double* missing) {
  const double top = *std::max_element(row, row + n);
  if (std::any_of(row, row + n, [](double m) { return std::isnan(m) || m == std::numeric_limits<double>::infinity(); }))
    throw ValueError("softmax_form: the mask holds NaN or +inf");
  for (std::size_t j = 0; j < n; ++j) {
    difference[j] = std::isinf(row[j]) ? row[j] : row[j] - top;
    if (std::isinf(difference[j])) continue;
    const double part = difference[j] - row[j];
    missing[j] = (row[j] - (difference[j] - part)) - (top + part);
  }
}

} // namespace

double PermutationGroup::log2_count() const {
  double bits = 0.0;
  for (const std::int64_t factor : factors) bits += std::log2(static_cast<double>(factor));
  return bits;
}

bool PermutationGroup::contains(const Permutation& p) const {
  constexpr double most = 16.0;
  if (p.is_identity()) return true;
  if (log2_count() > most)
    throw ValueError(fmt::format("a group of 2^{:.1f} elements is not listed to look for one", log2_count()));
  std::vector<Permutation> list{Permutation::identity(degree)};
  std::set<std::vector<std::int64_t>> known{list.front().gather()};
  while (!list.empty()) {
    const Permutation q = std::move(list.back());
    list.pop_back();
    for (const Permutation& g : generators)
      if (Permutation next = q.then(g); known.insert(next.gather()).second) list.push_back(std::move(next));
  }
  return known.contains(p.gather());
}

std::vector<std::vector<std::int64_t>> PermutationGroup::orbits() const {
  Orbits classes(static_cast<std::size_t>(degree));
  for (const Permutation& g : generators)
    for (std::int64_t i = 0; i < degree; ++i)
      classes.unite(static_cast<std::int32_t>(i), static_cast<std::int32_t>(g[i]));
  std::vector<std::vector<std::int64_t>> lists(static_cast<std::size_t>(degree));
  for (std::int64_t i = 0; i < degree; ++i)
    lists[static_cast<std::size_t>(classes.find(static_cast<std::int32_t>(i)))].push_back(i);
  std::erase_if(lists, [](const auto& list) { return list.empty(); });
  return lists;
}

Permutation random_element(const PermutationGroup& group, RandomKey key) {
  constexpr std::size_t least_list = 10;
  constexpr std::int64_t rounds = 120; // 50 mix well in their experiments
  std::vector<Permutation> list(group.generators);
  while (list.size() < least_list)
    list.push_back(list.empty() || group.generators.empty() ? Permutation::identity(group.degree)
                                                            : group.generators[list.size() % group.generators.size()]);
  const auto count = static_cast<std::int64_t>(list.size());
  const std::vector<std::int64_t> draws =
      random_integers({3 * rounds}, key, 0, count * (count - 1)).to_vector<std::int64_t>();
  Permutation product = Permutation::identity(group.degree);
  for (std::int64_t round = 0; round < rounds; ++round) {
    const std::int64_t pair = draws[static_cast<std::size_t>(3 * round)];
    const std::int64_t i = pair / (count - 1), skip = pair % (count - 1), j = skip < i ? skip : skip + 1;
    const bool inverted = draws[static_cast<std::size_t>(3 * round + 1)] % 2 != 0;
    Permutation& changed = list[static_cast<std::size_t>(i)];
    const Permutation& by = list[static_cast<std::size_t>(j)];
    changed = changed.then(inverted ? by.inverse() : by);
    product = product.then(changed);
  }
  return product;
}

Tensor softmax_form(const Tensor& mask) {
  check_mask(mask);
  if (!is_floating(mask.dtype()) || mask.numel() == 0) return mask;
  const PauseRecording pause;
  const std::vector<double> values = mask.to(DType::f64).to_vector<double>();
  const auto n = static_cast<std::size_t>(mask.size(-1));
  std::vector<double> parts(2 * values.size(), 0.0);
  for (std::size_t at = 0; at < values.size(); at += n)
    subtract_maximum(values.data() + at, n, parts.data() + at, parts.data() + values.size() + at);
  Shape shape{2};
  for (int axis = 0; axis < mask.rank(); ++axis) shape.push_back(mask.size(axis));
  return Tensor::from<double>(parts, shape);
}

bool is_automorphism(const Tensor& mask, const Permutation& p) {
  const Relation relation = Relation::of(mask);
  if (static_cast<std::size_t>(p.size()) != relation.size())
    throw ShapeError(
        fmt::format("is_automorphism: a permutation of {} for a mask of {} tokens", p.size(), relation.size()));
  return relation.is_automorphism(Points(p.gather().begin(), p.gather().end()));
}

PermutationGroup automorphisms(const Tensor& mask) {
  const Relation relation = Relation::of(mask);
  Found found = group_of(relation);
  PermutationGroup group{.degree = static_cast<std::int64_t>(relation.size()), .generators = {}, .factors = {}};
  for (const Points& g : found.generators) group.generators.emplace_back(std::vector<std::int64_t>(g.begin(), g.end()));
  group.factors = std::move(found.factors);
  std::sort(group.factors.begin(), group.factors.end());
  return group;
}

} // namespace eg::permute
