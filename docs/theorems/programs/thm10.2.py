# Theorem 10.2: permuted features do not reach a masked softmax.

from equigrad import ops
from theorem import fails, holds, normal, permutation, verdict

q, k, p = normal(7, 12), normal(7, 12), permutation(12)


def scores(a, b):
    return ops.masked_softmax(ops.matmul(a, b, transpose_b=True) / 12.0**0.5, causal=True)


holds("MS(Q P_C, K P_C) = MS(Q, K)", scores(p.columns(q), p.columns(k)), scores(q, k))
fails("MS(Q P_C, K) = MS(Q, K)", scores(p.columns(q), k), scores(q, k))
verdict()
