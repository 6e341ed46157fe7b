#include "permute/finder.h"

#include "autograd/check.h"
#include "core/base/error.h"
#include "core/ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>

namespace eg::permute {
namespace {

using Gather = std::vector<std::int64_t>;
using Blocks = std::vector<Gather>; ///< lists of points that are moved as wholes, k-th member to k-th member

/// Tests whether f commutes with a permutation.
class Oracle {
public:
  Oracle(const TensorFunction& f, const std::vector<Tensor>& inputs, const Symmetry& axes, double tolerance)
      : f_(f), inputs_(inputs), axes_(axes), tolerance_(tolerance), outputs_(f(inputs)) {
    for (const Tensor& y : outputs_)
      if (is_floating(y.dtype()) && !std::isfinite(largest(y)))
        throw ValueError(fmt::format("find_symmetries: {} is not finite at the inputs", axes.name));
    extent_ = common_extent();
  }

  std::int64_t extent() const { return extent_; }

  bool commutes(const Permutation& p) const {
    const SymmetryAction action(axes_, p.tensor());
    const std::vector<Tensor> found = f_(action.on_inputs(inputs_)), wanted = action.on(Leg::Side::out, outputs_);
    for (std::size_t i = 0; i < wanted.size(); ++i)
      if (!(difference(found[i], wanted[i]) <= tolerance_)) return false;
    return true;
  }

private:
  static double largest(const Tensor& y) {
    double most = 0.0;
    for (const double v : y.to(DType::f64).to_vector<double>())
      most = std::isnan(v) ? v : std::isnan(most) ? most : std::max(most, std::abs(v));
    return most;
  }
  static double difference(const Tensor& a, const Tensor& b) {
    if (!(a.shape() == b.shape())) return INFINITY;
    if (!is_floating(a.dtype())) return same_bits(a.contiguous(), b.contiguous()) ? 0.0 : INFINITY;
    const double scale = largest(b), apart = largest(a.to(DType::f64) - b.to(DType::f64));
    return apart == 0.0 ? 0.0 : apart / scale;
  }

  std::int64_t common_extent() const {
    std::optional<std::int64_t> extent;
    for (const Leg& leg : axes_.legs) {
      const std::vector<Tensor>& tensors = leg.side == Leg::Side::in ? inputs_ : outputs_;
      const auto i = static_cast<std::size_t>(leg.index);
      if (i >= tensors.size() || !tensors[i].defined()) continue; // as symmetry_check leaves it out
      const std::int64_t size = tensors[i].size(leg.axis);
      if (extent && size != *extent)
        throw ShapeError(
            fmt::format("find_symmetries: the axes of {} have extents {} and {}", axes_.name, *extent, size));
      extent = size;
    }
    if (!extent) throw ValueError(fmt::format("find_symmetries: {} names no axis that is there", axes_.name));
    return *extent;
  }

  const TensorFunction& f_; // as long as find_symmetries runs
  const std::vector<Tensor>& inputs_;
  const Symmetry& axes_;
  const double tolerance_;
  std::vector<Tensor> outputs_;
  std::int64_t extent_ = 0;
};

/// Builds a group from permutations that commute.
class Finder {
public:
  Finder(std::int64_t degree, const std::function<bool(const Permutation&)>& commutes, std::int64_t brute)
      : commutes_(commutes), brute_(brute) {
    group_.degree = degree;
  }

  FoundGroup run() {
    Blocks blocks;
    for (std::int64_t i = 0; i < group_.degree; ++i) blocks.push_back({i});
    const auto few = [&] { return static_cast<std::int64_t>(blocks.size()) <= brute_; };
    while (merge_classes(blocks) || (!few() && merge_groups(blocks))) {
    }
    const bool tried = few();
    if (tried) try_all_orders(blocks);
    std::sort(group_.factors.begin(), group_.factors.end());
    return {std::move(group_), tried && !guessed_, calls_};
  }

private:
  bool commutes(const Permutation& p) {
    ++calls_;
    return commutes_(p);
  }
  /// Blocks a and b exchanged, the rest as it is.
  bool can_exchange(const Gather& a, const Gather& b) { return commutes(exchange(a, b)); }
  Permutation exchange(const Gather& a, const Gather& b) const {
    Gather p(static_cast<std::size_t>(group_.degree));
    std::iota(p.begin(), p.end(), std::int64_t{0});
    for (std::size_t k = 0; k < a.size(); ++k)
      std::swap(p[static_cast<std::size_t>(a[k])], p[static_cast<std::size_t>(b[k])]);
    return Permutation(std::move(p));
  }

  /// Classes of blocks that can be exchanged become blocks; false when there are none.
  bool merge_classes(Blocks& blocks) {
    std::vector<Blocks> classes;
    for (const Gather& block : blocks) {
      const auto home = std::find_if(classes.begin(), classes.end(), [&](const Blocks& c) {
        return c.front().size() == block.size() && can_exchange(c.front(), block);
      });
      if (home == classes.end())
        classes.push_back({block});
      else
        home->push_back(block);
    }
    if (classes.size() == blocks.size()) return false;
    blocks.clear();
    for (const Blocks& members : classes) {
      for (std::size_t k = 1; k < members.size(); ++k) {
        group_.generators.push_back(exchange(members[k - 1], members[k]));
        group_.factors.push_back(static_cast<std::int64_t>(k) + 1);
      }
      blocks.push_back(joined(members));
    }
    return true;
  }

  /// Runs or combs of blocks become blocks where two of them can be exchanged; false when none can.
  bool merge_groups(Blocks& blocks) {
    for (std::size_t size = 2; 2 * size <= blocks.size(); ++size) {
      if (blocks.size() % size != 0) continue;
      for (const bool comb : {false, true}) {
        Blocks groups = grouped(blocks, size, comb);
        if (std::none_of(groups.begin() + 1, groups.end(), [&](const Gather& g) {
              return same_shape(blocks, size, comb) && can_exchange(groups.front(), g);
            }))
          continue;
        guessed_ = true;
        blocks = std::move(groups);
        return true;
      }
    }
    return false;
  }

  static Blocks grouped(const Blocks& blocks, std::size_t size, bool comb) {
    const std::size_t count = blocks.size() / size;
    Blocks groups(count);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      Gather& group = groups[comb ? i % count : i / size];
      group.insert(group.end(), blocks[i].begin(), blocks[i].end());
    }
    return groups;
  }
  /// Whether the k-th blocks of all groups are of one size.
  static bool same_shape(const Blocks& blocks, std::size_t size, bool comb) {
    const std::size_t count = blocks.size() / size;
    for (std::size_t i = 0; i < blocks.size(); ++i)
      if (blocks[i].size() != blocks[comb ? i / count * count : i % size].size()) return false;
    return true;
  }
  static Gather joined(const Blocks& members) {
    Gather all;
    for (const Gather& m : members) all.insert(all.end(), m.begin(), m.end());
    return all;
  }

  void try_all_orders(const Blocks& blocks) {
    std::vector<std::size_t> order(blocks.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::set<Gather> known{Permutation::identity(group_.degree).gather()};
    std::vector<Permutation> fresh;
    while (std::next_permutation(order.begin(), order.end())) {
      const std::optional<Permutation> p = arranged(blocks, order);
      if (!p || known.contains(p->gather()) || !commutes(*p)) continue;
      fresh.push_back(*p);
      close(known, fresh);
    }
    group_.generators.insert(group_.generators.end(), fresh.begin(), fresh.end());
    if (known.size() > 1) group_.factors.push_back(static_cast<std::int64_t>(known.size()));
  }

  /// Block k where block order[k] was; nothing when their sizes differ.
  std::optional<Permutation> arranged(const Blocks& blocks, const std::vector<std::size_t>& order) const {
    Gather p(static_cast<std::size_t>(group_.degree));
    for (std::size_t k = 0; k < blocks.size(); ++k) {
      const Gather& from = blocks[order[k]];
      if (from.size() != blocks[k].size()) return std::nullopt;
      for (std::size_t i = 0; i < from.size(); ++i) p[static_cast<std::size_t>(blocks[k][i])] = from[i];
    }
    return Permutation(std::move(p));
  }

  /// All products of the generators join what is known.
  static void close(std::set<Gather>& known, const std::vector<Permutation>& generators) {
    std::vector<Gather> next(known.begin(), known.end());
    while (!next.empty()) {
      const Permutation p(std::move(next.back()));
      next.pop_back();
      for (const Permutation& g : generators)
        if (const Permutation q = p.then(g); known.insert(q.gather()).second) next.push_back(q.gather());
    }
  }

  const std::function<bool(const Permutation&)>& commutes_;
  const std::int64_t brute_;
  std::int64_t calls_ = 0;
  PermutationGroup group_;
  bool guessed_ = false;
};

} // namespace

FoundGroup find_group(std::int64_t degree, const std::function<bool(const Permutation&)>& commutes,
                      std::int64_t brute) {
  return Finder(degree, commutes, brute).run();
}

FoundGroup find_symmetries(const TensorFunction& f, const std::vector<Tensor>& inputs, const Symmetry& axes,
                           const FinderOptions& options) {
  const Oracle oracle(f, inputs, axes, options.tolerance);
  return find_group(
      oracle.extent(), [&](const Permutation& p) { return oracle.commutes(p); }, options.brute);
}

} // namespace eg::permute
