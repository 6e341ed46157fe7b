#pragma once
// Checks gradients and symmetries of any function.

#include "autograd/functional.h"
#include "core/op.h"
#include "core/random.h"

#include <string>
#include <vector>

namespace eg {

/// What a check found. `error` is relative; `detail` prints both numbers and the worst place.
struct [[nodiscard]] CheckResult {
  bool pass = false;
  double error = 0.0;
  double tolerance = 0.0;
  std::string detail;
};

struct GradcheckOptions {
  double step = 1e-5; ///< central difference step, relative to the size of the input
  /// On |<v, J u> - <J^T v, u>| beyond what rounding f does to a difference, relative to the larger of the two and of
  /// |J^T v||u|, for each input by itself: an input with small gradients is not hidden by one with large ones.
  double tolerance = 1e-6;
  int directions = 3;
  RandomKey key = {20240601, 0};
  bool second = false; ///< check the gradient's gradient instead
};

/// Compares <v, J u> from central differences with <J^T v, u> from the tape along random directions u, v, u in one
/// input at a time. Floating inputs must be f64. Numbers that are not finite fail. Throws DTypeError for other floating
/// inputs, ValueError for fewer than one direction.
CheckResult gradcheck(const TensorFunction& f, const std::vector<Tensor>& inputs, const GradcheckOptions& options = {});

/// One permutation acting on the legs of a symmetry, which must live as long.
class SymmetryAction {
public:
  /// gather i64 [n]: place i of an axis gets what stood at gather[i].
  SymmetryAction(const Symmetry& symmetry, Tensor gather);

  /// On the inputs of a call: legs gathered, values relabelled. Undefined and missing tensors are left out.
  std::vector<Tensor> on_inputs(std::vector<Tensor> list) const;
  /// On a list parallel to the inputs or to the outputs, without relabelling: gradients, or the outputs themselves.
  std::vector<Tensor> on(Leg::Side side, std::vector<Tensor> list) const;

private:
  /// Row j of a table stands at inverse[j] after the gather; labels outside the table (ignore_index) stay.
  Tensor relabelled(const Tensor& labels) const;

  const Symmetry* symmetry_;
  Tensor gather_;
  Tensor inverse_;
};

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
