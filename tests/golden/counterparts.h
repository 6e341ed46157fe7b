#pragma once
// Rows of the registry without golden cases.

#include <vector>

namespace eg::golden {

/// A row and why PyTorch has nothing to compare it with.
struct NoCounterpart {
  const char* op;
  const char* reason;
};
const std::vector<NoCounterpart>& no_counterparts();

} // namespace eg::golden
