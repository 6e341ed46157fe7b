#!/usr/bin/env python3
"""The polynomial coefficients of core/simd/simd-inl.h, by Chebyshev interpolation in 50 digits (near-minimax).

Needs mpmath. Prints each list, lowest power first, with the largest error of the exact polynomial on its interval.
"""

from mpmath import chebyfit, erfc, exp, log, mp, mpf, nstr

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


def scaled_erfc(pole):
    """G with erfc(z) / 2 = exp(-z^2) t G(1 - t), t = 1 / (1 + z/pole)"""

    def g(u):
        z = pole * u / (1 - u)
        return (1 + z / pole) * exp(z * z) * erfc(z) / 2

    return g


half_ln2 = log(2) / 2 * mpf("1.0005")
show("exp_tail, float", exp_tail, -half_ln2, half_ln2, 6)
show("exp_tail, double", exp_tail, -half_ln2, half_ln2, 11)
for name, pole, largest, terms in (("g, float", mpf("2.5"), mpf("10.3"), 10), ("g, double", mpf("2.5"), mpf("27.4"), 24)):
    show(name, scaled_erfc(pole), 0, largest / (largest + pole), terms)
