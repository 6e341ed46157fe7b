# The row permutations that a masked attention commutes with are the automorphisms of its mask, once each row's maximum
# is subtracted.

import equigrad as eg
from equigrad import ops
from equigrad.permute import Permutation
from theorem import fails, holds, normal, verdict

closed = float("-inf")  # the last three of seven tokens are padding; each row has a number added
mask = eg.tensor([[(0.0 if j < 4 else closed) + 0.25 * i for j in range(7)] for i in range(7)], dtype="f64")
x = normal(7, 12)


def f(z):
    return ops.scaled_dot_product_attention(z, z, z, mask)


group = eg.permute.automorphisms(eg.permute.softmax_form(mask))
print(len(eg.permute.automorphisms(mask).generators), "generators before row maxima are subtracted")
print(group.order, "automorphisms, 4! 3! of them")
for p in group.generators:
    holds("f(P X) = P f(X), a generator", f(p.rows(x)), p.rows(f(x)))
outside = Permutation([0, 1, 2, 4, 3, 5, 6])  # a valid token changes places with padding
fails("f(P X) = P f(X), P no automorphism", f(outside.rows(x)), outside.rows(f(x)))
verdict()
