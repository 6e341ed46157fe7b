# A convolution of images and its gradients, by plain loops and by the library.

import itertools

import numpy as np
from equigrad import ops
from page import fails, holds, library, normal, show, verdict


def products(x, w, y_shape, stride, padding):
    """Output (n, o, i, j), tap (o, c, u, v) and pixel (n, c, r, q) of every product; pixels outside are left out."""
    for n, o, i, j, c, u, v in itertools.product(*map(range, (*y_shape, *w.shape[1:]))):
        r, q = i * stride - padding + u, j * stride - padding + v
        if 0 <= r < x.shape[2] and 0 <= q < x.shape[3]:
            yield (n, o, i, j), (o, c, u, v), (n, c, r, q)


def forward(x, w, b, stride=1, padding=0):
    h, width = ((x.shape[axis] + 2 * padding - w.shape[axis]) // stride + 1 for axis in (2, 3))
    y = np.zeros((len(x), len(w), h, width))
    for o in range(len(w)):
        y[:, o] = b[o]
    for output, tap, pixel in products(x, w, y.shape, stride, padding):
        y[output] += w[tap] * x[pixel]
    return y


def backward(x, w, g, stride=1, padding=0):
    """The same walk: each product hands the cotangent of its output to both its factors."""
    gx, gw = np.zeros_like(x), np.zeros_like(w)
    for output, tap, pixel in products(x, w, g.shape, stride, padding):
        gx[pixel] += w[tap] * g[output]
        gw[tap] += g[output] * x[pixel]
    return gx, gw, g.sum((0, 2, 3))


def conv2d(x, w, b, g, stride=1, padding=0):
    options = {"stride": (stride, stride), "padding": (padding, padding)}
    return library(lambda x, w, b: ops.conv2d(x, w, b, **options), [x, w, b], g)


x, w, b = np.arange(1.0, 10).reshape(1, 1, 3, 3), np.array([[[[1.0, 2], [0, -1]]]]), np.zeros(1)
g = np.array([[[[1.0, 0], [2, -1]]]])
y = forward(x, w, b)
gx, gw, gb = backward(x, w, g)
for name, value in {"x": x, "w": w, "y": y, "g": g, "gx": gx, "gw": gw, "gb": gb}.items():
    show(name, value)

small, gradients = conv2d(x, w, b, g)
holds("y", y, small)
holds("gx", gx, gradients[0])
holds("gw", gw, gradients[1])
holds("gb", gb, gradients[2])
a, wa, ba, ga = normal(2, 3, 6, 5), normal(4, 3, 3, 2), normal(4), normal(2, 4, 3, 3)
loops = backward(a, wa, ga, 2, 1)
large, gradients = conv2d(a, wa, ba, ga, 2, 1)
holds("y with stride 2 and padding 1", forward(a, wa, ba, 2, 1), large)
holds("gx with stride 2 and padding 1", loops[0], gradients[0])
holds("gw with stride 2 and padding 1", loops[1], gradients[1])
holds("gb with stride 2 and padding 1", loops[2], gradients[2])
fails("gw from the first image alone", backward(a[:1], wa, ga[:1], 2, 1)[1], gradients[1])

order, ga = [2, 0, 3, 1], normal(2, 4, 3, 3)
plain, gradients = conv2d(a, wa, ba, ga, 2, 1)
moved, moved_gradients = conv2d(a, wa[order], ba[order], ga[:, order], 2, 1)
holds("y of permuted output channels", moved, plain[:, order])
holds("gx of permuted output channels", moved_gradients[0], gradients[0])
holds("gw moves as w does", moved_gradients[1], gradients[1][order])
fails("y of permuted output channels, without moving it", moved, plain)
c = normal(1, 1, 3, 3)
mirrored, _ = conv2d(c[..., ::-1], w, b, g)
fails("y of an image with its columns reversed", mirrored, forward(c, w, b)[..., ::-1])
turned = w[..., ::-1, ::-1]  # w with both axes reversed
holds("gx is a convolution of g, padded, by the reversed w", forward(g, turned, b, padding=1), gx)
verdict()
