#!/usr/bin/env python3
"""The constants of core/simd/coefficients.h and core/exact/elementary.cpp.

Needs mpmath. Polynomials are fitted by Chebyshev interpolation in 50 digits (near-minimax). Each list is printed, lowest
power first, with the largest error of the exact polynomial on its interval. Then come numbers of two doubles and the bits
of 2 / pi.
"""

from mpmath import atan, atanh, chebyfit, cos, erf, erfc, exp, floor, log, mp, mpf, nstr, pi, sin, sqrt

mp.dps = 50


def show(name, f, low, high, terms):
    coefficients, error = chebyfit(f, [mpf(low), mpf(high)], terms, error=True)
    print(f"{name}: {terms} terms, error {nstr(error, 3)}")
    print("  " + ", ".join(nstr(c, 19) for c in reversed(coefficients)))


def exp_tail(r):
    """(e^r - 1 - r) / r^2"""
    if abs(r) < mpf(10) ** -6:
        return mpf(1) / 2 + r / 6 + r**2 / 24 + r**3 / 120
    return (exp(r) - 1 - r) / r**2


def mapped_erfc(pole):
    """G with erfc(z) / 2 = exp(-z^2) t G(1 - t), t = 1 / (1 + z/pole)"""

    def g(u):
        z = pole * u / (1 - u)
        return (1 + z / pole) * exp(z * z) * erfc(z) / 2

    return g


half_ln2 = log(2) / 2 * mpf("1.0005")
show("exp_tail, float", exp_tail, -half_ln2, half_ln2, 6)
show("exp_tail, double", exp_tail, -half_ln2, half_ln2, 11)
for name, pole, largest, terms in (("g, float", mpf("2.5"), mpf("10.3"), 10), ("g, double", mpf("2.5"), mpf("27.4"), 24)):
    show(name, mapped_erfc(pole), 0, largest / (largest + pole), terms)


def scaled_erfc(x):
    """exp(x^2) erfc x"""
    return exp(x * x) * erfc(x)


def scaled_erfc_of_inverse_square(w):
    """x exp(x^2) erfc x for w = 1 / x^2; far out by its asymptotic series."""
    if w < mpf("1e-4"):
        total, term = mpf(0), mpf(1)
        for k in range(12):
            total += term
            term *= -(2 * k + 1) * w / 2
        return total / sqrt(pi)
    x = 1 / sqrt(w)
    return x * scaled_erfc(x)


def show_centred(name, f, low, high, terms):
    centre = (mpf(low) + mpf(high)) / 2
    show(f"{name}, centre {nstr(centre, 10)}", lambda u: f(u + centre), low - centre, high - centre, terms)


show_centred("scaled_erfc_near", scaled_erfc, mpf("0.5"), mpf(2), 20)
show_centred("scaled_erfc_middle", scaled_erfc_of_inverse_square, mpf(1) / 16, mpf(1) / 4, 18)
show_centred("scaled_erfc_far", scaled_erfc_of_inverse_square, mpf(0), mpf(1) / 16, 14)


def over_root(f, slope):
    """f(x) / x as a function of x^2, for an odd f with this slope at 0."""
    return lambda z: f(sqrt(z)) / sqrt(z) if z > mpf(10) ** -30 else mpf(slope)


eighth_turn = (pi / 4) ** 2 * mpf("1.0005")
show("sine", over_root(sin, 1), 0, eighth_turn, 6)
show("cosine", lambda z: cos(sqrt(z)), 0, eighth_turn, 6)
show("arctangent", over_root(atan, 1), 0, (sqrt(2) - 1) ** 2 * mpf("1.0005"), 9)
show("power_of_two", lambda f: mpf(2) ** f, mpf("-0.5003"), mpf("0.5003"), 10)
show("twice_atanh", over_root(lambda s: 2 * atanh(s), 2), 0, ((sqrt(2) - 1) / (sqrt(2) + 1)) ** 2 * mpf("1.0005"), 7)
show("twice_atanh_third", over_root(lambda s: 2 * atanh(s), 2), 0, mpf(1) / 9, 9)
show_centred("error_function", over_root(erf, 2 / sqrt(pi)), 0, mpf("15.445"), 23)  # up to x = 3.93


def show_wide(name, value):
    high = float(value)
    print(f"{name}: {{{high.hex()}, {float(value - mpf(high)).hex()}}}")


mp.dps = 400
for name, value in (("third", mpf(1) / 3), ("fifth", mpf(1) / 5), ("reciprocal_ln2", 1 / log(2)), ("half_pi", pi / 2)):
    show_wide(name, value)
show_wide("two_over_root_pi", 2 / sqrt(pi))
for k in range(9):
    show_wide(f"atan_of_eighths[{k}]", atan(mpf(k) / 8))
bits = int(floor(2 / pi * mpf(2) ** (64 * 19)))
print("two_over_pi:", ", ".join(f"0x{bits >> 64 * (18 - i) & (2**64 - 1):016X}" for i in range(19)))
