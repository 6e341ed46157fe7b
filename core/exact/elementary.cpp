#include "core/exact/elementary.h"

#include "core/reduction.h"
#include "core/simd/coefficients.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>

namespace eg::exact {
namespace {

using Format = simd::FloatFormat<double>;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double rounder = Format::rounder; // adding and subtracting it rounds to an integer
constexpr double largest_whole = 0x1p53;    // every double from there on is an even integer

double magnitude(double x) { return std::bit_cast<double>(std::bit_cast<std::uint64_t>(x) << 1 >> 1); }
bool is_negative(double x) { return std::bit_cast<std::uint64_t>(x) >> 63 != 0; }
double signed_as(double size, double sign) { return is_negative(sign) ? -size : size; }
/// 2^n for -1022 <= n <= 1023.
double power_of_two(std::int64_t n) { return std::bit_cast<double>(static_cast<std::uint64_t>(n + 1023) << 52); }

// --- numbers of two doubles ---

/// hi + lo with |lo| at most half a unit in the last place of hi.
struct Wide {
  double hi = 0.0, lo = 0.0;
};

constexpr Wide exact_sum(double a, double b) {
  const double s = a + b;
  const double t = s - a;
  return {s, (a - (s - t)) + (b - t)};
}
/// The same for |a| >= |b|, or a = 0.
constexpr Wide ordered_sum(double a, double b) {
  const double s = a + b;
  return {s, b - (s - a)};
}
/// The upper 26 bits of a; the rest has 27.
double upper(double a) { return std::bit_cast<double>(std::bit_cast<std::uint64_t>(a) & ~std::uint64_t{0x7FFFFFF}); }

Wide exact_product(double a, double b) {
  const double p = a * b;
  const double ah = upper(a), al = a - ah, bh = upper(b), bl = b - bh;
  return {p, ((ah * bh - p) + (ah * bl + al * bh)) + al * bl};
}
Wide operator+(Wide a, Wide b) {
  const Wide s = exact_sum(a.hi, b.hi);
  return ordered_sum(s.hi, s.lo + (a.lo + b.lo));
}
Wide operator*(Wide a, Wide b) {
  const Wide p = exact_product(a.hi, b.hi);
  return ordered_sum(p.hi, p.lo + (a.hi * b.lo + a.lo * b.hi));
}
Wide operator*(Wide a, double b) {
  const Wide p = exact_product(a.hi, b);
  return ordered_sum(p.hi, p.lo + a.lo * b);
}
Wide operator/(Wide a, Wide b) {
  const double q = a.hi / b.hi;
  const Wide p = exact_product(q, b.hi);
  return ordered_sum(q, (((a.hi - p.hi) - p.lo) + a.lo - q * b.lo) / b.hi);
}
Wide operator-(Wide a) { return {-a.hi, -a.lo}; }
/// For a >= 0; IEEE 754 rounds the square root of a double as it rounds + - * /.
Wide root(Wide a) {
  const double s = std::sqrt(a.hi);
  if (s == 0.0) return {s, 0.0};
  const Wide p = exact_product(s, s);
  return ordered_sum(s, (((a.hi - p.hi) - p.lo) + a.lo) / (2.0 * s));
}
/// Times a power of two.
Wide times_power(Wide a, double power) { return {a.hi * power, a.lo * power}; }
double rounded(Wide a) { return a.hi + a.lo; }

/// c[0] + c[1] x + ...
template <std::size_t n> double polynomial(const std::array<double, n>& c, double x) {
  double y = c[n - 1];
  for (std::size_t i = n - 1; i > 0; --i) y = y * x + c[i - 1];
  return y;
}

constexpr Wide ln2 = {Format::ln2_high, Format::ln2_low}; // an integer of 11 bits times ln2.hi is exact
constexpr Wide ln2_exactly = {0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56}; // to all digits of both
constexpr Wide reciprocal_ln2 = {0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56};
constexpr Wide reciprocal_ln10 = {0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57};
constexpr Wide half_pi = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54};
constexpr Wide two_over_root_pi = {0x1.20dd750429b6dp+0, 0x1.1ae3a914fed8p-56};

// --- exponentials ---

/// e^x = 2^n (1 + expm1).
struct SplitExp {
  std::int64_t n;
  Wide expm1;
};

/// For |x| < 2000.
SplitExp split_exp(Wide x) {
  const double n = (x.hi * reciprocal_ln2.hi + rounder) - rounder;
  const Wide r = exact_sum(x.hi - n * ln2.hi, x.lo - n * ln2.lo); // the first difference is exact
  double tail = Format::exp_tail[std::size(Format::exp_tail) - 1];
  for (std::size_t i = std::size(Format::exp_tail) - 1; i > 0; --i) tail = tail * r.hi + Format::exp_tail[i - 1];
  return {static_cast<std::int64_t>(n), ordered_sum(r.hi, r.hi * r.hi * tail + (r.lo + r.lo * r.hi))};
}

/// m 2^n, rounded twice where it is subnormal.
double scaled(double m, std::int64_t n) {
  const std::int64_t half = n / 2;
  return m * power_of_two(half) * power_of_two(n - half);
}

constexpr double exp_most = 720.0; // beyond, e^x is infinite, and e^-x is 0 below -exp_least
constexpr double exp_least = -760.0;

double exp_of(Wide x) {
  if (x.hi > exp_most) return infinity;
  if (x.hi < exp_least) return 0.0;
  const SplitExp e = split_exp(x);
  return scaled(rounded(exact_sum(1.0, e.expm1.hi) + Wide{e.expm1.lo, 0.0}), e.n);
}

// --- logarithms ---

/// x = m 2^k with m in [sqrt(1/2), sqrt 2), for x > 0 and finite.
struct SplitNumber {
  double m;
  std::int64_t k;
};
SplitNumber split_number(double x) {
  std::int64_t k = 0;
  if (x < std::numeric_limits<double>::min()) {
    x *= 0x1p54;
    k = -54;
  }
  constexpr std::uint64_t root_half = 0x3FE6A09E667F3BCD, one = 0x3FF0000000000000;
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(x) + (one - root_half);
  k += static_cast<std::int64_t>(bits >> 52) - 1023;
  return {std::bit_cast<double>((bits & 0xFFFFFFFFFFFFF) + root_half), k};
}

/// ln m = 2 atanh s = 2 s (1 + z/3 + z^2/5 + ...), for m of split_number.
/// s = (m - 1) / (m + 1), z = s^2 < 0.0295.
Wide log_of_mantissa(double m) {
  static constexpr std::array<double, 10> tail = {1.0 / 7,  1.0 / 9,  1.0 / 11, 1.0 / 13, 1.0 / 15,
                                                  1.0 / 17, 1.0 / 19, 1.0 / 21, 1.0 / 23, 1.0 / 25};
  constexpr Wide third = {1.0 / 3, 0x1.5555555555555p-56}, fifth = {1.0 / 5, -0x1.999999999999ap-57};
  const Wide s = Wide{m - 1.0, 0.0} / exact_sum(m, 1.0);
  const Wide z = s * s;
  const Wide series = z * (third + z * (fifth + Wide{z.hi * polynomial(tail, z.hi), 0.0}));
  const Wide twice = {2.0 * s.hi, 2.0 * s.lo};
  return twice + twice * series;
}

Wide log_of(double x) {
  const SplitNumber parts = split_number(x);
  const auto k = static_cast<double>(parts.k);
  return Wide{k * ln2.hi, k * ln2.lo} + log_of_mantissa(parts.m);
}

/// What a logarithm is where log_of is not defined.
bool is_usual(double x) { return x > 0.0 && x < infinity; }
double unusual_log(double x) {
  if (x == 0.0) return -infinity;
  return x < 0.0 ? nan : x;
}

// --- angles ---

/// The low and the high half of a product of 64 bits.
struct Words {
  std::uint64_t low, high;
};
Words product(std::uint64_t a, std::uint64_t b) {
  constexpr std::uint64_t half = 0xFFFFFFFF;
  const std::uint64_t low = (a & half) * (b & half);
  const std::uint64_t cross = (a >> 32) * (b & half) + (low >> 32);
  const std::uint64_t other = (a & half) * (b >> 32) + (cross & half);
  return {other << 32 | (low & half), (a >> 32) * (b >> 32) + (cross >> 32) + (other >> 32)};
}

/// The bits of 2 / pi below the point, after 64 zeros: coefficients.py prints them.
constexpr std::uint64_t two_over_pi[] = {0,
                                         0xA2F9836E4E441529,
                                         0xFC2757D1F534DDC0,
                                         0xDB6295993C439041,
                                         0xFE5163ABDEBBC561,
                                         0xB7246E3A424DD2E0,
                                         0x06492EEA09D1921C,
                                         0xFE1DEB1CB129A73E,
                                         0xE88235F52EBB4484,
                                         0xE99C7026B45F7E41,
                                         0x3991D639835339F4,
                                         0x9C845F8BBDF9283B,
                                         0x1FF897FFDE05980F,
                                         0xEF2F118B5A0A6D1F,
                                         0x6D367ECF27CB09B7,
                                         0x4F463F669E5FEA2D,
                                         0x7527BAC7EBE5F17B,
                                         0x3D0739F78A5292EA,
                                         0x6BFB5FB11F8D5D08,
                                         0x56033046FC7B6BAB};

/// x = quadrant pi/2 + rest, |rest| <= pi/4; quadrant modulo 4.
struct Angle {
  unsigned quadrant;
  Wide rest;
};

/// For finite x. M. Payne, R. Hanek, "Radian reduction for trigonometric functions", SIGNUM Newsletter 18, 1983: of
/// x 2/pi only those bits of 2/pi are multiplied that reach the last two bits before the point and what follows.
Angle reduced(double x) {
  const double size = magnitude(x);
  if (size <= 0.78539816339744830962) return {0, {x, 0.0}};
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(size);
  const std::uint64_t mantissa = (bits & 0xFFFFFFFFFFFFF) | 0x10000000000000;
  const std::int64_t first =
      static_cast<std::int64_t>(bits >> 52) - 1075 - 2 + 64; // x is an integer times 2^(first - 62)
  const auto word = static_cast<std::size_t>(first / 64);
  const auto shift = static_cast<unsigned>(first % 64);
  const auto window = [&](std::size_t i) {
    return shift == 0 ? two_over_pi[word + i]
                      : two_over_pi[word + i] << shift | two_over_pi[word + i + 1] >> (64 - shift);
  };
  // 192 bits, the weight of the highest is 2.
  const Words p0 = product(mantissa, window(2)), p1 = product(mantissa, window(1));
  const std::uint64_t middle = p0.high + p1.low;
  const std::uint64_t high = mantissa * window(0) + p1.high + (middle < p0.high ? 1 : 0);
  unsigned quadrant = static_cast<unsigned>(high >> 62);
  std::uint64_t a = high << 2 | middle >> 62, b = middle << 2 | p0.low >> 62; // the fraction
  const bool up = a >> 63 != 0;
  if (up) { // to the nearest quadrant, from above
    ++quadrant;
    a = ~a;
    b = ~b;
  }
  const auto zeros = static_cast<unsigned>(std::countl_zero(a | 1));
  if (zeros > 0) {
    a = a << zeros | b >> (64 - zeros);
    b <<= zeros;
  }
  const Wide fraction =
      ordered_sum(static_cast<double>(a >> 11) * 0x1p-53, static_cast<double>((a & 0x7FF) << 42 | b >> 22) * 0x1p-106);
  const double unit = power_of_two(-static_cast<std::int64_t>(zeros)) * (up ? -1.0 : 1.0);
  const Wide rest = half_pi * Wide{fraction.hi * unit, fraction.lo * unit};
  return x < 0.0 ? Angle{(0U - quadrant) % 4, -rest} : Angle{quadrant % 4, rest};
}

/// Taylor's series in |x| <= pi/4: what it leaves out is below 2^-62 of the value.
constexpr std::array<double, 9> sine_tail() {
  std::array<double, 9> c{};
  double factorial = 1.0;
  for (std::size_t i = 0; i < c.size(); ++i) {
    const auto n = static_cast<double>(2 * i + 2);
    factorial *= n * (n + 1.0); // below 2^53 up to 18!; 19! has 2^16 as a factor
    c[i] = (i % 2 == 0 ? -1.0 : 1.0) / factorial;
  }
  return c;
}
constexpr std::array<double, 9> cosine_tail() {
  std::array<double, 9> c{};
  double factorial = 2.0;
  for (std::size_t i = 0; i < c.size(); ++i) {
    const auto n = static_cast<double>(2 * i + 3);
    factorial *= n * (n + 1.0);
    c[i] = (i % 2 == 0 ? 1.0 : -1.0) / factorial;
  }
  return c;
}

Wide sine_near_zero(Wide x) {
  static constexpr auto tail = sine_tail();
  const double z = x.hi * x.hi;
  return ordered_sum(x.hi, x.hi * z * polynomial(tail, z) + x.lo * (1.0 - 0.5 * z));
}
Wide cosine_near_zero(Wide x) {
  static constexpr auto tail = cosine_tail();
  const Wide z = exact_product(x.hi, x.hi);
  const Wide c = ordered_sum(1.0, -0.5 * z.hi);
  return ordered_sum(c.hi, c.lo + (z.hi * z.hi * polynomial(tail, z.hi) - (0.5 * z.lo + x.hi * x.lo)));
}

/// sin(x + turns pi/2)
double sine_of(double x, unsigned turns) {
  if (!(magnitude(x) < infinity)) return nan;
  const Angle a = reduced(x);
  const unsigned quadrant = (a.quadrant + turns) % 4;
  const double y = rounded(quadrant % 2 == 0 ? sine_near_zero(a.rest) : cosine_near_zero(a.rest));
  return quadrant < 2 ? y : -y;
}

/// arctan(k / 8)
constexpr Wide atan_of_eighths[] = {{0.0, 0.0},
                                    {0x1.fd5ba9aac2f6ep-4, -0x1.cd37686760c17p-59},
                                    {0x1.f5b75f92c80ddp-3, 0x1.8ab6e3cf7afbdp-57},
                                    {0x1.6f61941e4def1p-2, -0x1.c63aae6f6e918p-56},
                                    {0x1.dac670561bb4fp-2, 0x1.a2b7f222f65e2p-56},
                                    {0x1.1e00babdefeb4p-1, -0x1.928df287a668fp-58},
                                    {0x1.4978fa3269ee1p-1, 0x1.2419a87f2a458p-56},
                                    {0x1.700a7c5784634p-1, -0x1.8c34d25aadef6p-56},
                                    {0x1.921fb54442d18p-1, 0x1.1a62633145c07p-55}};

/// arctan(a / b) in [0, pi/2] for a, b >= 0 that are not both 0. With c = k/8 near the tangent, which is at most 1, it
/// is arctan c + arctan((a - c b) / (b + c a)).
Wide angle_of(Wide a, Wide b) {
  if (a.hi > b.hi) return half_pi + -angle_of(b, a);
  static constexpr std::array<double, 8> tail = {-1.0 / 3,  1.0 / 5,  -1.0 / 7,  1.0 / 9,
                                                 -1.0 / 11, 1.0 / 13, -1.0 / 15, 1.0 / 17};
  const double k = (8.0 * (a.hi / b.hi) + rounder) - rounder;
  const double c = k / 8.0;
  const Wide u = (a + -(b * c)) / (b + a * c);
  const double z = u.hi * u.hi;
  const Wide near = ordered_sum(u.hi, u.hi * z * polynomial(tail, z) + u.lo);
  return atan_of_eighths[static_cast<std::size_t>(k)] + near;
}

/// sqrt(1 - x^2) for |x| <= 1.
Wide cosine_of_sine(double x) { return root(Wide{1.0, 0.0} + -exact_product(x, x)); }

// --- hyperbolic functions and their inverses ---

/// ln(1 + x) for x >= 0.
Wide log_one_plus(Wide x) {
  const Wide u = Wide{1.0, 0.0} + x;
  return log_of(u.hi) + Wide{u.lo / u.hi, 0.0};
}

constexpr double no_more_matters = 40.0; // e^-x is no part of e^x + e^-x from there on

// --- the error function ---

/// 2 / sqrt(pi) (x - x^3/3 + x^5/(5 2!) - ...) for |x| <= 1.
double erf_near_zero(double x) {
  static constexpr auto tail = [] {
    std::array<double, 21> c{};
    double factorial = 1.0;
    for (std::size_t i = 0; i < c.size(); ++i) {
      const auto n = static_cast<double>(i + 1);
      factorial *= n;
      c[i] = (i % 2 == 0 ? -1.0 : 1.0) / (factorial * (2.0 * n + 1.0));
    }
    return c;
  }();
  const double z = x * x;
  return rounded(two_over_root_pi * ordered_sum(x, x * z * polynomial(tail, z)));
}

/// exp(x^2) erfc x from x = 1/2 to 2, in powers of x - 1.25.
constexpr std::array<double, 20> scaled_erfc_near = {
    0.3678229164523610916,    -0.2088218759646098412,   0.1067955714965992763,     -0.05021827439590769008,
    0.02201136425082871838,   -0.009081627632927324098, 0.003553109903875952918,   -0.001325782929846726154,
    0.0004739703028326495606, -0.000162960007431691906, 0.00005405410897172871804, -0.00001734409135306675482,
    5.395462390055807125e-6,  -1.630643366451484951e-6, 4.801033754096195672e-7,   -1.376128892256485308e-7,
    3.774027852586978979e-8,  -1.033550401575574116e-8, 3.403291415194108589e-9,   -8.849955003240407965e-10};
/// x exp(x^2) erfc x from x = 2 to 4, in powers of 1/x^2 - 5/32.
constexpr std::array<double, 18> scaled_erfc_middle = {
    0.5277490693204527801, -0.1961935590750971283, 0.1834420926172713435, -0.2475960371367716026,
    0.4142646356793060751, -0.8017815521594363951, 1.727238962455094955,  -4.043070934677759427,
    10.11775669546615449,  -26.75703309342751363,  74.09955070277402018,  -213.6832567747558814,
    645.7323836941450313,  -1992.103180681863999,  5455.348360420227036,  -17458.52731320220761,
    109373.0135077204952,  -376834.4671156328917};
/// The same from x = 4 on, in powers of 1/x^2 - 1/32.
constexpr std::array<double, 14> scaled_erfc_far = {
    0.5557581685752836126, -0.2583617653925118847, 0.3416033413932067967, -0.7163437017297140796, 2.007721654164685203,
    -6.926284409765270627, 28.02748503487231514,   -128.9147567808493618, 659.5323491683775956,   -3690.935212318665544,
    22003.82543832025784,  -141900.9938640325786,  1208154.654008904463,  -8931610.32317644654};

/// For x >= 1/2.
double erfc_of_large(double x) {
  constexpr double most = 28.0; // erfc is 0 from there on
  if (x >= most) return 0.0;
  const SplitExp e = split_exp(-exact_product(x, x));
  const double w = 1.0 / (x * x);
  const double g = x < 2.0   ? polynomial(scaled_erfc_near, x - 1.25)
                   : x < 4.0 ? polynomial(scaled_erfc_middle, w - 5.0 / 32)
                             : polynomial(scaled_erfc_far, w - 1.0 / 32);
  const Wide bell = Wide{1.0, 0.0} + e.expm1;
  return scaled(rounded(x < 2.0 ? bell * g : bell * g / Wide{x, 0.0}), e.n);
}

} // namespace

double exp(double x) { return x != x ? x : exp_of({x, 0.0}); }

double expm1(double x) {
  if (x != x || x == 0.0) return x;
  if (x > exp_most) return infinity;
  if (x < -40.0) return -1.0;
  const SplitExp e = split_exp({x, 0.0});
  if (e.n == 0) return rounded(e.expm1);
  if (e.n > 60) return exp_of({x, 0.0});
  const double power = power_of_two(e.n);
  return rounded(exact_sum(power, -1.0) + Wide{power * e.expm1.hi, power * e.expm1.lo});
}

double exp2(double x) {
  if (x != x) return x;
  if (x >= 1024.0) return infinity;
  if (x < -1080.0) return 0.0;
  const double n = (x + rounder) - rounder;
  const SplitExp e = split_exp(ln2 * (x - n));
  return scaled(rounded(Wide{1.0, 0.0} + e.expm1), e.n + static_cast<std::int64_t>(n));
}

double log(double x) { return is_usual(x) ? rounded(log_of(x)) : unusual_log(x); }

double log2(double x) {
  if (!is_usual(x)) return unusual_log(x);
  const SplitNumber parts = split_number(x);
  return rounded(Wide{static_cast<double>(parts.k), 0.0} + log_of_mantissa(parts.m) * reciprocal_ln2);
}

double log10(double x) { return is_usual(x) ? rounded(log_of(x) * reciprocal_ln10) : unusual_log(x); }

double log1p(double x) {
  if (magnitude(x) < 0x1p-54 || x == infinity) return x;
  const Wide u = exact_sum(1.0, x);
  if (!is_usual(u.hi)) return unusual_log(u.hi);
  return rounded(log_of(u.hi) + Wide{u.lo / u.hi, 0.0});
}

double sin(double x) { return x == 0.0 ? x : sine_of(x, 0); }
double cos(double x) { return sine_of(x, 1); }

double tan(double x) {
  if (x == 0.0) return x;
  if (!(magnitude(x) < infinity)) return nan;
  const Angle a = reduced(x);
  const Wide s = sine_near_zero(a.rest), c = cosine_near_zero(a.rest);
  return rounded(a.quadrant % 2 == 0 ? s / c : -c / s);
}

double atan(double x) {
  if (x != x) return x;
  const double size = magnitude(x);
  if (size < 0x1p-28) return x; // x^3 / 3 is less than half a unit
  if (size > 0x1p60) return signed_as(half_pi.hi, x);
  return signed_as(rounded(angle_of({size, 0.0}, {1.0, 0.0})), x);
}

double asin(double x) {
  const double size = magnitude(x);
  if (!(size <= 1.0)) return nan;
  if (size < 0x1p-28) return x; // x^3 / 6 is less than half a unit
  return signed_as(rounded(angle_of({size, 0.0}, cosine_of_sine(x))), x);
}

double acos(double x) {
  const double size = magnitude(x);
  if (!(size <= 1.0)) return nan;
  const Wide angle = angle_of(cosine_of_sine(x), {size, 0.0});
  return rounded(is_negative(x) ? times_power(half_pi, 2.0) + -angle : angle);
}

double atan2(double y, double x) {
  if (x != x || y != y) return nan;
  double a = magnitude(y), b = magnitude(x);
  const bool left = is_negative(x);
  if (a == infinity && b == infinity) a = b = 1.0;
  const double pi = 2.0 * half_pi.hi;
  if (a == 0.0 || b == infinity) return signed_as(left ? pi : 0.0, y);
  const double tangent = a / b;
  if (tangent > 0x1p60) return signed_as(half_pi.hi, y);
  if (tangent < 0x1p-60) return signed_as(left ? pi : tangent, y);
  const double scale = a < 0x1p-500 ? 0x1p500 : a > 0x1p500 ? 0x1p-500 : 1.0; // b is near a
  const Wide angle = angle_of({a * scale, 0.0}, {b * scale, 0.0});
  return signed_as(rounded(left ? times_power(half_pi, 2.0) + -angle : angle), y);
}

double sinh(double x) {
  const double size = magnitude(x);
  if (!(size < infinity) || size < 0x1p-28) return x; // x^3 / 6 is less than half a unit
  if (size > exp_most) return signed_as(infinity, x);
  const SplitExp e = split_exp({size, 0.0});
  const Wide one = {1.0, 0.0}, grown = one + e.expm1;
  if (size > no_more_matters) return signed_as(scaled(rounded(grown), e.n - 1), x);
  if (e.n == 0) return signed_as(0.5 * rounded(e.expm1 + e.expm1 / grown), x);
  const double power = power_of_two(e.n);
  return signed_as(0.5 * rounded(times_power(grown, power) + -times_power(one / grown, 1.0 / power)), x);
}

double cosh(double x) {
  const double size = magnitude(x);
  if (!(size < infinity)) return size;
  if (size > exp_most) return infinity;
  const SplitExp e = split_exp({size, 0.0});
  const Wide one = {1.0, 0.0}, grown = one + e.expm1;
  if (size > no_more_matters) return scaled(rounded(grown), e.n - 1);
  const double power = power_of_two(e.n);
  return 0.5 * rounded(times_power(grown, power) + times_power(one / grown, 1.0 / power));
}

double asinh(double x) {
  const double size = magnitude(x);
  if (!(size < infinity) || size < 0x1p-28) return x;                          // x^3 / 6 is less than half a unit
  if (size > 0x1p28) return signed_as(rounded(log_of(size) + ln2_exactly), x); // 1 / (4 x^2) is no part of it
  const Wide square = exact_product(size, size), one = {1.0, 0.0};
  return signed_as(rounded(log_one_plus(Wide{size, 0.0} + square / (one + root(one + square)))), x);
}

double acosh(double x) {
  if (!(x >= 1.0)) return nan;
  if (x == infinity) return x;
  if (x > 0x1p28) return rounded(log_of(x) + ln2_exactly);
  const Wide above = exact_sum(x, -1.0);
  return rounded(log_one_plus(above + root(above * exact_sum(x, 1.0))));
}

double atanh(double x) {
  const double size = magnitude(x);
  if (!(size <= 1.0)) return nan;
  if (size == 1.0) return signed_as(infinity, x);
  if (size < 0x1p-28) return x; // x^3 / 3 is less than half a unit
  return signed_as(0.5 * rounded(log_one_plus(Wide{2.0 * size, 0.0} / exact_sum(1.0, -size))), x);
}

double erf(double x) {
  if (x != x || x == 0.0) return x;
  const double size = magnitude(x);
  if (size <= 1.0) return erf_near_zero(x);
  return signed_as(1.0 - erfc_of_large(size), x);
}

double erfc(double x) {
  if (x != x) return x;
  if (magnitude(x) <= 0.5) return 1.0 - erf_near_zero(x);
  return x > 0.0 ? erfc_of_large(x) : 2.0 - erfc_of_large(-x);
}

double pow(double x, double y) {
  if (y == 0.0 || x == 1.0) return 1.0;
  if (x != x || y != y) return nan;
  const double base = magnitude(x), size = magnitude(y);
  const double whole = size < largest_whole / 2 ? (size + 0x1p52) - 0x1p52 : size;
  const bool integral = whole == size;
  const bool odd = integral && size < largest_whole && static_cast<std::int64_t>(size) % 2 != 0;
  if (size == infinity) return base == 1.0 ? 1.0 : (base > 1.0) == (y > 0.0) ? infinity : 0.0;
  const bool minus = odd && is_negative(x);
  if (base == 0.0 || base == infinity) {
    const double y_of_base = (base == 0.0) == (y > 0.0) ? 0.0 : infinity;
    return minus ? -y_of_base : y_of_base;
  }
  if (x < 0.0 && !integral) return nan;
  const Wide log_base = log_of(base);
  const double estimate = log_base.hi * y;
  double power = 0.0;
  if (estimate > exp_most)
    power = infinity;
  else if (estimate >= exp_least)
    power = exp_of(log_base * y);
  return minus ? -power : power;
}

} // namespace eg::exact

namespace eg::elementary {

#define EG_ELEMENTARY(NAME)                                                                                            \
  double NAME(double x) { return reduction() == Reduction::exact ? exact::NAME(x) : std::NAME(x); }
EG_ELEMENTARY(exp)
EG_ELEMENTARY(exp2)
EG_ELEMENTARY(expm1)
EG_ELEMENTARY(log)
EG_ELEMENTARY(log2)
EG_ELEMENTARY(log1p)
EG_ELEMENTARY(sin)
EG_ELEMENTARY(cos)
EG_ELEMENTARY(tan)
EG_ELEMENTARY(atan)
EG_ELEMENTARY(erf)
EG_ELEMENTARY(erfc)
#undef EG_ELEMENTARY

double pow(double x, double y) { return reduction() == Reduction::exact ? exact::pow(x, y) : std::pow(x, y); }

} // namespace eg::elementary
