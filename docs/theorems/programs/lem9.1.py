# Lemma 9.1: elementwise operations commute with permutations of rows and columns.

from equigrad import ops
from theorem import fails, holds_in_bits, normal, permutation, verdict

a, b = normal(7, 12), normal(7, 12)
r, c, other = permutation(7), permutation(12), permutation(7)


def both(x):
    return c.columns(r.rows(x))


holds_in_bits("products", both(a) * both(b), both(a * b))
holds_in_bits("sums", both(a) + both(b), both(a + b))
holds_in_bits("GELU", ops.gelu(both(a)), both(ops.gelu(a)))
fails("products, one side permuted otherwise", both(a) * c.columns(other.rows(b)), both(a * b))
verdict()
