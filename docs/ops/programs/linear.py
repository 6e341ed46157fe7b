# A linear layer y = x W^T + b and its gradients, by plain loops and by the library.

import numpy as np
from equigrad import ops
from page import fails, holds, library, normal, show, verdict


def forward(x, w, b):
    y = np.zeros((len(x), len(w)))
    for r in range(len(x)):
        for o in range(len(w)):
            y[r, o] = b[o] + sum(x[r, i] * w[o, i] for i in range(w.shape[1]))
    return y


def backward(x, w, g):
    """One walk over the products of the forward pass: each hands its cotangent to both its factors."""
    gx, gw, gb = np.zeros_like(x), np.zeros_like(w), np.zeros(len(w))
    for r in range(len(x)):
        for o in range(len(w)):
            gb[o] += g[r, o]
            for i in range(w.shape[1]):
                gx[r, i] += g[r, o] * w[o, i]
                gw[o, i] += g[r, o] * x[r, i]
    return gx, gw, gb


x, w, b = np.array([[1.0, 2, 3], [0, 1, -1]]), np.array([[1.0, 0, 2], [-1, 1, 0]]), np.array([0.5, -1])
g = np.array([[1.0, 2], [0, -1]])
y = forward(x, w, b)
gx, gw, gb = backward(x, w, g)
for name, value in {"x": x, "W": w, "b": b, "y": y, "g": g, "gx": gx, "gW": gw, "gb": gb}.items():
    show(name, value)

small, gradients = library(ops.linear, [x, w, b], g)
holds("y", y, small)
holds("gx", gx, gradients[0])
holds("gW", gw, gradients[1])
holds("gb", gb, gradients[2])
a, wa, ba, ga = normal(5, 7), normal(4, 7), normal(4), normal(5, 4)
loops = backward(a, wa, ga)
large, gradients = library(ops.linear, [a, wa, ba], ga)
holds("y of 5 rows", forward(a, wa, ba), large)
holds("gx of 5 rows", loops[0], gradients[0])
holds("gW of 5 rows", loops[1], gradients[1])
holds("gb of 5 rows", loops[2], gradients[2])
fails("gW from the first row alone", backward(a[:1], wa, ga[:1])[1], gradients[1])

order, swap = [2, 0, 1], [1, 0]
moved, gradients = library(ops.linear, [x[:, order], w[swap][:, order], b[swap]], g[:, swap])
holds("y of permuted columns and permuted weights", moved, y[:, swap])
holds("gx of permuted columns and permuted weights", gradients[0], gx[:, order])
holds("gW moves as W does", gradients[1], gw[swap][:, order])
fails("y of permuted columns and plain weights", library(ops.linear, [x[:, order], w, b], g)[0], y)
verdict()
