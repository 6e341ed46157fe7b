#pragma once
// Computes elementary functions of numbers with the same bits on every machine, for exact mode.
//
// They consist of + - * / and square roots in double, which IEEE 754 rounds alike everywhere, and of operations on
// bits: no other function of the C library, no fused product. What sums and products of two doubles lose is kept in a
// second double (T. J. Dekker, "A floating-point technique for extending the available precision", Numer. Math. 18,
// 1971).
//
// All but erf and erfc (1.5 and 2.5) are below 1 ULP, as tests/unit/core_elementary_test.cpp measures.

namespace eg::exact {

/// Arguments and results that are not finite, zeros and their signs follow C's Annex F.
double exp(double x);
double exp2(double x);
double expm1(double x);
double log(double x);
double log2(double x);
double log10(double x);
double log1p(double x);
/// x in radians, of any size.
double sin(double x);
double cos(double x);
double tan(double x);
double atan(double x);
double asin(double x);
double acos(double x);
/// The angle of the point (x, y), in radians from -pi to pi.
double atan2(double y, double x);
double sinh(double x);
double cosh(double x);
double asinh(double x);
double acosh(double x);
double atanh(double x);
double erf(double x);
double erfc(double x);
double pow(double x, double y);

} // namespace eg::exact

namespace eg::elementary {

/// The functions of eg::exact in exact mode, else the C library's.
double exp(double x);
double exp2(double x);
double expm1(double x);
double log(double x);
double log2(double x);
double log1p(double x);
double sin(double x);
double cos(double x);
double tan(double x);
double atan(double x);
double erf(double x);
double erfc(double x);
double pow(double x, double y);

} // namespace eg::elementary
