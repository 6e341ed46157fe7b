#include "permute/inference/invariants.h"

#include "permute/inference/at.h"
#include "permute/inference/hash.h"
#include "permute/inference/patterns.h"

#include <algorithm>
#include <utility>

namespace eg::permute {

Invariants::Invariants(const Points& points) {
  add_rows(points);
  for (const Edge& e : points.edges()) add(mixed(e.role), std::vector<Member>{{e.child, 0}, {e.parent, 1}});
  add_joints(points);
  add_patterns(points);
  index(points.count());
}

void Invariants::add_rows(const Points& points) {
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
      add(mixed(family), row);
    }
  }
}

void Invariants::add_joints(const Points& points) {
  std::vector<Member> tuple;
  for (const auto& [parents, joint] : points.joined()) {
    tuple = {{points.vertex(joint.first), 0}};
    for (const Point p : parents) tuple.push_back({points.vertex(p), static_cast<std::uint32_t>(tuple.size())});
    add(mixed((Hash{1} << 33) + joint.second), tuple);
  }
}

/// Larger ones were settled by slices that are held, or by a group of one list.
void Invariants::add_patterns(const Points& points) {
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
      add(mixed(family) + static_cast<Hash>(p.kinds[e]), tuple);
    }
  }
}

Invariants::Hash Invariants::hash_of(Point p, std::uint32_t slot) {
  return mixed(static_cast<Hash>(p) + (Hash{slot} << 32));
}

void Invariants::add(Hash family, std::span<const Member> members) {
  const auto tuple = static_cast<std::uint32_t>(tuples_.size());
  Hash sum = family;
  for (const Member& m : members) {
    sum += hash_of(m.point, m.slot);
    members_.push_back({m.point, {tuple, m.slot}});
  }
  tuples_.push_back(sum);
}

void Invariants::index(std::int64_t points) {
  begin_.assign(at(points) + 1, 0);
  for (const auto& [p, place] : members_) ++begin_[at(p) + 1];
  for (std::size_t p = 0; p < at(points); ++p) begin_[p + 1] += begin_[p];
  places_.resize(members_.size());
  std::vector<std::size_t> next(begin_.begin(), begin_.end() - 1);
  for (const auto& [p, place] : members_) places_[next[at(p)]++] = place;
  members_ = {};
  change_.assign(tuples_.size(), 0);
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
