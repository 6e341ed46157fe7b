"""Which orders of the tokens a mask allows: its automorphisms."""

import itertools

import numpy as np

import equigrad as eg

n = 6
ring = np.full((n, n), -np.inf)
for i in range(n):
    ring[i, [(i - 1) % n, i, (i + 1) % n]] = 0.0
group = eg.permute.automorphisms(eg.permute.softmax_form(ring))
print(group.order, "permutations keep a ring of six tokens; generators:", [g.gather for g in group.generators])
found = sum(np.array_equal(ring[np.ix_(p, p)], ring) for p in itertools.permutations(range(n)))
assert group.order == found == 12  # the dihedral group


def attention(order: list[int]) -> np.ndarray:
    q, k, v = (eg.permute.Permutation(order).rows(eg.random.normal((1, n, 4), key=s, dtype="f64")) for s in (1, 2, 3))
    return eg.ops.attention(q, k, v, ring).numpy()


turn, exchange = [1, 2, 3, 4, 5, 0], [1, 0, 2, 3, 4, 5]
plain = attention(list(range(n)))
assert abs(attention(turn) - plain[:, turn]).max() < 1e-12  # in the group
assert abs(attention(exchange) - plain[:, exchange]).max() > 1e-3  # not in it
