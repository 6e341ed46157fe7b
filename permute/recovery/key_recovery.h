#pragma once
// Recovers keys from weights: the cloud has W', and W is public, or was before it was fine-tuned.

#include "permute/axes.h"

#include <string>
#include <vector>

namespace eg::permute {

/// Row and sorted-row matching. For each group of `axes` (which axes a scheme moves together is public) the
/// permutation that takes `known` to `observed` best: index i of a group is described by everything at i on
/// its axes, where axes of groups that are not found yet are sorted (W' = Pi^T W P: a row keeps its numbers, whatever
/// P), those of groups that are found are undone, and others are as they are; groups on the most numbers first; then
/// the assignment with the least sum of squared distances, each tensor in units of its standard deviation.
/// Sees: the transformed weights. Knows: the plain ones, or such as differ by a fine-tuning. O(n^2 k) for a group of n
/// with k numbers an index (an assignment costs O(n^3) where nearest ones collide).
/// ArrowMatch (USENIX Security 2025); key recovery from plain weights is the known-plaintext attack of any permutation.
/// Tensors of the map that either side lacks are not looked at. Throws ValueError when a group has no tensor left,
/// ShapeError when shapes differ or a tensor has more than two axes.
PermutationSet recover_key(const nn::StateDict& observed, const nn::StateDict& known, const AxisMap& axes);

/// The same permutation from one vector alone (a norm's gain, one token): gamma' = gamma P_C; the i-th smallest of
/// `observed` is the i-th smallest of `known`. O(d log d). Exact when no two numbers are equal. Throws ShapeError
/// unless both are [d].
Permutation sort_match(const Tensor& observed, const Tensor& known);

/// Q with known Q = observed in the least-squares sense: what any linear map of the features comes to, a permutation or
/// not, when d independent rows (weights, tokens) are known plain. known, observed [n, d] -> [d, d]. O(n d^2).
/// Schoenemann, Psychometrika 31 (1966) solves it among orthogonal maps; with d rows and no noise both agree. Throws
/// ShapeError, and ValueError when known has less than full rank.
Tensor recover_linear_map(const Tensor& observed, const Tensor& known);

} // namespace eg::permute
