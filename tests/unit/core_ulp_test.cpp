// docs/numerics/ulp.md: the accuracy of every floating row, against bounds, and what rows do with extremes.

#include "core/registry.h"
#include "unit/core_ulp.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fstream>
#include <limits>
#include <sstream>

using namespace eg;
using namespace eg::test;

namespace {

const std::string path = EQUIGRAD_SOURCE_DIR "/docs/numerics/ulp.md";

bool writes_docs() { return std::getenv("EQUIGRAD_WRITE_DOCS") != nullptr; }

Accuracy accuracy_of(const OpDef& op) {
  if (const std::optional<Accuracy> found = pointwise_accuracy(op)) return *found;
  return sample_accuracy(op);
}

bool measurable(const OpDef& op) { return !measurable_samples(op, DType::f32).empty(); }

std::string line_of(const OpDef& op, const Accuracy& a, const Extremes& e) {
  const auto cell = [](const std::string& text) { return text.empty() ? std::string("-") : text; };
  const bool alike = a.f32_bound == a.f64_bound;
  const std::string exact =
      op.no_exact.empty() ? fmt::format("{:.3g} | {:.3g}", a.exact_f32, a.exact_f64) : "refused | refused";
  const std::string bound =
      alike ? fmt::format("{:.3g}", a.f32_bound) : fmt::format("{:.3g}, {:.3g}", a.f32_bound, a.f64_bound);
  return fmt::format("| `{}` | {} | {:.3g} | {:.3g} | {} | {} | {} | {} | {} | {} | {} | {} | {} |", op.name,
                     test::name_of(a.unit), a.f32, a.f64, exact, bound, cell(e.nan), cell(e.plus), cell(e.minus),
                     cell(e.large), cell(e.subnormal), cell(e.constant), cell(e.masked));
}

/// A table's cells without blanks at the ends.
std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream stream(line);
  for (std::string cell; std::getline(stream, cell, '|');) {
    const std::size_t first = cell.find_first_not_of(' ');
    cells.push_back(first == std::string::npos ? "" : cell.substr(first, cell.find_last_not_of(' ') - first + 1));
  }
  return cells;
}

std::string line_in_docs(const std::string& text, std::string_view row) {
  const std::size_t at = text.find("\n| `" + std::string(row) + "` |");
  return at == std::string::npos ? std::string() : text.substr(at + 1, text.find('\n', at + 1) - at - 1);
}

/// The page was written on x86-64, where the truth of f64 rows has 64 bits. A long double of ARM64 has 113, so the
/// errors of exact mode in f64 are measured a little otherwise.
constexpr bool page_has_this_truth = std::numeric_limits<long double>::digits == 64;

/// Figures of three digits that differ by one unit of the last.
bool differ_by_a_unit(const std::string& a, const std::string& b) {
  const double x = std::stod(a), y = std::stod(b);
  return std::abs(x - y) <= 0.0101 * std::min(x, y);
}

/// The kinds of numbers but 0. Rows without exact mode leave their sums to OpenBLAS, whose kernels differ: what cancels
/// is 0 with some and tiny with others.
std::string without_zero(std::string kinds) {
  for (std::size_t at = kinds.find("0, "); at != std::string::npos; at = kinds.find("0, ")) kinds.erase(at, 3);
  const std::size_t wide = kinds.find(" (f64: ");
  if (wide != std::string::npos && kinds.substr(wide) == " (f64: " + kinds.substr(0, wide) + ")") kinds.resize(wide);
  return kinds;
}

constexpr const char* preamble = R"(# Accuracy of the operations

Written by the test `core_ulp_test` (`EQUIGRAD_WRITE_DOCS=1`), which holds every row to its bound, for f32 and f64. The
figures are the largest errors seen on the machine that wrote the page; other vector units differ a little below the
bounds. "Pointwise" rows are evaluated at 1.2 million (f32) and 250 thousand (f64) points: evenly among all bit patterns,
so at every exponent, subnormal numbers included, and densely in [-1.25, 1.25], [-20, 20], [-120, 120] and [-800, 800];
the truth is the formula in double for f32 and in long double for f64. The other rows are measured on their samples, and
(but `_backward` ones) on these times 2^-20 and 2^20, against their plain loops in f64, whose own rounding counts too.

The columns "exact" are exact mode, whose bits are the same on every machine. Its errors are too, but that of f64 by a unit
of the last digit: the truth is a long double, which has 64 bits on x86-64 and 113 on ARM64. There `affine` counts in units of
the larger of value and shift, and its bound is 1.01, because its product is rounded before the sum.

gelu, gelu_tanh, silu and their gated kin pass 4 ULP far to the left, where their values die away (f32 below 1e-30, mostly
subnormal): an error in the argument of exp is magnified there. Against 1 they stay below 4.

| unit | error 1 means |
|---|---|
| ULP | one unit in the last place of the exact value (subnormal: the spacing there) |
| ULP of g | the same of the larger of the exact value and the factor g: for slopes that cross 0 |
| u K Σ | u K times the sum of the terms' magnitudes, entry by entry; K terms; u = 2^-24, 2^-53. Rounding alone can reach it |
| u max | u times the largest magnitude of the output |
| bits | nothing is rounded |

The columns on the right say what kinds of numbers come out: when all of one input is NaN (by input, where they differ),
+Inf or -Inf (the first floating input); when the first input is multiplied by 2^120 (f64: 2^1000); when every input is
subnormal, where no row flushes to 0; when the elements of the first input are all 0.7; when the mask lets nothing through.
"index": the output is an integer.

Large inputs (times 2^40, 2^62, 2^100, 2^120; f64: 2^300, 2^520, 2^900, 2^1000) give the values of the plain loops to 5e-6
(f64: 5e-12) of the largest, wherever these are in the range of the type. In f64, where squares leave the range of the loops
too, the values are continued from those at 2^60 and 2^64. The law `extremes` asks the same of every floating input, and of
the gradients. What is not asked: `_backward` rows (what a forward pass saved would contradict the scaled input);
`attention_qkv` from 2^62 (f64: 2^520) on, whose scores are products of two scaled factors and leave the type; `fmod` and
`remainder`, where the quotient has more digits than the type.

Offsets: where the plain loops say that a number added to an input changes nothing (softmax, the losses, the normalisations,
differences), the law asks that 2^10 and -2^18 (f64: up to 2^47) change no more than 5e-6 (5e-13) of the largest output or
gradient. layer_norm, group_norm, instance_norm and attention round a mean or a product to the type, batch_norm, center, var
and std a mean to f64: there 32 u times the offset is allowed as well.

The law asks both, large inputs and offsets, of the kernels of exact reductions too.

| row | unit | f32 | f64 | exact f32 | exact f64 | bound | NaN | +Inf | -Inf | large | subnormal | equal | masked |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|
)";

} // namespace

TEST_CASE("every floating row keeps its bound, treats extremes as it says, and is in docs/numerics/ulp.md") {
  std::ostringstream old;
  old << std::ifstream(path, std::ios::binary).rdbuf();
  std::string wanted = preamble;
  for (const OpDef* op : registry()) {
    if (!measurable(*op)) continue;
    const Accuracy accuracy = accuracy_of(*op);
    const Extremes extremes = extremes_of(*op);
    const std::string name(op->name);
    CHECK_MESSAGE(accuracy.f32 <= accuracy.f32_bound, name, ": ", accuracy.worst);
    CHECK_MESSAGE(accuracy.f64 <= accuracy.f64_bound, name, ": ", accuracy.worst);
    CHECK_MESSAGE(accuracy.exact_f32 <= accuracy.f32_bound + accuracy.exact_slack, name, ": ", accuracy.worst);
    CHECK_MESSAGE(accuracy.exact_f64 <= accuracy.f64_bound + accuracy.exact_slack, name, ": ", accuracy.worst);
    for (const std::string& text : extremes.broken) FAIL_CHECK(name, ": ", text);
    const std::string line = line_of(*op, accuracy, extremes);
    wanted += line + "\n";
    if (writes_docs()) continue;
    std::vector<std::string> now = cells_of(line);
    std::vector<std::string> then = cells_of(line_in_docs(old.str(), op->name));
    INFO(name, ": run this test with EQUIGRAD_WRITE_DOCS=1 and commit docs/numerics/ulp.md");
    REQUIRE(then.size() == now.size());
    now[3] = now[4] = then[3] = then[4] = ""; // figures depend on the vector unit
    if (!page_has_this_truth && op->no_exact.empty() && differ_by_a_unit(now[6], then[6])) now[6] = then[6];
    if (!op->no_exact.empty()) {
      now[13] = without_zero(now[13]);
      then[13] = without_zero(then[13]);
    }
    CHECK(now == then);
  }
  if (writes_docs()) std::ofstream(path, std::ios::binary) << wanted;
}

TEST_CASE("the comparison with the page on other machines sees what is no rounding") {
  CHECK(differ_by_a_unit("0.597", "0.596"));
  CHECK(differ_by_a_unit("0", "0"));
  CHECK_FALSE(differ_by_a_unit("0.597", "0.58"));
  CHECK_FALSE(differ_by_a_unit("0", "0.001"));
  CHECK(without_zero("0, finite (f64: finite)") == "finite");
  CHECK(without_zero("0, finite (f64: finite, NaN)") == "finite (f64: finite, NaN)");
  CHECK(without_zero("0") == "0");
}

TEST_CASE("the measure of units in the last place") {
  CHECK(ulp_error(1.0F, 1.0L, 0.0L) == 0.0);
  CHECK(ulp_error(std::nextafter(1.0F, 2.0F), 1.0L, 0.0L) == 1.0);
  CHECK(ulp_error(1.0, 1.0L + 0x1p-53L, 0.0L) == 0.5);
  CHECK(ulp_error(0.0F, static_cast<long double>(std::numeric_limits<float>::denorm_min()), 0.0L) == 1.0);
  CHECK(ulp_error(std::numeric_limits<float>::infinity(), 1e39L, 0.0L) == 0.0);
  CHECK(ulp_error(std::numeric_limits<float>::max(), 1e39L, 0.0L) > 0.9);
  CHECK(ulp_error(std::numeric_limits<double>::quiet_NaN(), 1.0L, 0.0L) > 1e300);
  CHECK(ulp_error(0.0F, 0x1p-30L, 1.0L) < 0.01);
}
