# Layer norm of rows and its gradients, by plain loops and by the library.

import math

import numpy as np
from equigrad import ops
from page import fails, holds, library, normal, show, verdict


def normalise(x, eps):
    """(x - mean) r of each row, and r = 1 / sqrt(variance + eps)."""
    xh, r, n = np.zeros_like(x), np.zeros(len(x)), x.shape[1]
    for i, row in enumerate(x):
        mean = sum(row) / n
        variance = sum((value - mean) ** 2 for value in row) / n
        r[i] = 1 / math.sqrt(variance + eps)
        for j, value in enumerate(row):
            xh[i, j] = (value - mean) * r[i]
    return xh, r


def forward(x, gamma, beta, eps):
    xh, _ = normalise(x, eps)
    y = np.zeros_like(x)
    for i, j in np.ndindex(x.shape):
        y[i, j] = xh[i, j] * gamma[j] + beta[j]
    return y


def backward(x, gamma, g, eps):
    xh, r = normalise(x, eps)  # computed again: only x was kept
    gx, ggamma, gbeta, n = np.zeros_like(x), np.zeros(x.shape[1]), np.zeros(x.shape[1]), x.shape[1]
    for i in range(len(x)):
        mean = sum(g[i, j] * gamma[j] for j in range(n)) / n
        along = sum(g[i, j] * gamma[j] * xh[i, j] for j in range(n)) / n
        for j in range(n):
            gx[i, j] = r[i] * (g[i, j] * gamma[j] - mean - xh[i, j] * along)
            ggamma[j] += g[i, j] * xh[i, j]
            gbeta[j] += g[i, j]
    return gx, ggamma, gbeta


def layer_norm(inputs, g, eps):
    return library(lambda x, gamma, beta: ops.layer_norm(x, gamma, beta, eps=eps), inputs, g)


x, gamma, beta = np.array([[1.0, 1, 3, 3], [0, 4, 4, 0]]), np.array([2.0, 1, 1, 3]), np.array([0.0, 1, 0, -1])
g = np.array([[1.0, 0, 0, 0], [0, 1, 0, 0]])
y = forward(x, gamma, beta, 0)
gx, ggamma, gbeta = backward(x, gamma, g, 0)
for name, value in {"x": x, "xh": normalise(x, 0)[0], "y": y, "g": g, "gx": gx, "ggamma": ggamma, "gbeta": gbeta}.items():
    show(name, value)

small, gradients = layer_norm([x, gamma, beta], g, 0)
holds("y", y, small)
holds("gx", gx, gradients[0])
holds("ggamma", ggamma, gradients[1])
holds("gbeta", gbeta, gradients[2])
a, gammas, betas, ga = normal(5, 7), normal(7), normal(7), normal(5, 7)
loops = backward(a, gammas, ga, 1e-5)
large, gradients = layer_norm([a, gammas, betas], ga, 1e-5)
holds("y of 5 x 7 numbers", forward(a, gammas, betas, 1e-5), large)
holds("gx of 5 x 7 numbers", loops[0], gradients[0])
holds("ggamma of 5 x 7 numbers", loops[1], gradients[1])
wrong = normalise(a, 1e-5)[1][:, None] * ga * gammas
fails("gx = r g gamma, as if mean and variance were constant", wrong, gradients[0])

order = [2, 0, 3, 1]
moved, gradients = layer_norm([x[:, order], gamma[order], beta[order]], g[:, order], 0)
holds("y of permuted columns, gamma and beta with them", moved, y[:, order])
holds("gx of permuted columns", gradients[0], gx[:, order])
holds("ggamma moves as gamma does", gradients[1], ggamma[order])
fails("y of permuted columns, gamma where it was", layer_norm([x[:, order], gamma, beta], g, 0)[0], y[:, order])

show("sum of the second row of gx", sum(gx[1]))
show("its inner product with the row of x", sum(gx[1] * x[1]))
scaled = 10 * x + 7
holds("y of 10 x + 7", forward(scaled, gamma, beta, 0), y)
show("gx at 10 x + 7", backward(scaled, gamma, g, 0)[0])
verdict()
