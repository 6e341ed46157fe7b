#pragma once
// Lists every op definition and finds them by name.

#include "core/op.h"

namespace eg {

/// Every row, in the order of the list in registry.cpp.
std::span<const OpDef* const> registry();

/// The row of that name. Throws ValueError that offers the nearest names.
const OpDef& find_op(std::string_view name);

} // namespace eg
