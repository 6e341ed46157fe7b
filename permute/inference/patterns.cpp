#include "permute/inference/patterns.h"

#include "core/call.h"
#include "permute/inference/at.h"
#include "permute/inference/hash.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

namespace eg::permute {

std::size_t extent_of(const Pattern& p, std::size_t axis) { return p.axes[axis]->size(); }

std::size_t stride_of(const Pattern& p, std::size_t axis) {
  std::size_t stride = 1;
  for (std::size_t a = axis + 1; a < p.axes.size(); ++a) stride *= extent_of(p, a);
  return stride;
}

std::vector<std::vector<std::int64_t>> slices_of(const Pattern& p, std::size_t axis) {
  const std::size_t stride = stride_of(p, axis), n = extent_of(p, axis);
  std::vector<std::vector<std::int64_t>> all(n);
  for (std::size_t e = 0; e < p.kinds.size(); ++e) all[e / stride % n].push_back(p.kinds[e]);
  return all;
}

namespace {

bool is_alike_along(const Pattern& p, std::size_t axis) {
  const std::size_t stride = stride_of(p, axis), n = extent_of(p, axis);
  for (std::size_t e = 0; e < p.kinds.size(); ++e)
    if (p.kinds[e] != p.kinds[e - e / stride % n * stride]) return false;
  return true;
}

} // namespace

Pattern pattern_of(const Tensor& values, std::vector<PointsPtr> axes, std::string reason) {
  const PauseRecording pause;
  const Tensor packed = values.contiguous();
  Pattern p{std::move(axes), {}, std::move(reason)};
  if (packed.numel() == 0) return {{}, {}, p.reason};
  const std::size_t width = packed.nbytes() / at(packed.numel());
  p.kinds.reserve(at(packed.numel()));
  for (std::size_t e = 0; e < at(packed.numel()); ++e) {
    std::int64_t bits = 0;
    std::memcpy(&bits, packed.bytes() + e * width, std::min(width, sizeof bits));
    p.kinds.push_back(bits);
  }
  return p;
}

Pattern reduced(const Pattern& pattern) {
  if (pattern.kinds.empty()) return {{}, {}, pattern.reason}; // an axis of extent 0
  Pattern own = pattern;
  for (std::size_t axis = own.axes.size(); axis-- > 0;) {
    if (!is_alike_along(own, axis)) continue;
    own.kinds = slices_of(own, axis).front();
    own.axes.erase(own.axes.begin() + static_cast<std::ptrdiff_t>(axis));
  }
  return own;
}

std::int64_t most_frequent_kind(const Pattern& pattern) {
  std::map<std::int64_t, std::size_t> times;
  for (const std::int64_t kind : pattern.kinds) ++times[kind];
  return std::max_element(times.begin(), times.end(), [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

std::vector<std::int64_t> indices_of(const Pattern& pattern, std::size_t element) {
  std::vector<std::int64_t> index(pattern.axes.size());
  for (std::size_t axis = index.size(); axis-- > 0; element /= extent_of(pattern, axis))
    index[axis] = static_cast<std::int64_t>(element % extent_of(pattern, axis));
  return index;
}

std::vector<std::uint64_t> marks_of_lists(const Points& points) {
  std::vector<std::uint64_t> marks(at(points.count()), 0);
  std::uint64_t serial = 1;
  for (const PointsPtr& list : points.held()) {
    const std::uint64_t own = mixed(serial++);
    for (const Point p : *list) {
      const Point root = points.find(p), vertex = points.vertex(p);
      marks[at(root)] += own;
      if (vertex != root) marks[at(vertex)] += own;
    }
  }
  return marks;
}

} // namespace eg::permute
