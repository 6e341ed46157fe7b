# Lemma 9.5: layer norm with gamma P_C and beta P_C.

from equigrad import ops
from theorem import fails, holds, normal, permutation, verdict

x, gamma, beta = normal(7, 12), normal(12, stddev=0.3, mean=1.0), normal(12)
r, c = permutation(7), permutation(12)


def both(z):
    return c.columns(r.rows(z))


y, y_p = ops.layer_norm(x, gamma, beta), ops.layer_norm(both(x), c.columns(gamma), c.columns(beta))
holds("LN_(P)(P_R X P_C) = P_R LN(X) P_C", y_p, both(y))
fails("LN_(P)(P_R X P_C) = LN(X), as printed", y_p, y)
fails("gamma and beta as they were", ops.layer_norm(both(x), gamma, beta), both(y))
verdict()
