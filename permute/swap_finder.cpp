#include "permute/swap_finder.h"

#include "core/base/error.h"
#include "core/ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

namespace eg::permute {
namespace {

using Bits = std::vector<bool>;

std::size_t to_size(std::int64_t i) { return static_cast<std::size_t>(i); }

std::vector<std::int64_t> identity_gather(std::int64_t n) {
  std::vector<std::int64_t> gather(to_size(n));
  std::iota(gather.begin(), gather.end(), std::int64_t{0});
  return gather;
}

Tensor applied(const AxisSwap& s, const Tensor& x) {
  const std::int64_t n = s.axis < 0 ? std::max(s.first, s.second) + s.width : x.size(s.axis);
  std::vector<std::int64_t> gather = identity_gather(n);
  for (std::int64_t k = 0; k < s.width; ++k) std::swap(gather[to_size(s.first + k)], gather[to_size(s.second + k)]);
  if (s.axis >= 0) return index_select(x, s.axis, Tensor::from(gather, {n}));
  std::vector<std::int64_t> numbers = x.contiguous().to_vector<std::int64_t>();
  for (std::int64_t& v : numbers)
    if (v >= 0 && v < n) v = gather[to_size(v)];
  return Tensor::from(numbers, x.shape());
}

/// Unchanged by the exchange, and otherwise as it was.
Tensor made_even(const AxisSwap& s, const Tensor& x) {
  if (is_floating(x.dtype())) return (x + applied(s, x)) * 0.5;
  std::vector<std::int64_t> numbers = x.contiguous().to_vector<std::int64_t>();
  if (s.axis < 0) { // neither number occurs
    std::int64_t other = 0;
    while (other == s.first || other == s.second) ++other;
    for (std::int64_t& v : numbers)
      if (v == s.first || v == s.second) v = other;
    return Tensor::from(numbers, x.shape());
  }
  std::vector<std::int64_t> gather = identity_gather(x.size(s.axis));
  for (std::int64_t k = 0; k < s.width; ++k) gather[to_size(s.second + k)] = s.first + k;
  return index_select(x, s.axis, Tensor::from(gather, {x.size(s.axis)}));
}

/// Rows of an equation system over two elements, in echelon form.
class Equations {
public:
  explicit Equations(std::size_t unknowns) : unknowns_(unknowns) {}

  /// The sum of the unknowns that are set is zero. False: that was known.
  bool add(Bits row) {
    for (const auto& [pivot, known] : rows_)
      if (row[pivot])
        for (std::size_t i = 0; i < unknowns_; ++i) row[i] = row[i] != known[i];
    const auto pivot = std::find(row.begin(), row.end(), true);
    if (pivot == row.end()) return false;
    const auto place = static_cast<std::size_t>(pivot - row.begin());
    for (auto& [other, known] : rows_)
      if (known[place])
        for (std::size_t i = 0; i < unknowns_; ++i) known[i] = known[i] != row[i];
    rows_.emplace_back(place, std::move(row));
    return true;
  }
  bool follows(const Bits& row) const { return !Equations(*this).add(row); }

  /// A basis of the solutions.
  std::vector<Bits> solutions() const {
    Bits is_pivot(unknowns_, false);
    for (const auto& [pivot, row] : rows_) is_pivot[pivot] = true;
    std::vector<Bits> basis;
    for (std::size_t free = 0; free < unknowns_; ++free) {
      if (is_pivot[free]) continue;
      Bits solution(unknowns_, false);
      solution[free] = true;
      for (const auto& [pivot, row] : rows_) solution[pivot] = row[free];
      basis.push_back(std::move(solution));
    }
    return basis;
  }

private:
  std::size_t unknowns_;
  std::vector<std::pair<std::size_t, Bits>> rows_;
};

class SwapFinder {
public:
  SwapFinder(const NamedFunction& f, const nn::StateDict& leaves, const SwapFinderOptions& options)
      : f_(f), leaves_(leaves), options_(options) {
    for (const auto& [name, y] : called(leaves_)) {
      outputs_.emplace_back(name, y.shape());
      scales_.push_back(largest(y.to(DType::f64)));
    }
    // An output that is zero in theory holds rounding alone.
    const double all = scales_.empty() ? 0.0 : *std::max_element(scales_.begin(), scales_.end());
    for (double& scale : scales_) scale = std::max(scale, 1e-3 * all);
  }

  FoundSwaps run() {
    std::set<std::int64_t> extents;
    for (const auto& [name, x] : leaves_)
      for (const std::int64_t n : x.shape())
        if (n > 1) extents.insert(n);
    std::set<std::pair<std::int64_t, std::int64_t>> sizes; // blocks, width
    for (const std::int64_t n : extents)
      for (std::int64_t blocks = 2; blocks <= n; ++blocks)
        if (n % blocks == 0) {
          sizes.emplace(blocks, 1);
          sizes.emplace(blocks, n / blocks);
        }
    for (const auto& [name, numbers] : options_.numbers) sizes.emplace(numbers, 1);
    for (const auto& [blocks, width] : sizes)
      for (const bool comb : {false, true})
        if (!comb || width == 1)
          for (std::int64_t j = 1; j < blocks; ++j) ask(blocks, width, comb, j - 1, j);
    found_.swaps.assign(known_.begin(), known_.end());
    return std::move(found_);
  }

private:
  nn::StateDict called(const nn::StateDict& leaves) {
    ++found_.calls;
    nn::StateDict result = f_(leaves);
    for (auto& [name, y] : result)
      for (const double v : y.to(DType::f64).contiguous().to_vector<double>())
        if (!std::isfinite(v)) throw ValueError(fmt::format("find_joint_swaps: \"{}\" is not finite", name));
    return result;
  }

  void add_axis(std::vector<AxisSwap>& list, const std::string& name, int axis, std::int64_t n, std::int64_t blocks,
                std::int64_t width, bool comb, std::int64_t i, std::int64_t j) const {
    if (n % (blocks * width) != 0) return;
    const std::int64_t parts = n / (blocks * width);
    for (std::int64_t part = 0; part < parts; ++part)
      list.push_back(comb ? AxisSwap{name, axis, i * parts + part, j * parts + part, 1}
                          : AxisSwap{name, axis, (part * blocks + i) * width, (part * blocks + j) * width, width});
  }

  /// Subsets of one family of exchanges.
  void ask(std::int64_t blocks, std::int64_t width, bool comb, std::int64_t i, std::int64_t j) {
    swaps_.clear();
    constexpr std::size_t most = 60; // unknowns
    for (const auto& [name, x] : leaves_) {
      for (int axis = 0; axis < x.rank(); ++axis) add_axis(swaps_, name, axis, x.size(axis), blocks, width, comb, i, j);
      const auto numbers = options_.numbers.find(name);
      if (numbers != options_.numbers.end() && numbers->second == blocks && width == 1 && blocks > 2)
        swaps_.push_back({name, -1, i, j, 1});
    }
    at_leaves_ = swaps_.size();
    for (const auto& [name, shape] : outputs_)
      for (int axis = 0; axis < shape.rank(); ++axis)
        add_axis(swaps_, name, axis, shape[axis], blocks, width, comb, i, j);
    if (at_leaves_ == 0) return;
    ++found_.families;
    if (swaps_.size() > most) {
      ++found_.undecided;
      return;
    }
    starts_.clear();
    for (std::uint64_t draw = 0; draw < (options_.numbers.empty() ? 1 : draws_of_numbers); ++draw)
      starts_.push_back(with_numbers(i, j, draw));
    Equations equations(swaps_.size());
    learn(equations, {});
    for (std::size_t a = 0; a < at_leaves_; ++a) learn(equations, {a});
    for (std::size_t a = 0; a < at_leaves_; ++a)
      for (std::size_t b = a + 1; b < at_leaves_; ++b) learn(equations, {a, b});
    bool all = true;
    for (const Bits& solution : equations.solutions()) {
      JointSwap swap;
      for (std::size_t s = 0; s < swaps_.size(); ++s)
        if (solution[s]) swap.push_back(swaps_[s]);
      std::sort(swap.begin(), swap.end());
      if (known_.contains(swap)) continue;
      if (commutes(swap))
        known_.insert(std::move(swap));
      else
        all = false;
    }
    found_.undecided += all ? 0 : 1;
  }

  /// The leaves with both numbers in each index leaf that may hold any.
  nn::StateDict with_numbers(std::int64_t i, std::int64_t j, std::uint64_t draw) const {
    nn::StateDict all = leaves_;
    RandomStream random(options_.key.fold(draw));
    for (auto& [name, x] : all) {
      const auto numbers = options_.numbers.find(name);
      if (numbers == options_.numbers.end() || x.numel() < 2) continue;
      std::vector<std::int64_t> list(to_size(x.numel()));
      for (std::int64_t& v : list)
        v = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(numbers->second)));
      const std::size_t first = random.below(list.size());
      if (std::max(i, j) < numbers->second) {
        list[first] = i;
        list[(first + 1 + random.below(list.size() - 1)) % list.size()] = j;
      }
      x = Tensor::from(list, x.shape());
    }
    return all;
  }

  /// The leaves, even under each exchange but the odd ones; those are made or not.
  nn::StateDict point(const std::vector<std::size_t>& odd, std::size_t made) const {
    nn::StateDict all = starts_.front();
    for (std::size_t s = 0; s < at_leaves_; ++s) {
      const auto place = std::find(odd.begin(), odd.end(), s);
      for (auto& [name, x] : all) {
        if (name != swaps_[s].tensor) continue;
        if (place == odd.end())
          x = made_even(swaps_[s], x);
        else if ((made >> static_cast<std::size_t>(place - odd.begin()) & 1U) != 0)
          x = applied(swaps_[s], x);
      }
    }
    return all;
  }

  /// Equations from the part of f that is odd in each of these exchanges.
  void learn(Equations& equations, const std::vector<std::size_t>& odd) {
    Bits row(swaps_.size(), false);
    for (const std::size_t s : odd) row[s] = true;
    if (is_settled(equations, row)) return;
    std::vector<Tensor> sums(outputs_.size());
    for (std::size_t made = 0; made < (std::size_t{1} << odd.size()); ++made) {
      const nn::StateDict y = called(point(odd, made));
      const double sign = std::popcount(made) % 2 == 1 ? -1.0 : 1.0;
      for (std::size_t o = 0; o < sums.size(); ++o) {
        const Tensor term = y[o].second.to(DType::f64) * sign;
        sums[o] = sums[o].defined() ? sums[o] + term : term;
      }
    }
    for (std::size_t o = 0; o < sums.size(); ++o) split(equations, row, o, at_leaves_, sums[o]);
  }

  /// Nothing that it could teach is new: the exchanges at leaves cancel, and those at outputs are all zero.
  bool is_settled(const Equations& equations, const Bits& row) const {
    if (!equations.follows(row)) return false;
    for (std::size_t s = at_leaves_; s < swaps_.size(); ++s) {
      Bits output(swaps_.size(), false);
      output[s] = true;
      if (!equations.follows(output)) return false;
    }
    return true;
  }

  static double largest(const Tensor& y) {
    double most = 0.0;
    for (const double v : y.contiguous().to_vector<double>()) most = std::max(most, std::abs(v));
    return most;
  }

  /// The parts of output o that are even and odd under its exchanges from number `next` on.
  void split(Equations& equations, const Bits& row, std::size_t o, std::size_t next, const Tensor& part) {
    constexpr double smallest = 1e-10;
    if (largest(part) <= smallest * scales_[o]) return;
    while (next < swaps_.size() && swaps_[next].tensor != outputs_[o].first) ++next;
    if (next == swaps_.size()) {
      equations.add(row);
      return;
    }
    const Tensor made = applied(swaps_[next], part);
    split(equations, row, o, next + 1, (part + made) * 0.5);
    Bits odd = row;
    odd[next] = !odd[next];
    split(equations, odd, o, next + 1, (part - made) * 0.5);
  }

  bool commutes(const JointSwap& swap) {
    return std::all_of(starts_.begin(), starts_.end(), [&](const nn::StateDict& start) {
      const nn::StateDict before = called(start);
      nn::StateDict moved = start;
      for (auto& [name, x] : moved) x = swapped(swap, name, x);
      const nn::StateDict after = called(moved);
      for (std::size_t o = 0; o < before.size(); ++o) {
        const Tensor wanted = swapped(swap, before[o].first, before[o].second).to(DType::f64);
        if (!(largest(after[o].second.to(DType::f64) - wanted) <= options_.tolerance * scales_[o])) return false;
      }
      return true;
    });
  }

  const NamedFunction& f_;
  const nn::StateDict& leaves_;
  const SwapFinderOptions& options_;
  std::vector<std::pair<std::string, Shape>> outputs_;
  std::vector<double> scales_;  // by output: its largest entry, or a thousandth of the largest of all
  std::vector<AxisSwap> swaps_; // of the family: those of leaves, then those of outputs
  std::size_t at_leaves_ = 0;
  static constexpr std::uint64_t draws_of_numbers = 4; // some positions hold equal numbers in one draw
  std::vector<nn::StateDict> starts_;
  std::set<JointSwap> known_;
  FoundSwaps found_;
};

} // namespace

Tensor swapped(const JointSwap& swap, const std::string& name, const Tensor& x) {
  Tensor y = x;
  for (const AxisSwap& s : swap)
    if (s.tensor == name) y = applied(s, y);
  return y;
}

FoundSwaps find_joint_swaps(const NamedFunction& f, const nn::StateDict& leaves, const SwapFinderOptions& options) {
  return SwapFinder(f, leaves, options).run();
}

} // namespace eg::permute
