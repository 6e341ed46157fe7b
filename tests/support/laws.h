#pragma once
// The laws that every op row keeps. Each is a function of a row, so that the law files run them over the registry and
// the negative controls run them over rows that are wrong on purpose.

#include "core/op.h"

#include <string>
#include <vector>

namespace eg::laws {

/// What a law found about one row.
struct Verdict {
  int checked = 0;                   ///< comparisons made; a law that compared nothing has not passed
  double largest_error = 0.0;        ///< relative, of those comparisons that have one
  std::vector<std::string> failures; ///< "softmax [odd sizes]: differences give 0.31, the tape gives 0.29"

  bool pass() const { return failures.empty(); }
  void see(double error) { largest_error = error > largest_error ? error : largest_error; }
  void fail(std::string text) { failures.push_back(std::move(text)); }
  /// The first failures, a line each.
  std::string text() const;
};

using Law = Verdict (*)(const OpDef&);

// --- gradients ---

/// <v, J u> from central differences equals <J^T v, u> from the rule, in f64; each floating input has a gradient that
/// is not zero in some sample.
Verdict gradient_law(const OpDef& op);
/// The same for the gradient's gradient.
Verdict second_derivative_law(const OpDef& op);
/// A rule gives exactly what was asked for: nothing for the other inputs, the same numbers whatever else is asked, and
/// undefined cotangents count as zeros.
Verdict wants_law(const OpDef& op);
/// A rule that adds its gradient to a sum gives the bits of adding the ordinary rule's, the sign of a zero apart.
Verdict adding_law(const OpDef& op);
/// A rule reads every value that its row makes the tape keep.
Verdict saves_only_what_is_read(const OpDef& op);
/// A row without a rule refuses a gradient and says why.
Verdict no_gradient_law(const OpDef& op);

// --- symmetries ---

/// f(rho x) = rho f(x) for every symmetry that the row declares, f64 and f32; each one exercised by some sample.
Verdict symmetry_law(const OpDef& op);
/// vjp(rho x, rho g) = rho vjp(x, g) likewise.
Verdict backward_symmetry_law(const OpDef& op);
/// A symmetry that goes from inputs to outputs either mixes the indices of its legs (softmax's columns) or it does not:
/// then the outputs at one index come from the inputs at that index alone. The row says which.
Verdict mixing_law(const OpDef& op);
/// An element's value does not depend on where it lies: pointwise rows, rows that only move elements and axes that are
/// kept in a reduction permute bit for bit. Catches a vector tail with other arithmetic than the body.
Verdict placement_law(const OpDef& op);
/// Rows to which placement_law applies.
bool has_exact_axes(const OpDef& op);

/// In exact mode every declared symmetry holds bit for bit, forward and backward, f64 and f32; the exact kernel agrees
/// with plain loops and gives the same bits for any number of threads. A row that exact mode refuses refuses every
/// sample, in its own words.
Verdict exact_law(const OpDef& op);

// --- values ---

/// The kernel agrees with plain loops in f64: on the samples, on enlarged ones, in f64 and f32.
Verdict reference_law(const OpDef& op);
/// Strided, shifted and repeated inputs give the bits of packed ones, forward and backward.
Verdict layout_law(const OpDef& op);
/// Axes of extent 1 and 0: the right result or a clear refusal.
Verdict small_extent_law(const OpDef& op);
/// f32 results and gradients agree with f64 ones; outputs have the right type.
Verdict dtype_law(const OpDef& op);
/// 1, 2 and 3 threads give the same bits, forward and backward, also where the work is cut into several chunks.
Verdict threads_law(const OpDef& op);

/// Where the plain loops say that adding one number to an input (or to the first two) changes nothing, it changes no
/// more than rounding does in the kernel and in its gradients, for numbers near the end of what the type resolves.
Verdict offset_law(const OpDef& op);
/// Where the plain loops of large inputs grow with a power of them (0: not at all), kernel and gradients do so up to
/// 2^120 in f32 and 2^1000 in f64, as far as the results are in range.
Verdict large_law(const OpDef& op);

// --- contract ---

/// The row has all its parts and they fit together.
Verdict completeness_law(const OpDef& op);
/// Bad calls are refused with the words that the row promises, and leave nothing behind on an open tape.
Verdict errors_law(const OpDef& op);

/// Runs a law over every row of the registry and reports to doctest, one line a failure. `may_be_empty`: rows for
/// which it is right that the law compares nothing.
void enforce(Law law, bool (*may_be_empty)(const OpDef&) = nullptr);

} // namespace eg::laws
