#pragma once
// Finds the automorphisms of a square matrix, and the token permutations that a masked attention commutes with
// (mask-aut in docs/catalogue.md).

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
  /// Whether p is an element. It lists the group: throws ValueError for more than 2^16 elements.
  bool contains(const Permutation& p) const;
};

/// A random element, nearly uniform: a product of generators replaced again and again (Celler, Leedham-Green, Murray,
/// Niemeyer and O'Brien, Communications in Algebra 23, 1995).
Permutation random_element(const PermutationGroup& group, RandomKey key);

/// What softmax(scores + mask) sees of a mask [..., T, T]: floating masks as the differences M_ij - max_k M_ik, without
/// rounding as f64 [2, ..., T, T] (the rounded difference and what rounding took), since a number added to a whole row
/// changes no weight; u8 and bool masks, which say open or closed, as they are. A row that is -inf throughout stays so:
/// it weighs no token and is unlike every other row; one that is -1e9 throughout counts as a row of zeros, which
/// it is but for rounding. For generic weights attention commutes with P if and only if P is an automorphism of the
/// result. Throws ShapeError unless the mask is square, DTypeError for i64, ValueError for NaN and +inf.
Tensor softmax_form(const Tensor& mask);

/// M [..., T, T] gathered in rows and columns is M: M[..., p[i], p[j]] = M[..., i, j] for all i, j. Exact, 0.0 equals
/// -0.0. Throws ShapeError unless the mask is square and of the permutation's size, ValueError for NaN.
bool is_automorphism(const Tensor& mask, const Permutation& p);

/// Aut(M) of a matrix [..., T, T], floating, u8 or bool: the permutations that is_automorphism accepts, which are those
/// that are automorphisms of every [T, T] slice. A masked attention's are automorphisms(softmax_form(mask)). Tokens
/// that can be exchanged are put together first, again and again, which finds paddings, prefixes, windows and documents
/// at once; what is left is searched by colour refinement (Weisfeiler and Leman, 1968) with backtracking, one
/// stabiliser after the other (Sims, 1970). Throws ShapeError, DTypeError, ValueError for NaN, for more than 2048
/// tokens, and when a mask is so regular that the search visits more than a million nodes.
PermutationGroup automorphisms(const Tensor& mask);

} // namespace eg::permute
