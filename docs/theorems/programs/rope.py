# Rotary positions: tokens may move if they take their positions along, features may not.

import equigrad as eg
from equigrad import ops
from theorem import fails, holds, normal, permutation, verdict

q, k, positions = normal(7, 12), normal(7, 12), eg.arange(7)


def scores(a, b, at):
    turned = [ops.rotary(x.reshape((1, 7, 1, 12)), at).reshape((7, 12)) for x in (a, b)]
    return ops.matmul(*turned, transpose_b=True)


r, c = permutation(7), permutation(12)
s = scores(q, k, positions)
holds("tokens with their positions", scores(r.rows(q), r.rows(k), r.tensor()), r.columns(r.rows(s)))
fails("tokens without them", scores(r.rows(q), r.rows(k), positions), r.columns(r.rows(s)))
fails("features of Q and K, permuted alike", scores(c.columns(q), c.columns(k), positions), s)
verdict()
