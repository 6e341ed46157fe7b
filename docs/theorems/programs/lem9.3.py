# Lemma 9.3: a linear layer carries a permutation of its input to one of its output.

from equigrad import ops
from theorem import fails, holds, normal, permutation, verdict

x, w, b = normal(7, 12), normal(20, 12), normal(20)  # not square
r, p_in, p_out = permutation(7), permutation(12), permutation(20)
w_p, b_p = p_in.columns(p_out.rows(w)), p_out.columns(b)
x_p, y_p = p_in.columns(r.rows(x)), p_out.columns(r.rows(ops.linear(x, w, b)))
holds("f_(P)(P_R X P_in) = P_R f(X) P_out", ops.linear(x_p, w_p, b_p), y_p)
fails("the same with b as it was", ops.linear(x_p, w_p, b), y_p)
verdict()
