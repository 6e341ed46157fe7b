#pragma once
// Renders what the registry says of a row for the documentation.

#include "core/op.h"

#include <string>

namespace eg {

/// Facts of a row, as docs/ops.md lists them: its mathematics, inputs, outputs, attributes with defaults, shapes, what
/// the tape keeps, why it has no gradient where it has none, its permutation symmetries and its cost.
std::string op_reference_markdown(const OpDef& op);

} // namespace eg
