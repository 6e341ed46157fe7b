# Softmax of rows and its gradient, by plain loops and by the library.

import math

import numpy as np
from equigrad import ops
from page import check, fails, holds, library, normal, show, verdict


def forward(x):
    y = np.zeros_like(x)
    for i, row in enumerate(x):
        largest = max(row)
        total = sum(math.exp(value - largest) for value in row)
        for j, value in enumerate(row):
            y[i, j] = math.exp(value - largest) / total
    return y


def backward(y, g):
    """gx = y (g - sum_k g_k y_k), from y alone: x is not needed."""
    gx = np.zeros_like(y)
    for i in range(len(y)):
        inner = sum(g[i, k] * y[i, k] for k in range(y.shape[1]))
        for j in range(y.shape[1]):
            gx[i, j] = y[i, j] * (g[i, j] - inner)
    return gx


def softmax(x):
    return ops.softmax(x, axis=-1)


x, g = np.array([[0, math.log(2), math.log(5)], [1, 1, 1]]), np.array([[1.0, 0, 0], [3, 0, 0]])
y = forward(x)
gx = backward(y, g)
show("x", x)
show("y", y)
show("g", g)
show("gx", gx)

a, ga = normal(5, 7), normal(5, 7)
small, large = library(softmax, [x], g), library(softmax, [a], ga)
holds("y", y, small[0])
holds("gx", gx, small[1][0])
holds("y of 5 x 7 numbers", forward(a), large[0])
holds("gx of 5 x 7 numbers", backward(forward(a), ga), large[1][0])
fails("gx = y g, without the sum", ga * large[0], large[1][0])

order = [2, 0, 1]
moved = library(softmax, [x[:, order]], g[:, order])
holds("y of permuted columns", moved[0], y[:, order])
holds("gx of permuted columns", moved[1][0], gx[:, order])
fails("y stays where it was", moved[0], y)

show("softmax of 1000 and 1001", forward(np.array([[1000.0, 1001]])))
with np.errstate(over="ignore"):
    check("exp(1000) is infinite", bool(np.isinf(np.exp(1000.0))))
show("sum of the first row of gx", gx[0, 0] + gx[0, 1] + gx[0, 2])
verdict()
