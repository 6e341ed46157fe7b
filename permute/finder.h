#pragma once
// Finds symmetries of a black-box function.

#include "autograd/functional.h"
#include "core/op.h"
#include "permute/automorphisms.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace eg::permute {

struct FinderOptions {
  double tolerance = 1e-9; ///< on |f(p x) - p f(x)| relative to the largest entry of each output
  std::int64_t brute = 6;  ///< up to this many remaining points all orders are tried: brute! calls
};

struct FoundGroup {
  PermutationGroup group;
  bool maximal = false;   ///< no permutation outside `group` commutes with f
  std::int64_t calls = 0; ///< of f
};

/// The permutations of 0..degree-1 that `commutes` accepts, which must be a group: found by asking alone, as
/// find_symmetries says below.
FoundGroup find_group(std::int64_t degree, const std::function<bool(const Permutation&)>& commutes,
                      std::int64_t brute = FinderOptions{}.brute);

/// The permutations p for which f(p x) = p f(x), where p acts on all legs of `axes` at once (see eg::Symmetry), found
/// by calling f alone. Inputs must be in general position (drawn at random, f64): what holds at them counts as holding.
///
/// Points that may be exchanged are put together (that is an equivalence), then the classes of equal size likewise, and
/// so on; where nothing more can be exchanged, runs of neighbours and combs of equal stride are tried as wholes (heads,
/// windows, channels). At most `brute` remaining points are brought into every order, which proves that nothing was
/// missed as long as no run or comb was guessed. Throws ShapeError when legs differ in extent, ValueError when there is
/// no leg or an output at the inputs is not finite.
FoundGroup find_symmetries(const TensorFunction& f, const std::vector<Tensor>& inputs, const Symmetry& axes,
                           const FinderOptions& options = {});

} // namespace eg::permute
