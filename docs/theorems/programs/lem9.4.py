# Lemma 9.4: the MLP, with any permutation of its hidden axis.

from equigrad import ops
from theorem import fails, holds, normal, permutation, verdict

x, w1, b1, w2, b2 = normal(7, 12), normal(20, 12), normal(20), normal(12, 20), normal(12)
c, t = permutation(12), permutation(20)


def mlp(z, u, bu, v, bv):
    return ops.linear(ops.gelu(ops.linear(z, u, bu)), v, bv)


w1_p, w2_p = c.columns(t.rows(w1)), t.columns(c.rows(w2))
expected = c.columns(mlp(x, w1, b1, w2, b2))
holds("MLP_(P)(X P_C) = MLP(X) P_C", mlp(c.columns(x), w1_p, t.columns(b1), w2_p, c.columns(b2)), expected)
fails("P_t missing on W_2", mlp(c.columns(x), w1_p, t.columns(b1), c.rows(w2), c.columns(b2)), expected)
verdict()
