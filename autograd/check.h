#pragma once
// Public checkers: people have functions and theorems of their own.

#include "autograd/functional.h"
#include "core/op.h"
#include "core/random.h"

#include <string>
#include <vector>

namespace eg {

/// What a check found. `error` is relative; `detail` prints both numbers and the worst place.
struct CheckResult {
  bool pass = false;
  double error = 0.0;
  double tolerance = 0.0;
  std::string detail;
};

struct GradcheckOptions {
  double step = 1e-5;      ///< central difference step, relative to the size of the input
  double tolerance = 1e-6; ///< on |<v, J u> - <J^T v, u>| relative to the larger of the two and of |J^T v||u|
  int directions = 3;
  RandomKey key = {20240601, 0};
  bool second = false; ///< check the gradient's gradient instead
};

/// Compares <v, J u> from central differences with <J^T v, u> from the tape along random directions u, v. Floating
/// inputs must be f64. Numbers that are not finite fail. Throws DTypeError for other floating inputs, ValueError for
/// fewer than one direction.
CheckResult gradcheck(const TensorFunction& f, const std::vector<Tensor>& inputs, const GradcheckOptions& options = {});

struct SymmetryCheckOptions {
  double tolerance = 1e-11;
  int draws = 2; ///< permutations tried, never the identity
  RandomKey key = {20240602, 0};
  bool backward = true; ///< also vjp(rho x, rho' g) = rho vjp(x, g)
  bool bits = false;    ///< demand the same bits instead of the tolerance: what exact reductions promise
};

/// Draws permutations for the symmetry's legs and compares f(rho x) with rho' f(x), and the vector-Jacobian products.
/// Values that are not finite fail. Axes shorter than 2 throw ShapeError and fewer than one draw ValueError: nothing
/// would be checked.
CheckResult symmetry_check(const TensorFunction& f, const std::vector<Tensor>& inputs, const Symmetry& symmetry,
                           const SymmetryCheckOptions& options = {});

} // namespace eg
