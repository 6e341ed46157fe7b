#pragma once
// Counts by trying all of them which permutations of the leaves' axes a program commutes with, and compares with what
// the inference gives.

#include "fuzz/inference/program.h"
#include "permute/symmetries.h"

namespace eg::fuzz {

struct BruteForceOptions {
  RandomKey key = {};
  std::int64_t most_combinations = 2000;  ///< of permutations of all axes of all leaves
  std::int64_t most_output_orders = 1000; ///< of one output's axes
};

/// What comes out, in the group of all permutations of all axes of the leaves (and of the numbers that leaves hold).
struct BruteForce {
  enum class Outcome : std::uint8_t {
    skipped, ///< too many combinations, or an output of whole numbers
    whole,   ///< what is inferred is all there is
    smaller, ///< something was missed
    larger,  ///< something that is inferred does not commute
  };
  Outcome outcome = Outcome::skipped;
  std::int64_t combinations = 0, inferred = 0, found = 0; ///< found: that commute
};

/// A combination commutes when some permutation of the axes of each output restores it, the same one at several draws
/// of the leaves. Whole cosets of the inferred group are tried at one of their members.
BruteForce try_all(const Program& program, const permute::ModelSymmetries& claims,
                   const BruteForceOptions& options = {});

} // namespace eg::fuzz
