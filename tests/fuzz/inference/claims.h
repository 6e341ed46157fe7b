#pragma once
// Checks what the inference claims of a program: f(p x) = p f(x), and that gradients move as the leaves do.

#include "fuzz/inference/program.h"
#include "permute/symmetries.h"

namespace eg::fuzz {

/// The symmetries that are inferred, from shapes or values as the program says. Throws what the inference throws.
permute::ModelSymmetries claims_of(const Program& program);

enum class Finding : std::uint8_t {
  sound,    ///< no element that was tried is wrong
  unsound,  ///< an element does not commute, beyond rounding
  thrown,   ///< the inference, or an element of its group, threw
  rounding, ///< differences in the fast mode that are gone where the order of sums cannot matter
  not_run,  ///< the program refuses the values that were drawn for its leaves, or gives NaN
};
/// "sound", "unsound", "thrown", "rounding", "not run".
const char* name_of(Finding finding);

struct CheckOptions {
  RandomKey key = {};
  int products = 4;    ///< random products of generators, tried beside the generators
  int generators = 16; ///< of more, so many are drawn
  /// A deliberate mistake, for the check of the check: this leaf stays where it is.
  std::optional<std::size_t> unmoved_leaf = {};
};

struct CheckResult {
  Finding finding = Finding::sound;
  double error = 0.0;     ///< the largest, relative
  std::string what = {};  ///< where it is: "y0", "gradient of x1", or the message
  int elements = 0;       ///< tried
  bool gradients = false; ///< compared too
};

/// In f64: every generator of every group, and products of them.
CheckResult check_claims(const Program& program, const permute::ModelSymmetries& claims, const CheckOptions& options);
/// Infers and checks.
CheckResult check_program(const Program& program, const CheckOptions& options);

/// max |a - b| / max(largest |b|, floor); infinite where shapes differ or one is NaN alone.
double distance(const Tensor& a, const Tensor& b, double floor);

} // namespace eg::fuzz
