#pragma once
// Draws random programs over the registry's rows, small enough for every permutation of their axes to be tried.

#include "fuzz/inference/program.h"

#include <map>

namespace eg::fuzz {

/// How large a drawn program may be.
struct ProgramLimits {
  std::int64_t elements = 160; ///< of any tensor
  int rank = 4;                ///< of any tensor but those of a row's own samples
  std::size_t leaves = 5;
  std::size_t steps = 9;
};

/// How often a row took part, and how often it ran on values and not on shapes (which rules a program out).
struct RowUses {
  std::map<std::string_view, std::int64_t> used, refused_on_shapes;
};

/// A program: leaves of rank 1 to 3 with extents 2 to 4, some used twice; steps with constants, computed indices and
/// pauses; one to three outputs. It runs on shapes and on values, and its outputs are finite. The same key gives the
/// same program.
Program random_program(RandomKey key, const ProgramLimits& limits = {}, RowUses* uses = nullptr);

} // namespace eg::fuzz
