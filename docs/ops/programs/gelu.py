# GELU, y = x Phi(x), and its gradient, by plain loops and by the library.

import math

import numpy as np
from equigrad import ops
from page import fails, holds, library, normal, show, verdict


def distribution(x):
    return 0.5 * math.erfc(-x / math.sqrt(2))


def density(x):
    return math.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


def forward(x):
    y = np.zeros_like(x)
    for place, value in np.ndenumerate(x):
        y[place] = value * distribution(value)
    return y


def backward(x, g):
    gx = np.zeros_like(x)
    for place, value in np.ndenumerate(x):
        gx[place] = g[place] * (distribution(value) + value * density(value))
    return gx


def tanh_form(x):
    """The approximation with tanh, as the library's gelu_tanh."""
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


x, g = np.array([[-2.0, -1, 0, 1, 2]]), np.ones((1, 5))
y, gx = forward(x), backward(x, g)
for name, value in {"x": x, "y": y, "g": g, "gx": gx}.items():
    show(name, value)

a, ga = normal(4, 6), normal(4, 6)
small, large = library(ops.gelu, [x], g), library(ops.gelu, [a], ga)
holds("y", y, small[0])
holds("gx", gx, small[1][0])
holds("y of 4 x 6 numbers", forward(a), large[0])
holds("gx of 4 x 6 numbers", backward(a, ga), large[1][0])
fails("gx = g Phi(x), without the second term", ga * np.vectorize(distribution)(a), large[1][0])

order, swap = [2, 0, 1, 5, 3, 4], [1, 3, 0, 2]
moved = library(ops.gelu, [a[:, order][swap]], ga[:, order][swap])
holds("y of permuted rows and columns", moved[0], large[0][:, order][swap])
holds("gx of permuted rows and columns", moved[1][0], large[1][0][:, order][swap])
fails("y stays where it was", moved[0], large[0])

least, step = 0.0, 0.5
while step > 1e-12:  # walk downhill from -0.5, halving the step when it goes too far
    while backward(np.array([-0.5 - least - step]), np.ones(1))[0] > 0:
        least += step
    step /= 2
at = -0.5 - least
show("the least value is at x", at)
show("and is", at * distribution(at))
worst = max(abs(tanh_form(0.001 * i) - 0.001 * i * distribution(0.001 * i)) for i in range(-5000, 5001))
show("largest difference of the tanh form, in units of 0.001", worst / 0.001)
show("gelu(x) - gelu(-x) at 2", forward(np.array([2.0]))[0] - forward(np.array([-2.0]))[0])
verdict()
