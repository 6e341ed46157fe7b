# Batch norm of the columns of a batch and its gradients, by plain loops and by the library.

import math

import numpy as np
from equigrad import ops
from page import fails, holds, library, normal, show, verdict


def statistics(x):
    n, channels = x.shape
    mean = np.array([sum(x[i, c] for i in range(n)) / n for c in range(channels)])
    variance = np.array([sum((x[i, c] - mean[c]) ** 2 for i in range(n)) / n for c in range(channels)])
    return mean, variance


def normalised(x, mean, variance, eps):
    xh = np.zeros_like(x)
    for i, c in np.ndindex(x.shape):
        xh[i, c] = (x[i, c] - mean[c]) / math.sqrt(variance[c] + eps)
    return xh


def forward(x, gamma, beta, eps):
    y = normalised(x, *statistics(x), eps)
    for i, c in np.ndindex(x.shape):
        y[i, c] = y[i, c] * gamma[c] + beta[c]
    return y


def backward(x, gamma, g, eps):
    mean, variance = statistics(x)
    xh, n = normalised(x, mean, variance, eps), len(x)
    gx, ggamma, gbeta = np.zeros_like(x), np.zeros(x.shape[1]), np.zeros(x.shape[1])
    for c in range(x.shape[1]):
        gbeta[c] = sum(g[i, c] for i in range(n))
        ggamma[c] = sum(g[i, c] * xh[i, c] for i in range(n))
        for i in range(n):  # the two means are sums that are there already
            gx[i, c] = gamma[c] / math.sqrt(variance[c] + eps) * (g[i, c] - gbeta[c] / n - xh[i, c] * ggamma[c] / n)
    return gx, ggamma, gbeta


def batch_norm(inputs, g, eps):
    return library(lambda x, gamma, beta: ops.batch_norm(x, gamma, beta, eps=eps)[0], inputs, g)


x = np.array([[1.0, 0], [1, 4], [3, 4], [3, 0]])
gamma, beta = np.array([2.0, 4]), np.array([0.0, 1])
g = np.array([[1.0, 0], [0, 1], [0, 0], [0, 0]])
y = forward(x, gamma, beta, 0)
gx, ggamma, gbeta = backward(x, gamma, g, 0)
mean, variance = statistics(x)
shown = {"x": x, "mean": mean, "variance": variance, "y": y, "g": g, "gx": gx, "ggamma": ggamma, "gbeta": gbeta}
for name, value in shown.items():
    show(name, value)

small, gradients = batch_norm([x, gamma, beta], g, 0)
holds("y", y, small)
holds("gx", gx, gradients[0])
holds("ggamma", ggamma, gradients[1])
holds("gbeta", gbeta, gradients[2])
a, gammas, betas, ga = normal(6, 3), normal(3), normal(3), normal(6, 3)
loops = backward(a, gammas, ga, 1e-5)
large, gradients = batch_norm([a, gammas, betas], ga, 1e-5)
holds("y of 6 samples", forward(a, gammas, betas, 1e-5), large)
holds("gx of 6 samples", loops[0], gradients[0])
holds("ggamma of 6 samples", loops[1], gradients[1])
wrong = gammas / np.sqrt(statistics(a)[1] + 1e-5) * ga
fails("gx = gamma r g, as if the statistics were constant", wrong, gradients[0])

order, swap = [3, 0, 2, 1], [1, 0]
moved, gradients = batch_norm([x[order], gamma, beta], g[order], 0)
holds("y of permuted samples", moved, y[order])
holds("gx of permuted samples", gradients[0], gx[order])
holds("ggamma stays where it is", gradients[1], ggamma)
_, gradients = batch_norm([x[:, swap], gamma[swap], beta[swap]], g[:, swap], 0)
holds("gx of permuted channels, gamma with them", gradients[0], gx[:, swap])
fails("y of permuted channels, gamma where it was", batch_norm([x[:, swap], gamma, beta], g, 0)[0], y[:, swap])

other = x.copy()
other[3, 0] = 7
show("y of the first sample, when the last sample changes from 3 to 7", forward(other, gamma, beta, 0)[0, 0])
show("xh by running statistics 0 and 1", normalised(x, np.zeros(2), np.ones(2), 0)[:1])
verdict()
