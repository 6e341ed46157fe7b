# Rotary positions and their gradient, by plain loops and by the library.

import math

import numpy as np
from equigrad import ops
from page import fails, holds, library, normal, show, verdict


def turn(x, positions, frequencies, sign):
    """Pair i of row t, features i and i + half, turns by sign * position[t] * frequency[i]."""
    y, half = np.zeros_like(x), x.shape[1] // 2
    for t, position in enumerate(positions):
        for i in range(half):
            angle = sign * position * frequencies[i]
            y[t, i] = x[t, i] * math.cos(angle) - x[t, i + half] * math.sin(angle)
            y[t, i + half] = x[t, i] * math.sin(angle) + x[t, i + half] * math.cos(angle)
    return y


def rotary(x, positions, frequencies, g):
    def one_head(x):
        heads = x.reshape((x.shape[0], 1, x.shape[1]))
        return ops.rotary(heads, positions, frequencies=frequencies).reshape(x.shape)

    y, gradients = library(one_head, [x], g)
    return y, gradients[0]


x = np.array([[1.0, 2, 3, 4]] * 3)
g = np.array([[1.0, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0]])
positions, frequencies = [0, 1, 2], [math.pi / 2, math.pi / 3]
y, gx = turn(x, positions, frequencies, 1), turn(g, positions, frequencies, -1)
for name, value in {"x": x, "y": y, "g": g, "gx": gx}.items():
    show(name, value)

small = rotary(x, positions, frequencies, g)
holds("y", y, small[0])
holds("gx", gx, small[1])
usual = [10000.0 ** (-2 * i / 6) for i in range(3)]  # base^(-2i / dims)
show("frequencies of 6 features", np.array([usual]))
a, ga, places = normal(4, 6), normal(4, 6), [5, 0, 17, 3]
large = rotary(a, places, usual, ga)
holds("y of 4 positions", turn(a, places, usual, 1), large[0])
holds("gx of 4 positions", turn(ga, places, usual, -1), large[1])
fails("gx turned the same way as x", turn(ga, places, usual, 1), large[1])
holds("turned forward and back", turn(large[0], places, usual, -1), a)


def score(s, t):
    return np.sum(turn(a[:1], [s], usual, 1) * turn(a[1:2], [t], usual, 1))


show("score of a query at 5 and a key at 2", score(5, 2))
show("score of a query at 13 and a key at 10", score(13, 10))
show("score of a query at 5 and a key at 3", score(5, 3))
holds("length of y", np.sum(y * y), np.sum(x * x))

order, moved_places = [2, 0, 3, 1], [17, 5, 3, 0]
moved = rotary(a[order], moved_places, usual, ga[order])
holds("y of permuted rows, positions with them", moved[0], large[0][order])
holds("gx of permuted rows", moved[1], large[1][order])
fails("y of permuted rows, positions as they were", rotary(a[order], places, usual, ga)[0], large[0][order])
pairs = [1, 0, 2, 4, 3, 5]
fails("y of permuted pairs of features", rotary(a[:, pairs], places, usual, ga)[0], large[0][:, pairs])
verdict()
