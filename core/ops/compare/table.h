#pragma once
// Lists the comparisons, the logical operations and the questions about one number, for the CPU and for devices.

#include <cstdint>

// clang-format off
// name, mathematics, value from a and b, its result for a below b and for a above b
#define EG_COMPARISONS(X)                                                                                              \
  X(eq, "y = [a = b]; false beside NaN",  a == b, (Verdict{false, false}))                                             \
  X(ne, "y = [a != b]; true beside NaN",  a != b, (Verdict{true, true}))                                               \
  X(lt, "y = [a < b]; false beside NaN",  a < b,  (Verdict{true, false}))                                              \
  X(le, "y = [a <= b]; false beside NaN", a <= b, (Verdict{true, false}))                                              \
  X(gt, "y = [a > b]; false beside NaN",  a > b,  (Verdict{false, true}))                                              \
  X(ge, "y = [a >= b]; false beside NaN", a >= b, (Verdict{false, true}))
#define EG_LOGIC(X)                                                                                                    \
  X(logical_and, "y = a and b", (a != 0) & (b != 0))                                                                    \
  X(logical_or,  "y = a or b",  (a != 0) | (b != 0))                                                                    \
  X(logical_xor, "y = a or b, not both", a != b)
// name, mathematics, value from x
#define EG_QUESTIONS(X)                                                                                                \
  X(isnan,    "y = [x is NaN]",                 std::isnan(x))                                                         \
  X(isinf,    "y = [x is inf or -inf]",         std::isinf(x))                                                         \
  X(isfinite, "y = [x is neither NaN nor inf]", std::isfinite(x))
// clang-format on

namespace eg::compare {

#define EG_NAME(NAME, ...) NAME,
/// The rows of two inputs.
enum class Relation : std::uint8_t { EG_COMPARISONS(EG_NAME) EG_LOGIC(EG_NAME) count };
/// The rows of one input.
enum class Question : std::uint8_t { EG_QUESTIONS(EG_NAME) logical_not, count };
#undef EG_NAME

} // namespace eg::compare
