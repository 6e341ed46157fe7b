#pragma once
// Tabulates how each symbol of sections 10.1 and 10.2, and the gradient with respect to it, is permuted by P_R and P_C.
// Each equation is a line of a table.

#include "permute/catalogue/case.h"

namespace eg::permute {

/// X_(P) = P_rows X P_columns for a symbol of the single-head block; 'R' P_R, 'C' P_C, '-' nothing on that axis.
/// Behind an axis of size n the permutation acts as a gather, so P_R S P_R^T is {'R', 'R'} and P_C^T W P_C {'C', 'C'}.
struct SymbolRule {
  enum class Of { value, gradient };
  const char* id;
  const char* equation;
  const char* symbol;
  Of of;
  char rows, columns;
  const char* note = "";
};

/// Whose equation it is: [P]'s P_R . P_C, or paper 001's P_R . P_C^T with every weight conjugated.
enum class Convention { cvpr, paper001 };

/// The row that checks a rule with its equation: both passes share one seed, the gradient comes from the tape.
Identity identity_of(const SymbolRule& rule, Convention convention = Convention::cvpr);
/// Paper 001's row shuffle alone: values and gradients of features move with P_R, gradients of weights stay.
Identity row_shuffle_identity(const SymbolRule& rule);

} // namespace eg::permute
