# RMSNorm commutes with permutations of tokens and features; the mean is over the features.

from equigrad import ops
from theorem import fails, holds, normal, permutation, verdict

x, gamma, r, c = normal(7, 12), normal(12, stddev=0.3, mean=1.0), permutation(7), permutation(12)


def both(z):
    return c.columns(r.rows(z))


holds("RMS_(P)(P_R X P_C) = P_R RMS(X) P_C", ops.rms_norm(both(x), c.columns(gamma)), both(ops.rms_norm(x, gamma)))
printed = x * ops.rsqrt((x * x).sum(1, keepdim=True) / 7.0 + 1e-6) * gamma
fails("1/n with the number of tokens, as printed", printed, ops.rms_norm(x, gamma))
verdict()
