#pragma once
// Renders the op reference of the documentation from the registry.

#include "core/op.h"

#include <string>

namespace eg {

/// docs/ops.md: a table of all rows, then for each its mathematics, inputs, attributes with defaults, outputs, what the
/// tape keeps, its gradient or why it has none and its permutation symmetries.
std::string op_reference_markdown();

/// The same of one row, from its mathematics on.
std::string op_reference_markdown(const OpDef& op);

} // namespace eg
