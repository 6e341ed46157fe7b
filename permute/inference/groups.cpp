// The groups as people read them: names, axes, sizes, reasons.

#include "permute/inference/state.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace eg::permute {
namespace {

/// A list of points that a shown tensor has, along an axis or as what it numbers (-1).
struct ShownList {
  const ShownTensor* tensor;
  int axis;
  PointsPtr points;
  std::int64_t extent;
};

std::vector<ShownList> lists_of(const std::vector<ShownTensor>& tensors) {
  std::vector<ShownList> lists;
  for (const ShownTensor& t : tensors) {
    for (int axis = 0; axis < t.shape.rank(); ++axis)
      if (t.shape[axis] > 1) lists.push_back({&t, axis, t.points.axis(axis).points, t.shape[axis]});
    if (t.points.values != nullptr && t.points.values->points != nullptr)
      lists.push_back({&t, -1, t.points.values->points, static_cast<std::int64_t>(t.points.values->points->size())});
  }
  return lists;
}

/// "blocks.0.fc1" of "blocks.0.fc1.weight".
std::string module_of(const std::string& name) {
  for (const std::string_view end : {".weight", ".bias"})
    if (name.ends_with(end)) return name.substr(0, name.size() - end.size());
  return name;
}

class Describer {
public:
  Describer(const Points& points, const Structure& structure, const std::vector<ShownTensor>& tensors,
            const std::vector<std::pair<std::string, int>>& data_axes)
      : points_(points), structure_(structure), lists_(lists_of(tensors)), data_axes_(data_axes) {}

  std::vector<SymmetryGroup> run(std::vector<std::vector<std::size_t>>& classes) {
    find_above();
    find_uses();
    for (const std::size_t k : order_) {
      if (is_joined_below(k)) continue;
      groups_.push_back(group_of(k));
      classes.push_back({k});
      if (const std::size_t block = sole_block_class(k); block != none) classes.back().push_back(block);
    }
    name_groups();
    for (std::size_t g = 0; g < groups_.size(); ++g)
      for (const std::size_t k : classes[g]) name_of_class_[k] = groups_[g].name;
    for (std::size_t g = 0; g < groups_.size(); ++g)
      if (classes[g].size() == 1) groups_[g].over = names_of(carriers(classes[g].front()));
    add_trivial();
    classes.resize(groups_.size());
    return std::move(groups_);
  }

private:
  static constexpr std::size_t none = ~std::size_t{0};
  struct Uses {
    std::vector<AxisUse> direct, carried; // its own points; also what goes along
  };

  bool is_free(std::size_t k) const { return structure_.classes()[k].log2_count() > 0.0; }

  /// Free classes that move the points of a class.
  void find_above() {
    const std::vector<PointClass>& all = structure_.classes();
    above_.resize(all.size());
    children_.resize(all.size());
    for (std::size_t k = 0; k < all.size(); ++k) {
      if (all[k].places) continue;
      for (const std::size_t parent : all[k].over) {
        above_[k].insert(above_[parent].begin(), above_[parent].end());
        children_[parent].insert(k);
      }
      if (is_free(k)) above_[k].insert(k);
    }
  }

  void find_uses() {
    for (const ShownList& list : lists_) {
      std::map<std::size_t, std::pair<std::vector<std::int64_t>, bool>> places; // by class; true: its own points
      for (std::size_t i = 0; i < list.points->size(); ++i) {
        const std::size_t own = structure_.class_of((*list.points)[i]);
        for (const std::size_t k : above_[own]) {
          auto& [where, direct] = places[k];
          const std::int64_t place = static_cast<std::int64_t>(i) % list.extent;
          if (where.empty() || where.back() < place) where.push_back(place);
          direct = direct || k == own;
        }
      }
      for (auto& [k, found] : places) {
        if (!uses_.contains(k)) order_.push_back(k);
        AxisUse use{list.tensor->name, list.axis, list.tensor->role, std::move(found.first), false};
        use.whole = static_cast<std::int64_t>(use.places.size()) == list.extent;
        if (found.second) uses_[k].direct.push_back(use);
        uses_[k].carried.push_back(std::move(use));
      }
    }
  }

  /// Free classes right above k, past those that only go along.
  std::set<std::size_t> carriers(std::size_t k) const {
    std::set<std::size_t> found;
    for (const std::size_t parent : structure_.classes()[k].over) {
      if (is_free(parent))
        found.insert(parent);
      else
        found.merge(carriers(parent));
    }
    return found;
  }

  /// The class whose elements move the blocks of k and nothing else; none.
  std::size_t sole_block_class(std::size_t k) const {
    const PointClass& own = structure_.classes()[k];
    if (own.over.size() != 1) return none;
    const std::size_t block = own.over.front();
    const bool alone = is_free(block) && structure_.classes()[block].over.empty() && children_[block].size() == 1 &&
                       uses_.at(block).direct.empty();
    return alone ? block : none;
  }
  bool is_joined_below(std::size_t k) const {
    return std::any_of(children_[k].begin(), children_[k].end(),
                       [&](std::size_t child) { return is_free(child) && sole_block_class(child) == k; });
  }

  /// Its blocks are made of blocks: heads that share keys.
  bool holds_blocks(std::size_t k) const {
    return std::any_of(children_[k].begin(), children_[k].end(), [&](std::size_t child) {
      const auto found = uses_.find(child);
      return is_free(child) && found != uses_.end() && found->second.direct.empty();
    });
  }

  SymmetryGroup group_of(std::size_t k) const {
    const PointClass& own = structure_.classes()[k];
    const Uses& uses = uses_.at(k);
    SymmetryGroup g;
    g.size = own.size();
    g.copies = own.copies();
    g.log2_count = own.log2_count();
    const std::size_t block = sole_block_class(k);
    if (block != none) g.log2_count += structure_.classes()[block].log2_count();
    g.kind = own.group ? GroupKind::automorphisms : own.over.empty() ? GroupKind::symmetric : GroupKind::wreath;
    g.axes = uses.direct;
    for (const AxisUse& use : uses.carried) {
      const auto is_listed = [&](const AxisUse& other) { return other.tensor == use.tensor && other.axis == use.axis; };
      if (std::none_of(uses.direct.begin(), uses.direct.end(), is_listed)) g.axes.push_back(use);
    }
    for (const AxisUse& use : uses.carried) {
      (use.role == TensorRole::parameter ? g.moves_parameters : g.moves_outside) = true;
      const auto is_data = [&](const auto& axis) { return axis.first == use.tensor && axis.second == use.axis; };
      g.moves_data = g.moves_data || std::any_of(data_axes_.begin(), data_axes_.end(), is_data);
    }
    if (g.axes.front().role != TensorRole::parameter) prefer_parameters(g);
    g.name = first_name(g, uses.direct.empty(), holds_blocks(k));
    return g;
  }

  /// Parameters first, so that names come from them.
  static void prefer_parameters(SymmetryGroup& g) {
    std::stable_sort(g.axes.begin(), g.axes.end(), [](const AxisUse& a, const AxisUse& b) {
      return (a.role == TensorRole::parameter) > (b.role == TensorRole::parameter);
    });
  }

  static std::string first_name(const SymmetryGroup& g, bool blocks, bool of_blocks) {
    if (is_residual(g)) return "residual";
    for (const AxisUse& use : g.axes)
      if (use.axis < 0) return use.tensor == "input_ids" ? "vocabulary" : use.tensor + ".values";
    for (const AxisUse& use : g.axes) // rows of patches, rows within a patch
      if (blocks && use.role == TensorRole::input) return fmt::format("{}.axis{}.of{}", use.tensor, use.axis, g.size);
    const AxisUse& first = g.axes.front();
    if (first.role != TensorRole::parameter) return fmt::format("{}.axis{}", first.tensor, first.axis);
    return module_of(first.tensor) + (!blocks ? "" : of_blocks ? ".head_groups" : ".heads");
  }

  /// Written by two matrices or more and read by two or more.
  static bool is_residual(const SymmetryGroup& g) {
    std::set<std::string> first, last;
    for (const AxisUse& use : g.axes)
      if (use.role == TensorRole::parameter && use.whole) (use.axis == 0 ? first : last).insert(use.tensor);
    std::erase_if(first, [](const std::string& name) { return name.ends_with("bias"); });
    return first.size() >= 2 && last.size() >= 2 && g.axes.size() >= 8;
  }

  static std::string ranges(const std::vector<std::int64_t>& places) {
    return fmt::format("[{}:{}]", places.front(), places.back() + 1);
  }

  void name_groups() {
    std::map<std::string, int> times;
    for (const SymmetryGroup& g : groups_) ++times[g.name];
    std::map<std::string, int> used;
    for (SymmetryGroup& g : groups_) {
      const AxisUse& first = g.axes.front();
      if (times[g.name] > 1) g.name += first.whole ? fmt::format(".axis{}", first.axis) : ranges(first.places);
      if (const int count = ++used[g.name]; count > 1) g.name += fmt::format("#{}", count);
    }
  }

  std::vector<std::string> names_of(const std::set<std::size_t>& classes) const {
    std::vector<std::string> names;
    for (const std::size_t k : classes) names.push_back(name_of_class_.at(k));
    return names;
  }

  /// Axes that nothing moves, those with the same points together.
  void add_trivial() {
    const auto moves = [&](Point p) { return !above_[structure_.class_of(p)].empty(); };
    std::map<PointList, std::size_t> number;
    for (const ShownList& list : lists_) {
      if (std::any_of(list.points->begin(), list.points->end(), moves)) continue;
      PointList key;
      for (const Point p : *list.points) key.push_back(points_.find(p));
      const auto [place, is_new] = number.try_emplace(key, groups_.size());
      if (is_new) {
        SymmetryGroup g;
        g.kind = GroupKind::trivial;
        g.size = list.extent;
        g.because = reason_for(*list.points);
        groups_.push_back(std::move(g));
      }
      SymmetryGroup& g = groups_[place->second];
      g.axes.push_back({list.tensor->name, list.axis, list.tensor->role, {}, true});
      (list.tensor->role == TensorRole::parameter ? g.moves_parameters : g.moves_outside) = true;
      if (is_new)
        g.name = list.tensor->role == TensorRole::parameter
                     ? fmt::format("{}.axis{}", module_of(list.tensor->name), list.axis)
                     : fmt::format("{}.axis{}", list.tensor->name, list.axis);
    }
  }

  /// Why a point stands still: its own reason, or one of those that it goes with.
  std::string reason_for(const PointList& list) const {
    std::set<Point> seen;
    PointList queue{points_.find(list.front()), points_.find(list.back())};
    constexpr std::size_t most = 4096;
    for (std::size_t i = 0; i < queue.size() && i < most; ++i) {
      if (const std::string* reason = points_.reason(queue[i])) return *reason;
      for (const Links* const links : {&structure_.above(queue[i]), &structure_.below(queue[i])})
        for (const Link& link : *links)
          if (seen.insert(link.point).second) queue.push_back(link.point);
    }
    return "each of its places is used in another way";
  }

  const Points& points_;
  const Structure& structure_;
  std::vector<ShownList> lists_;
  const std::vector<std::pair<std::string, int>>& data_axes_;
  std::vector<std::set<std::size_t>> above_, children_;
  std::map<std::size_t, Uses> uses_;
  std::vector<std::size_t> order_;
  std::vector<SymmetryGroup> groups_;
  std::map<std::size_t, std::string> name_of_class_;
};

} // namespace

std::vector<SymmetryGroup> describe_groups(const Points& points, const Structure& structure,
                                           const std::vector<ShownTensor>& tensors,
                                           const std::vector<std::pair<std::string, int>>& data_axes,
                                           std::vector<std::vector<std::size_t>>& classes) {
  return Describer(points, structure, tensors, data_axes).run(classes);
}

} // namespace eg::permute
