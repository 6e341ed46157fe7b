#pragma once
// Finds the row permutations that a masked attention commutes with: exactly the automorphisms of its mask (mask-aut in
// docs/theory.md).

#include "core/tensor.h"
#include "permute/permutation.h"

#include <cstdint>
#include <vector>

namespace eg::permute {

/// A group of permutations of 0..degree-1.
struct PermutationGroup {
  std::int64_t degree = 0;
  std::vector<Permutation> generators; ///< none: the identity alone
  /// Sizes, each above 1, whose product is the group's order: the orbits of a chain of stabilisers.
  std::vector<std::int64_t> factors;

  /// Bits of the group's order: log2 of the product of `factors`.
  double log2_count() const;
  /// Points that the group carries into each other, each orbit and the list of them in ascending order.
  std::vector<std::vector<std::int64_t>> orbits() const;
};

/// A random element, nearly uniform: a product of generators replaced again and again (Celler, Leedham-Green, Murray,
/// Niemeyer and O'Brien, Communications in Algebra 23, 1995).
Permutation random_element(const PermutationGroup& group, RandomKey key);

/// M [..., T, T] gathered in rows and columns is M: M[..., p[i], p[j]] = M[..., i, j] for all i, j. Exact, 0.0 equals
/// -0.0. Throws ShapeError unless the mask is square and of the permutation's size, ValueError for NaN.
bool is_automorphism(const Tensor& mask, const Permutation& p);

/// Aut(M) of a mask [..., T, T], floating, u8 or bool: the permutations that is_automorphism accepts, which are those
/// that are automorphisms of every [T, T] slice. Tokens that can be exchanged are put together first, again and again,
/// which finds paddings, prefixes, windows and documents at once; what is left is searched by colour refinement
/// (Weisfeiler and Leman, 1968) with backtracking, one stabiliser after the other (Sims, 1970). Throws ShapeError,
/// DTypeError, ValueError for NaN, for more than 2048 tokens, and when a mask is so regular that the search visits more
/// than a million nodes.
PermutationGroup automorphisms(const Tensor& mask);

} // namespace eg::permute
