#pragma once
// Runs golden cases and says how far they are from what PyTorch computed.

#include "core/op.h"
#include "golden/fixture.h"

#include <string>
#include <vector>

namespace eg::golden {

/// Largest differences, each relative to the largest entry of its reference tensor (to `least` where all are smaller:
/// what is left of terms that cancel has the rounding errors of the terms).
struct Errors {
  double values = 0.0;
  double gradients = 0.0;
  double second = 0.0;
};
inline constexpr double least = 1.0 / 64.0;

/// What is allowed. f64: the file keeps 31 bits below a tensor's largest entry.
struct Bounds {
  double values;
  double gradients;
  double second;
};
inline constexpr Bounds bounds_f64 = {2e-9, 2e-9, 2e-9};
inline constexpr Bounds bounds_f32 = {5e-6, 5e-6, 5e-5};
/// The bounds for a row: those above but for the rows of exceptions() with a reason.
Bounds bounds_for(const std::string& op, DType dtype);

/// A row that may be further off in f32, and why.
struct Exception {
  const char* op;
  Bounds f32;
  const char* reason;
};
const std::vector<Exception>& exceptions();

/// What came out of one case in one element type.
struct Outcome {
  Errors errors;
  std::vector<std::string> failures; ///< with what was expected and what came
};

/// Runs the case with the row given (that of the registry, or one that is wrong on purpose) through call() and tapes:
/// outputs, J^T v, and the derivatives of <J^T v, w> by inputs and cotangents. A call that throws is a failure.
Outcome run(const Case& c, const OpDef& row, DType dtype);

} // namespace eg::golden
