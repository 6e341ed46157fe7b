# RMS norm of rows and its gradients, by plain loops and by the library.

import math

import numpy as np
from equigrad import ops
from page import fails, holds, library, normal, show, verdict


def scales(x, eps):
    """r = 1 / sqrt(mean of squares + eps) of each row."""
    return np.array([1 / math.sqrt(sum(value * value for value in row) / len(row) + eps) for row in x])


def forward(x, gamma, eps):
    r, y = scales(x, eps), np.zeros_like(x)
    for i, j in np.ndindex(x.shape):
        y[i, j] = x[i, j] * r[i] * gamma[j]
    return y


def backward(x, gamma, g, eps):
    r, gx, ggamma, n = scales(x, eps), np.zeros_like(x), np.zeros(x.shape[1]), x.shape[1]
    for i in range(len(x)):
        # the mean of gh xh, gh = g gamma and xh = x r
        along = sum(g[i, j] * gamma[j] * x[i, j] * r[i] for j in range(n)) / n
        for j in range(n):
            gx[i, j] = r[i] * (g[i, j] * gamma[j] - x[i, j] * r[i] * along)
            ggamma[j] += g[i, j] * x[i, j] * r[i]
    return gx, ggamma


def rms_norm(inputs, g, eps):
    return library(lambda x, gamma: ops.rms_norm(x, gamma, eps=eps), inputs, g)


x, gamma = np.array([[1.0, -1, 1, 1], [1, 3, 5, 1]]), np.array([2.0, 1, 1, 1])
g = np.array([[1.0, 0, 0, 0], [0, 3, 0, 0]])
y = forward(x, gamma, 0)
gx, ggamma = backward(x, gamma, g, 0)
for name, value in {"x": x, "r": scales(x, 0), "y": y, "g": g, "gx": gx, "ggamma": ggamma}.items():
    show(name, value)

small, gradients = rms_norm([x, gamma], g, 0)
holds("y", y, small)
holds("gx", gx, gradients[0])
holds("ggamma", ggamma, gradients[1])
a, gammas, ga = normal(5, 7), normal(7), normal(5, 7)
loops = backward(a, gammas, ga, 1e-6)
large, gradients = rms_norm([a, gammas], ga, 1e-6)
holds("y of 5 x 7 numbers", forward(a, gammas, 1e-6), large)
holds("gx of 5 x 7 numbers", loops[0], gradients[0])
holds("ggamma of 5 x 7 numbers", loops[1], gradients[1])
fails("gx = r g gamma, as if r were constant", scales(a, 1e-6)[:, None] * ga * gammas, gradients[0])

order = [2, 0, 3, 1]
moved, gradients = rms_norm([x[:, order], gamma[order]], g[:, order], 0)
holds("y of permuted columns, gamma with them", moved, y[:, order])
holds("gx of permuted columns", gradients[0], gx[:, order])
holds("ggamma moves as gamma does", gradients[1], ggamma[order])
fails("y of permuted columns, gamma where it was", rms_norm([x[:, order], gamma], g, 0)[0], y[:, order])

show("inner product of the second rows of gx and x", sum(gx[1] * x[1]))
show("sum of the second row of gx", sum(gx[1]))
verdict()
