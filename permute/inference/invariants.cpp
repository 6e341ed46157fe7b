#include "permute/inference/invariants.h"

#include "permute/inference/at.h"
#include "permute/inference/hash.h"
#include "permute/inference/patterns.h"

#include <algorithm>
#include <array>
#include <utility>

namespace eg::permute {

Invariants::Invariants(const Points& points) : begin_(at(points.count()) + 1, 0) {
  const std::vector<Edge> edges = points.edges();
  visit_tuples(points, edges, [&](Hash family, std::span<const Member> members) {
    Hash sum = family;
    for (const Member& m : members) {
      sum += hash_of(m.point, m.slot);
      ++begin_[at(m.point) + 1];
    }
    tuples_.push_back(sum);
  });
  for (std::size_t p = 1; p < begin_.size(); ++p) begin_[p] += begin_[p - 1];
  places_.resize(begin_.back());
  // The places of p are written from begin_[p] on, which moves to where those of the next point begin.
  std::uint32_t tuple = 0;
  visit_tuples(points, edges, [&](Hash, std::span<const Member> members) {
    for (const Member& m : members) places_[begin_[at(m.point)]++] = {tuple, m.slot};
    ++tuple;
  });
  std::copy_backward(begin_.begin(), begin_.end() - 1, begin_.end());
  begin_.front() = 0;
  change_.assign(tuples_.size(), 0);
}

void Invariants::visit_tuples(const Points& points, const std::vector<Edge>& edges, const Visit& visit) {
  visit_rows(points, visit);
  for (const Edge& e : edges) visit(mixed(e.role), std::array<Member, 2>{{{e.child, 0}, {e.parent, 1}}});
  visit_joints(points, visit);
  visit_patterns(points, visit);
}

void Invariants::visit_rows(const Points& points, const Visit& visit) {
  Hash family = Hash{1} << 32;
  std::vector<Member> row;
  for (const HeldRows& rows : points.rows()) {
    ++family;
    const std::size_t width = at(rows.width), depth = rows.carriers.size() * width / rows.list->size();
    for (std::size_t r = 0; r * width < rows.list->size(); ++r) {
      row.clear();
      for (std::size_t i = r * width; i < std::min(rows.list->size(), (r + 1) * width); ++i)
        row.push_back({points.vertex((*rows.list)[i]), 0});
      for (std::size_t k = 0; k < depth; ++k)
        row.push_back({points.vertex(rows.carriers[r * depth + k]), static_cast<std::uint32_t>(k + 1)});
      visit(mixed(family), row);
    }
  }
}

void Invariants::visit_joints(const Points& points, const Visit& visit) {
  std::vector<Member> tuple;
  for (const auto& [parents, joint] : points.joined()) {
    tuple = {{points.vertex(joint.first), 0}};
    for (const Point p : parents) tuple.push_back({points.vertex(p), static_cast<std::uint32_t>(tuple.size())});
    visit(mixed((Hash{1} << 33) + joint.second), tuple);
  }
}

/// Larger ones were settled by slices that are held, or by a group that is kept.
void Invariants::visit_patterns(const Points& points, const Visit& visit) {
  constexpr std::size_t most = 4096; // elements
  Hash family = Hash{3} << 32;
  std::vector<Member> tuple;
  for (const Pattern& p : points.patterns()) {
    ++family;
    if (p.kinds.size() > most || p.kinds.empty()) continue;
    const std::int64_t usual = most_frequent_kind(p);
    for (std::size_t e = 0; e < p.kinds.size(); ++e) {
      if (p.kinds[e] == usual) continue;
      const std::vector<std::int64_t> index = indices_of(p, e);
      tuple.clear();
      for (std::size_t axis = 0; axis < p.axes.size(); ++axis)
        tuple.push_back({points.vertex((*p.axes[axis])[at(index[axis])]), static_cast<std::uint32_t>(axis)});
      visit(mixed(family) + static_cast<Hash>(p.kinds[e]), tuple);
    }
  }
}

Invariants::Hash Invariants::hash_of(Point p, std::uint32_t slot) {
  return mixed(static_cast<Hash>(p) + (Hash{slot} << 32));
}

bool Invariants::kept_by(const PointList& moved, const PointList& image) {
  touched_.clear();
  for (const Point p : moved)
    for (std::size_t i = begin_[at(p)]; i < begin_[at(p) + 1]; ++i) {
      const Place& place = places_[i];
      if (change_[place.tuple] == 0) touched_.push_back(place.tuple);
      change_[place.tuple] += hash_of(image[at(p)], place.slot) - hash_of(p, place.slot);
    }
  // Families are carried to themselves when the tuples before and after are the same as multisets.
  Hash from = 0, to = 0;
  for (const std::uint32_t tuple : touched_) {
    if (change_[tuple] == 0) continue; // unchanged, or listed again
    from += mixed(tuples_[tuple]);
    to += mixed(tuples_[tuple] + std::exchange(change_[tuple], 0));
  }
  return from == to;
}

} // namespace eg::permute
