// The functions of exact mode against the C library's in long double, and at arguments that are special.

#include "core/exact/elementary.h"
#include "core/ops.h"
#include "core/random.h"
#include "core/reduction.h"
#include "unit/core_ulp.h"

#include <bit>
#include <cmath>
#include <doctest/doctest.h>
#include <limits>
#include <string>
#include <vector>

using namespace eg;

namespace {

struct Function {
  const char* name;
  double (*ours)(double);
  double (*theirs)(double);
  long double (*truth)(long double);
  double bound;
};

#define EG_FUNCTION(NAME, BOUND)                                                                                       \
  Function {                                                                                                           \
#NAME, &exact::NAME, [](double x) { return std::NAME(x); }, [](long double x) { return std::NAME(x); }, BOUND      \
  }
const std::vector<Function> functions = {
    EG_FUNCTION(exp, 0.75),   EG_FUNCTION(exp2, 0.75),  EG_FUNCTION(expm1, 1.0),  EG_FUNCTION(log, 0.51),
    EG_FUNCTION(log2, 0.51),  EG_FUNCTION(log1p, 0.75), EG_FUNCTION(sin, 0.8),    EG_FUNCTION(cos, 0.8),
    EG_FUNCTION(tan, 1.0),    EG_FUNCTION(atan, 0.51),  EG_FUNCTION(erf, 1.5),    EG_FUNCTION(erfc, 2.5),
    EG_FUNCTION(asin, 0.51),  EG_FUNCTION(acos, 0.51),  EG_FUNCTION(sinh, 0.8),   EG_FUNCTION(cosh, 0.8),
    EG_FUNCTION(asinh, 0.75), EG_FUNCTION(acosh, 0.75), EG_FUNCTION(atanh, 0.75), EG_FUNCTION(log10, 0.51)};
#undef EG_FUNCTION

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Zeros of both signs, infinities, NaN, subnormal numbers, where exp, exp2 and erfc overflow and run out, integers
/// that are odd, even, and the last with a neighbour in steps of 1.
const std::vector<double> special = {0.0,
                                     1.0,
                                     0.5,
                                     2.0,
                                     3.0,
                                     2.5,
                                     infinity,
                                     std::numeric_limits<double>::quiet_NaN(),
                                     0x1p-1074,
                                     0x1.8p-1060,
                                     0x1p-1022,
                                     0x1p-54,
                                     std::numeric_limits<double>::max(),
                                     709.782712893384,
                                     709.7827128933841,
                                     745.1332191019411,
                                     745.1332191019412,
                                     708.4,
                                     1024.0,
                                     1023.9999999999999,
                                     1074.0,
                                     1075.0,
                                     1074.5,
                                     1080.5,
                                     26.5,
                                     27.5,
                                     28.5,
                                     0x1p53,
                                     0x1p53 - 1.0,
                                     0x1p52 + 1.0,
                                     0x1.fffffffffffffp-1,
                                     0x1.0000000000001p0};

std::vector<double> with_both_signs(const std::vector<double>& list) {
  std::vector<double> all = list;
  for (const double x : list) all.push_back(-x);
  return all;
}

/// Zeros and infinities with their sign, NaN for NaN, other numbers to a unit or the spacing of subnormal ones.
bool alike(double a, double b) {
  if (std::isnan(b)) return std::isnan(a);
  if (b == 0.0 || std::isinf(b)) return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
  return std::abs(a - b) <= std::max(2.0 * std::abs(b) * std::numeric_limits<double>::epsilon(), 0x1p-1074);
}

/// Bit patterns of all exponents, and numbers within the reach of each function's digits.
double argument(RandomStream& random, int i) {
  if (i % 3 == 0) return std::bit_cast<double>(random.next_u64());
  const double sign = 2.0 * random.uniform() - 1.0;
  if (i % 3 == 1) return sign * (i % 2 == 0 ? 1.25 : 30.0);
  return std::ldexp(sign, static_cast<int>(random.below(60)) - 48);
}

} // namespace

TEST_CASE("functions of exact mode are within their bounds of the truth") {
  for (const Function& f : functions) {
    RandomStream random({.seed = 1});
    double worst = 0.0, at = 0.0;
    for (int i = 0; i < 100000; ++i) {
      const double x = argument(random, i);
      const double error = test::ulp_error(f.ours(x), f.truth(static_cast<long double>(x)), 0.0L);
      if (error > worst) worst = error, at = x;
    }
    INFO(std::string(f.name), " ", at);
    CHECK(worst <= f.bound);
    CHECK(worst > 0.3); // it was measured
  }
  RandomStream random({.seed = 2});
  double worst = 0.0, at_x = 0.0, at_y = 0.0;
  for (int i = 0; i < 200000; ++i) {
    double x = std::abs(argument(random, i)), y = argument(random, i / 3);
    if (i % 4 == 0) { // results of every size from bases near 1
      x = 1.0 + std::ldexp(random.uniform() - 0.5, -10);
      y = std::ldexp(random.uniform() - 0.5, 21);
    }
    const double error = test::ulp_error(exact::pow(x, y), std::pow(static_cast<long double>(x), y), 0.0L);
    if (error > worst) worst = error, at_x = x, at_y = y;
  }
  INFO("pow ", at_x, " ", at_y);
  CHECK(worst <= 0.85);
}

TEST_CASE("the angle of a point in exact mode is within its bound of the truth") {
  RandomStream random({.seed = 4});
  double worst = 0.0, at_y = 0.0, at_x = 0.0;
  for (int i = 0; i < 200000; ++i) {
    double y = argument(random, i), x = argument(random, i / 3);
    if (i % 4 == 0) { // the same size, however large or small
      y = 2.0 * random.uniform() - 1.0;
      x = 2.0 * random.uniform() - 1.0;
      const int power = static_cast<int>(random.below(2000)) - 1000;
      y = std::ldexp(y, power), x = std::ldexp(x, power);
    }
    const double error = test::ulp_error(exact::atan2(y, x), std::atan2(static_cast<long double>(y), x), 0.0L);
    if (error > worst) worst = error, at_y = y, at_x = x;
  }
  INFO("atan2 ", at_y, " ", at_x);
  CHECK(worst <= 0.51);
  CHECK(worst > 0.3);
  for (const double y : with_both_signs(special))
    for (const double x : with_both_signs(special)) {
      INFO("atan2 of ", y, " and ", x, ": ", exact::atan2(y, x), ", not ", std::atan2(y, x));
      CHECK(alike(exact::atan2(y, x), std::atan2(y, x)));
    }
}

TEST_CASE("functions of exact mode treat special arguments as the C library does") {
  const std::vector<double> all = with_both_signs(special);
  for (const Function& f : functions)
    for (const double x : all) {
      INFO(std::string(f.name), " of ", x, ": ", f.ours(x), ", not ", f.theirs(x));
      CHECK(alike(f.ours(x), f.theirs(x)));
    }
  for (const double x : all)
    for (const double y : all) {
      INFO("pow of ", x, " and ", y, ": ", exact::pow(x, y), ", not ", std::pow(x, y));
      CHECK(alike(exact::pow(x, y), std::pow(x, y)));
    }
  CHECK_FALSE(alike(0.0, -0.0)); // the comparison notices a sign
  CHECK_FALSE(alike(1.0 + 0x1p-50, 1.0));
}

TEST_CASE("angles are reduced exactly, however large") {
  CHECK(exact::sin(1e22) == -0.8522008497671888);
  CHECK(exact::cos(1e22) == 0.523214785395139);
  // The double nearest to a multiple of pi/2 (J.-M. Muller, "Elementary functions", 3rd edition, 2016, section 11.3).
  const double nearest = std::ldexp(6381956970095103.0, 797);
  CHECK(exact::cos(nearest) == -4.687165924254628e-19);
  CHECK(std::abs(exact::sin(nearest)) == 1.0);
}

TEST_CASE("the rows use the functions of the mode") {
  const Tensor x = random_normal({1000}, {.seed = 3}, 0.0, 3.0, DType::f64);
  const auto agree = [&](double (*f)(double)) {
    const std::vector<double> from = x.to_vector<double>(), y = sin(x).to_vector<double>();
    for (std::size_t i = 0; i < from.size(); ++i)
      if (f(from[i]) != y[i]) return false;
    return true;
  };
  const auto library = [](double v) { return std::sin(v); };
  CHECK(agree(library));
  CHECK_FALSE(agree(&exact::sin)); // some of a thousand sines round another way
  const ReductionScope scope(Reduction::exact);
  CHECK(agree(&exact::sin));
  CHECK_FALSE(agree(library));
}
