#pragma once
// Lists the theorem catalogue: every identity that the project rests on, each as a measurement with a tolerance and a
// negative control. docs/catalogue.md holds the same list with the mathematics; the ids are the same.

#include "core/base/device.h"
#include "core/dtype.h"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace eg::permute {

class Case;
struct Claim;

enum class ClaimKind : std::uint8_t {
  identity,       ///< the statement as printed (or with a correction of the print alone) holds
  counterexample, ///< a printed claim that is false; its control is the claim, its error that of what holds instead
  erratum,        ///< the printed form fails (control), the corrected form holds (error)
  law,            ///< holds, and is not in the papers
};
/// "identity", "counterexample", "erratum", "law".
std::string_view name_of(ClaimKind kind);

/// How closely both sides must agree, relative to the largest entry of the expected side.
enum class Gate : std::uint8_t {
  bits,        ///< the same bits
  one_pass,    ///< f64 1e-11, f32 5e-6
  whole_model, ///< f64 1e-10, f32 1e-4: a pass through a model of any depth and its gradients
  training,    ///< f64 1e-10, f32 1e-4, after VerifyOptions::steps steps
};
double tolerance(Gate gate, DType dtype);

/// The least sizes that a row can be measured with: below them a permutation has nothing to move, or a control nothing
/// to spoil.
struct Needs {
  std::int64_t batch = 1, tokens = 2, dim = 2, heads = 1, hidden = 2, layers = 1;
  std::int64_t head_dim = 1; ///< dim / heads
  /// In f32: gradients of fewer elements may nearly cancel, and what is left is rounding beyond the gate.
  std::int64_t f32_tokens = 1, f32_dim = 1;
};

/// One row.
struct Identity {
  std::string id;    ///< "eq45", "thm4.1": stable
  std::string title; ///< a few words
  std::string paper =
      {}; ///< "CVPR" (Permutation Equivariance of Transformers and Its Applications), "" for what is new
  std::string equation = {}; ///< its number there, "" if it has none
  ClaimKind kind = ClaimKind::identity;
  Gate gate = Gate::one_pass;
  std::string statement; ///< one sentence
  std::string tex;       ///< the formula
  std::function<Claim(Case&)> run;
  /// The sides are two formulas for one number: they differ by rounding even in exact mode.
  bool two_formulas = false;
  /// The statement says what is all there is ("exactly", "only", "no other"): its run searches for counterexamples.
  bool sharp = false;
  /// The run takes exact sums whatever the options say.
  bool exact_sums = false;
  Needs needs = {};
};

/// Sizes and numbers of one verification. Every dimension of an identity follows from these.
struct VerifyOptions {
  DType dtype = DType::f64;
  std::int64_t batch = 2;
  std::int64_t tokens = 7;
  std::int64_t dim = 12;
  std::int64_t heads = 3;
  std::int64_t hidden = 20;
  std::int64_t layers = 2;
  std::int64_t steps = 60; ///< training steps of the twins
  std::uint64_t seed = 1;
  /// Exact reductions (core/reduction.h): the two sides of a row must then have the same bits, unless they are two
  /// formulas. Each row also runs with ordinary ones, to count the bits that differ there.
  bool exact = false;
  Device device = {};       ///< where both sides are computed; exact needs the CPU
  std::string filter = "*"; ///< glob over ids; "eq7" also finds the row whose equation number is 7
};

/// Throws ValueError that names the field: a size that is not 1 to 4096, heads that do not divide dim, exact on a
/// device. Throws DeviceError for a device that is not there. Sizes that are too small for a row: what_is_missing().
void check(const VerifyOptions& options);

/// What a row needs more of: "needs at least 3 tokens and 2 heads"; "" where it can be measured with these sizes.
std::string what_is_missing(const Identity& identity, const VerifyOptions& options);

struct ControlResult {
  std::string what;
  double error = 0.0;
  double must_exceed = 1e-3;
};

/// What one row gave; the fields of `equigrad verify --json`.
struct VerifyResult {
  std::string id, title, paper, equation;
  ClaimKind kind = ClaimKind::identity;
  DType dtype = DType::f64;
  Device device = {}; ///< where both sides were computed
  std::map<std::string, std::int64_t> sizes;
  std::uint64_t seed = 0;
  double error = 0.0;
  double tolerance = 0.0;
  ControlResult control;
  std::optional<bool> bitwise; ///< both sides have the same bits; none where the row is a counterexample
  std::int64_t compared = 0;   ///< elements on either side (those that are to be 0 left out)
  std::int64_t differing = 0;  ///< of them, those whose bits differ with ordinary reductions
  /// The same with exact reductions; none where they were not wanted.
  std::optional<std::int64_t> differing_exact = {};
  std::int64_t draws = 0;      ///< of numbers: another one while the control nearly agrees, five at most
  bool sharp = false;          ///< Identity::sharp
  std::int64_t candidates = 0; ///< tried in the search for counterexamples
  bool pass = false;
  std::string skipped; ///< why the row was not measured, what_is_missing(); "" where it was
  double ms = 0.0;
  std::string detail; ///< the comparison with the largest error, or why the row could not be run

  /// Measured, and it does not hold or its control does not fail.
  bool failed() const { return !pass && skipped.empty(); }
};

/// Every row, in the order of docs/catalogue.md.
const std::vector<Identity>& catalogue();

/// Why a row cannot be computed on a device; "" where it can.
std::string why_not_on(const Identity& identity, Device device);

/// Runs one row, unless the sizes are too small for it. An eg::Error thrown meanwhile becomes a failure with its
/// message in `detail`; so does a side that was not computed on options.device.
VerifyResult verify(const Identity& identity, const VerifyOptions& options);

/// Runs every row whose id fits options.filter, but for those that options.device cannot compute (why_not_on);
/// `progress` (may be empty) is called after each. Throws ValueError when no id fits, when the device can compute none
/// of those that do, or check(options) does.
std::vector<VerifyResult> run_catalogue(const VerifyOptions& options,
                                        const std::function<void(const VerifyResult&)>& progress = {});

/// True when a row is meant by a filter: is_numbered(), or the filter names an equation that the row checks
/// (permute/catalogue/equations.h).
bool matches(const Identity& identity, std::string_view filter);
/// True for a glob over the id, and, for rows of "CVPR", over "eq" and its equation number (each number of "8-11").
bool is_numbered(const Identity& identity, std::string_view filter);
/// Why no row is meant by a filter: an equation that states nothing to check, with the reason, or nothing of that name.
std::string why_nothing_fits(const std::string& filter);

/// Number of entries (a row is one, however many precisions it ran in) for each paper; those of no paper under "new".
std::map<std::string, std::int64_t> entries_by_paper(const std::vector<VerifyResult>& results);

/// {"results": [...], "summary": {"pass": n, "fail": n, "papers": {"CVPR": entries, ...}}} as docs and interfaces
/// describe it, two spaces deep. Numbers that are not finite become null.
std::string to_json(const std::vector<VerifyResult>& results);

} // namespace eg::permute
