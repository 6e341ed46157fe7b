#pragma once
// Makes wrong copies of an op definition, each wrong in one way, for the laws to catch.

#include "core/op.h"

#include <functional>
#include <string>
#include <vector>

namespace eg::laws {

/// What is changed in a copy of a row.
enum class Mutation {
  scaled_gradients, ///< every gradient of the rule times 1.001
  shifted_gradient, ///< the elements of input `index`'s gradient moved by one place
  missing_gradient, ///< no gradient for input `index`
  turned_saved,     ///< the rule reads saved value `index` (16 on: an output) with its last axes exchanged
  scaled_adding,    ///< the rule that adds to a sum: its cotangents times 1.001
  scaled_output,    ///< the last output times 1.001; integers plus one, truth values negated
  shifted_output,   ///< the elements of the last output moved by one place
  shifted_indices,  ///< the kernel reads integer input `index` moved by one place
  inexact,          ///< the ordinary kernel where exactness is asked
  missing_leg,      ///< symmetry `symmetry` without the leg on input `index` (output: 16 on; its nth leg: 32 n on)
  other_axis,       ///< that leg on another axis
};
/// "gradients x 1.001"
const char* words(Mutation mutation);

struct Mutant {
  const OpDef* row;
  Mutation mutation;
  int index = 0;
  std::string symmetry = {};
  /// "gradient of input 1 missing"
  std::string name() const;
};

/// Every mutant of a row for which there is something to change.
std::vector<Mutant> mutants_of(const OpDef& op);

/// Calls f with the wrong row. One at a time: a row's functions carry no state, so the mutant in use is global here.
void with_mutant(const Mutant& mutant, const std::function<void(const OpDef&)>& f);

} // namespace eg::laws
