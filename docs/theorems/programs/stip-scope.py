# Convolution commutes with permutations of channels, and not with those of pixels.

from equigrad import ops
from theorem import fails, holds, normal, permutation, verdict

x, w, b = normal(2, 4, 6, 6), normal(5, 4, 3, 3), normal(5)
c_in, c_out, pixels = permutation(4), permutation(5), permutation(6)


def f(z, u, c):
    return ops.conv2d(z, u, c, padding=(1, 1))


holds("channels", f(c_in.apply(x, 1), c_in.apply(c_out.apply(w, 0), 1), c_out.apply(b, 0)), c_out.apply(f(x, w, b), 1))
fails("columns of pixels", f(pixels.columns(x), w, b), pixels.columns(f(x, w, b)))
verdict()
