# The bias of the keys: softmax does not see it without positions, and sees it under rotary ones.

import equigrad as eg
from equigrad import ops
from theorem import fails, gradients, holds, normal, verdict

q, k, v, b, g, forward = normal(7, 12), normal(7, 12), normal(7, 12), normal(12), normal(7, 12), eg.arange(7)


def turned(x, inverse=False):
    return ops.rotary(x.reshape((1, 7, 1, 12)), forward, inverse=inverse).reshape((7, 12))


with eg.Tape() as tape:
    keys = turned(k + b)
    y = ops.scaled_dot_product_attention(turned(q), keys, v)
rotated = tape.gradient(y, [b, keys], g)
with eg.Tape() as tape:
    y = ops.scaled_dot_product_attention(q, k + b, v)
unrotated = tape.gradient(y, b, g)
one = eg.ones(12, dtype="f64")
holds("without positions: dl/db_K + 1 = 1", unrotated + 1.0, one)
back = turned(rotated[1], inverse=True)
holds("rotary: dl/db_K is the sum of the keys' gradients, turned back", rotated[0], back.sum(0))
fails("rotary: dl/db_K + 1 = 1", rotated[0] + 1.0, one)
verdict()
