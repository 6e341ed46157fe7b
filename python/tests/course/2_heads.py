"""Another right solution, which the checker has to accept."""

import numpy as np


def keeps_heads(p, heads):
    b = np.array(p).reshape(heads, -1) // (len(p) // heads)
    return (b == b[:, :1]).all()


def breaking_swap(dim, heads):
    s = dim // heads
    return None if s in (1, dim) else [s - 1, s]
