#pragma once
// Finds exchanges of indices along several axes at once under which a black-box function commutes.

#include "core/random.h"
#include "permute/symmetries.h"

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace eg::permute {

/// Two blocks of neighbouring indices that change places along one axis of a leaf or an output.
struct AxisSwap {
  std::string tensor;
  int axis = 0; ///< -1: the numbers that an index leaf holds
  std::int64_t first = 0, second = 0, width = 1;
  friend bool operator==(const AxisSwap&, const AxisSwap&) = default;
  friend bool operator<(const AxisSwap& a, const AxisSwap& b) {
    return std::tie(a.tensor, a.axis, a.first, a.second, a.width) <
           std::tie(b.tensor, b.axis, b.first, b.second, b.width);
  }
};
/// Exchanges of disjoint blocks, made together.
using JointSwap = std::vector<AxisSwap>;

struct SwapFinderOptions {
  /// On |f(p x) - p f(x)|, relative to the largest entry of each output at `leaves`, or a thousandth of that of all.
  double tolerance = 1e-9;
  RandomKey key = {}; ///< of the numbers that index leaves get
  /// How many numbers an index leaf may hold, by its name. Leaves that are not named keep their numbers.
  std::map<std::string, std::int64_t> numbers = {};
};

struct FoundSwaps {
  std::vector<JointSwap> swaps; ///< each commutes with f; of each family a basis
  std::int64_t families = 0;    ///< sets of exchanges that were asked about
  std::int64_t undecided = 0;   ///< of them, those of whose subsets perhaps not all was found
  std::int64_t calls = 0;       ///< of f
};

/// Finds which exchanges of two blocks, along any axes of leaves and outputs, commute with f when made together. It
/// calls f and knows nothing else of it.
///
/// A family is a pair of neighbouring places (i, i + 1), a number of blocks n and a width w: every axis whose extent is
/// a multiple of n w gives one exchange for each run of n w indices (for w = 1 another family has one for each comb of
/// n indices). n runs over the divisors of all extents of leaves, w over 1 and extent / n. Places that can be exchanged
/// while those between them cannot are not asked about. Exchanges of one family commute with each other, so those
/// subsets that commute with f are a vector space over the field of two elements. Its equations: let each leaf be even
/// or odd under each of its exchanges. f of it has an odd part under a set of output exchanges only if, in each subset
/// that commutes, the numbers of odd exchanges at leaves and outputs are even together. All leaves are even at first,
/// then one exchange or two are odd. Solutions are then tried at the leaves as they are given, so each swap that is
/// returned commutes.
///
/// `leaves`: f64 with values in general position, and i64. An index leaf of two numbers is not renumbered. Throws what
/// f throws, ValueError for outputs that are not finite.
FoundSwaps find_joint_swaps(const NamedFunction& f, const nn::StateDict& leaves, const SwapFinderOptions& options = {});

/// The tensor as a swap moves it.
Tensor swapped(const JointSwap& swap, const std::string& name, const Tensor& x);

} // namespace eg::permute
