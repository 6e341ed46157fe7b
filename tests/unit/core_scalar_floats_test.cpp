// The vector kernels of sin, pow, fmod and their like on floats against the C library's double functions: arguments of
// any bits, special values, lanes outside of the vectors' range beside lanes within.

#include "core/ops/pointwise/scalar.h"
#include "core/ops/pointwise/scalar_kernels.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <doctest/doctest.h>
#include <limits>
#include <random>
#include <string>
#include <vector>

using namespace eg;
using namespace eg::pointwise;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr std::array special = {0.0F,
                                -0.0F,
                                1.0F,
                                -1.0F,
                                2.0F,
                                -2.0F,
                                3.0F,
                                -3.0F,
                                0.5F,
                                -0.5F,
                                infinity,
                                -infinity,
                                1e-45F,
                                -1e-45F,
                                2.5F,
                                -2.5F,
                                16777217.F,
                                1048575.F,
                                1048577.F,
                                0.999999F,
                                1.000001F,
                                3.4e38F,
                                -3.4e38F,
                                1.2e-38F,
                                100.F,
                                7.0F,
                                -7.0F,
                                0x1p-149F,
                                -126.5F,
                                -149.7F,
                                std::numeric_limits<float>::quiet_NaN()};

/// Half of all draws have any bits, the rest are special or of middling size.
struct Draw {
  std::mt19937_64 bits{20261127};
  float operator()() {
    switch (bits() % 4) {
    case 0:
      return special[bits() % special.size()];
    case 1:
      return static_cast<float>(static_cast<double>(bits() % 4000001) / 1e5 - 20.0);
    default:
      return std::bit_cast<float>(static_cast<std::uint32_t>(bits()));
    }
  }
};

/// |got - exact| in units in the last place of the float nearest to exact; infinite where NaN, infinity or the sign of
/// zero differ.
double error_of(float got, double exact) {
  const auto nearest = static_cast<float>(exact);
  if (std::isnan(exact) || std::isnan(got)) return std::isnan(exact) && std::isnan(got) ? 0.0 : infinity;
  if (std::isinf(nearest) || std::isinf(got)) return got == nearest ? 0.0 : infinity;
  if (got == 0.0F && nearest == 0.0F) return std::signbit(got) == std::signbit(nearest) ? 0.0 : infinity;
  const int exponent = std::max(exact == 0.0 ? -126 : std::ilogb(exact), -126);
  return std::abs(static_cast<double>(got) - exact) / std::ldexp(1.0, exponent - 23);
}

struct Worst {
  double error = 0.0;
  float at = 0.0F, beside = 0.0F;
  void see(float got, double exact, float a, float b = 0.0F) {
    if (const double e = error_of(got, exact); e > error) *this = {e, a, b};
  }
};

constexpr double bound = 0.5001; // a float between two neighbours 2^-40 from their middle may go to the wrong one
constexpr std::int64_t count = 1019, rounds = 400; // no multiple of any vector's lanes

Worst worst_of(Unary op, double (*truth)(double, double), double p) {
  Draw draw;
  Worst worst;
  std::vector<float> x(count), y;
  for (std::int64_t round = 0; round < rounds; ++round) {
    std::generate(x.begin(), x.end(), std::ref(draw));
    y = x; // in place
    vector_kernel(op)(y.data(), y.data(), count, &p);
    for (std::size_t i = 0; i < x.size(); ++i) worst.see(y[i], truth(static_cast<double>(x[i]), p), x[i]);
  }
  return worst;
}

struct Function {
  std::string name;
  Unary op;
  double (*truth)(double, double);
};
#define EG_FUNCTION(NAME)                                                                                              \
  Function {                                                                                                           \
#NAME, Unary::NAME, [](double x, double) { return std::NAME(x); }                                                  \
  }
const std::vector<Function> functions = {EG_FUNCTION(exp2), EG_FUNCTION(log2), EG_FUNCTION(sin), EG_FUNCTION(cos),
                                         EG_FUNCTION(tan),  EG_FUNCTION(atan), EG_FUNCTION(erf), EG_FUNCTION(erfc)};
#undef EG_FUNCTION

double power(double x, double y) { return std::pow(x, y); }

} // namespace

TEST_CASE("vector kernels of scalar functions give the nearest float") {
  if (vector_kernel(Unary::sin) == nullptr) return; // a processor without vectors keeps the C library's
  for (const Function& f : functions) {
    const Worst worst = worst_of(f.op, f.truth, 0.0);
    INFO(f.name, " at ", worst.at);
    CHECK(worst.error < bound);
  }
}

TEST_CASE("powers of floats give the nearest float and the C library's special values") {
  if (vector_kernel(Unary::pow_scalar) == nullptr) return;
  for (const double p : {0.0, 1.0, 2.0, 3.0, -1.0, -3.0, 31.0, 32.0, 33.0, -32.0, 0.5, -0.5, 2.5, 1.7, 1e10,
                         static_cast<double>(infinity), -static_cast<double>(infinity)}) {
    const Worst worst = worst_of(Unary::pow_scalar, power, p);
    INFO(worst.at, " to the power of ", p);
    CHECK(worst.error < bound);
  }
}

TEST_CASE("vector kernels of two floats give the nearest float, whichever of them is repeated") {
  if (vector_kernel(Binary::pow) == nullptr) return;
  struct Pair {
    Binary op;
    double (*truth)(double, double);
  };
  for (const Pair& f :
       {Pair{Binary::pow, power}, Pair{Binary::fmod, [](double a, double b) { return std::fmod(a, b); }},
        Pair{Binary::remainder, [](double a, double b) { return scalar::remainder(a, b); }}}) {
    Draw draw;
    Worst worst;
    std::vector<float> a(count), b(count), y(count);
    for (std::int64_t round = 0; round < 3 * rounds; ++round) {
      std::generate(a.begin(), a.end(), std::ref(draw));
      std::generate(b.begin(), b.end(), [&] {
        return draw.bits() % 2 == 0 ? draw() : static_cast<float>(static_cast<int>(draw.bits() % 41) - 20);
      });
      const auto steps = static_cast<Steps>(round % 3);
      if (steps == Steps::second) std::fill(a.begin(), a.end(), a.front());
      if (steps == Steps::first) std::fill(b.begin(), b.end(), b.front());
      vector_kernel(f.op)(a.data(), b.data(), y.data(), count, steps);
      for (std::size_t i = 0; i < y.size(); ++i)
        worst.see(y[i], f.truth(static_cast<double>(a[i]), static_cast<double>(b[i])), a[i], b[i]);
    }
    INFO(static_cast<int>(f.op), ": ", worst.at, ", ", worst.beside);
    CHECK(worst.error < bound);
  }
}

TEST_CASE("the bits of an element do not depend on its neighbours, also beside lanes outside of the vectors' range") {
  if (vector_kernel(Unary::sin) == nullptr) return;
  Draw draw;
  std::vector<float> a(count), b(count), y(count);
  std::int64_t differ = 0, others = 0;
  for (std::int64_t round = 0; round < 100; ++round) {
    for (float& x : a)
      x = draw.bits() % 16 == 0 ? 1e7F : static_cast<float>(static_cast<double>(draw.bits() % 4000001) / 1e5);
    std::generate(b.begin(), b.end(), std::ref(draw));
    for (const Unary op : {Unary::sin, Unary::cos, Unary::tan}) {
      vector_kernel(op)(a.data(), y.data(), count, nullptr);
      for (std::size_t i = 0; i < a.size(); ++i) {
        float alone = 0.0F;
        vector_kernel(op)(&a[i], &alone, 1, nullptr);
        differ += std::bit_cast<std::uint32_t>(alone) != std::bit_cast<std::uint32_t>(y[i]);
      }
    }
    for (const Binary op : {Binary::fmod, Binary::remainder, Binary::pow}) {
      vector_kernel(op)(a.data(), b.data(), y.data(), count, Steps::both);
      for (std::size_t i = 0; i < a.size(); ++i) {
        float alone = 0.0F;
        vector_kernel(op)(&a[i], &b[i], &alone, 1, Steps::both);
        differ += std::bit_cast<std::uint32_t>(alone) != std::bit_cast<std::uint32_t>(y[i]) &&
                  !(std::isnan(alone) && std::isnan(y[i]));
      }
    }
    others += std::count(a.begin(), a.end(), 1e7F);
  }
  CHECK(differ == 0);
  CHECK(others > 1000);
}

TEST_CASE("a neighbouring function is told apart") { // the measure above can fail
  if (vector_kernel(Unary::sin) == nullptr) return;
  const auto nearly_sine = [](double x, double) { return std::sin(x) * (1.0 + 0x1p-22); };
  CHECK(worst_of(Unary::sin, nearly_sine, 0.0).error > 1.0);
  const auto odd_power = [](double x, double p) { return x < 0.0 ? std::abs(std::pow(x, p)) : std::pow(x, p); };
  CHECK(worst_of(Unary::pow_scalar, odd_power, 3.0).error > 1.0);
}
