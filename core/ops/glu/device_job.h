#pragma once
// Defines the arguments of the gated linear units on devices.

#include "core/dtype.h"

#include <cstdint>

namespace eg::device {

/// y = act(gate) up; with g, dgate = g up act'(gate) and dup = g act(gate). All packed.
struct GluJob {
  int gate_kind; ///< glu_kernels::Gate
  DType type;
  const void *gate, *up;
  const void* g; ///< backward; null: forward
  void* y;       ///< backward: dgate
  void* dup;     ///< backward
  std::int64_t count;
};

} // namespace eg::device
