# LayerNorm and signs: all features may change their sign together, one alone may not.

import equigrad as eg
from equigrad import ops
from theorem import fails, holds, normal, permutation, verdict

x, gamma, beta, p = normal(7, 12), normal(12, stddev=0.3, mean=1.0), normal(12), permutation(12)
one = eg.tensor([-1.0] + [1.0] * 11, dtype="f64")
norm = ops.layer_norm
holds("LN(-x P; gamma P, -beta P) = -LN(x; gamma, beta) P",
      norm(-p.columns(x), p.columns(gamma), -p.columns(beta)), -p.columns(norm(x, gamma, beta)))
fails("the sign of one feature", norm(x * one, gamma, beta * one), norm(x, gamma, beta) * one)
fails("all signs, beta left as it was", norm(-x, gamma, beta), -norm(x, gamma, beta))
verdict()
