# Attention y = softmax(c q k^T) v and its gradients, by plain loops and by the library.

import math

import numpy as np
from equigrad import ops
from page import fails, holds, library, normal, show, verdict


def weights(q, k, c):
    """S = softmax(c q k^T), a row for each query."""
    s = np.zeros((len(q), len(k)))
    for i in range(len(q)):
        scores = [c * sum(q[i, d] * k[j, d] for d in range(q.shape[1])) for j in range(len(k))]
        exponentials = [math.exp(score - max(scores)) for score in scores]
        for j, exponential in enumerate(exponentials):
            s[i, j] = exponential / sum(exponentials)
    return s


def forward(s, v):
    y = np.zeros((len(s), v.shape[1]))
    for i, j in np.ndindex(s.shape):
        for d in range(v.shape[1]):
            y[i, d] += s[i, j] * v[j, d]
    return y


def backward(q, k, v, s, y, g, c):
    gq, gk, gv, ge = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v), np.zeros_like(s)
    for i in range(len(q)):
        inner = sum(g[i, d] * y[i, d] for d in range(v.shape[1]))  # the sum that softmax needs
        for j in range(len(k)):
            slope = sum(g[i, d] * v[j, d] for d in range(v.shape[1]))  # of the loss by S_ij
            ge[i, j] = s[i, j] * (slope - inner)
            for d in range(q.shape[1]):
                gq[i, d] += c * ge[i, j] * k[j, d]
                gk[j, d] += c * ge[i, j] * q[i, d]
            for d in range(v.shape[1]):
                gv[j, d] += s[i, j] * g[i, d]
    return gq, gk, gv, ge


def attention(q, k, v, g, c):
    return library(lambda q, k, v: ops.scaled_dot_product_attention(q, k, v, scale=c), [q, k, v], g)


q, k = np.array([[1.0, 0], [0, 0]]), np.array([[0, 1], [math.log(2), 0], [math.log(5), -1]])
v, g = np.array([[1.0, 0], [0, 1], [1, 1]]), np.array([[1.0, 0], [0, 1]])
s = weights(q, k, 1)
y = forward(s, v)
gq, gk, gv, ge = backward(q, k, v, s, y, g, 1)
shown = {"q": q, "k": k, "v": v, "S": s, "y": y, "g": g, "gE": ge, "gq": gq, "gk": gk, "gv": gv}
for name, value in shown.items():
    show(name, value)

small, gradients = attention(q, k, v, g, 1)
holds("y", y, small)
holds("gq", gq, gradients[0])
holds("gk", gk, gradients[1])
holds("gv", gv, gradients[2])
qa, ka, va, ga = normal(5, 4), normal(6, 4), normal(6, 3), normal(5, 3)
sa = weights(qa, ka, 0.5)
ya = forward(sa, va)
loops = backward(qa, ka, va, sa, ya, ga, 0.5)
large, gradients = attention(qa, ka, va, ga, 0.5)
holds("y of 5 queries", ya, large)
holds("gq of 5 queries", loops[0], gradients[0])
holds("gk of 5 queries", loops[1], gradients[1])
holds("gv of 5 queries", loops[2], gradients[2])
wrong = backward(qa, ka, va, sa, np.zeros_like(ya), ga, 0.5)
fails("gq without the sum of the softmax", wrong[0], gradients[0])

order, swap = [2, 0, 1], [1, 0]
moved, gradients = attention(q, k[order], v[order], g, 1)
holds("y of permuted keys and values", moved, y)
holds("gk of permuted keys and values", gradients[1], gk[order])
holds("gv of permuted keys and values", gradients[2], gv[order])
moved, gradients = attention(q[swap], k, v, g[swap], 1)
holds("y of permuted queries", moved, y[swap])
holds("gq of permuted queries", gradients[0], gq[swap])
holds("gk of permuted queries", gradients[1], gk)
moved, gradients = attention(q[:, swap], k[:, swap], v, g, 1)
holds("y of permuted features of q and k", moved, y)
holds("gq of permuted features", gradients[0], gq[:, swap])
holds("gk of permuted features", gradients[1], gk[:, swap])
fails("y of permuted keys, values where they were", attention(q, k[order], v, g, 1)[0], y)
verdict()
