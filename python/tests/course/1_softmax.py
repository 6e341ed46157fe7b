"""Another right solution, which the checker has to accept."""

import equigrad as eg


def softmax_vjp(y, c):
    yc = y * c
    return yc - y * eg.ops.sum(yc, axes=[-1], keepdim=True)
