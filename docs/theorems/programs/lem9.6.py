# Lemma 9.6: attention, with permutations of queries, keys and both feature axes.

from equigrad import ops
from theorem import fails, holds, normal, permutation, verdict

q, k, v = normal(7, 12), normal(9, 12), normal(9, 5)
pi, sigma, qk, pv = permutation(7), permutation(9), permutation(12), permutation(5)
att = ops.scaled_dot_product_attention
q_p, k_p = qk.columns(pi.rows(q)), qk.columns(sigma.rows(k))
expected = pv.columns(pi.rows(att(q, k, v)))
holds("Att(pi Q P, sigma K P, sigma V P_v) = pi Att(Q, K, V) P_v", att(q_p, k_p, pv.columns(sigma.rows(v))), expected)
fails("values in another order than keys", att(q_p, k_p, pv.columns(v)), expected)
verdict()
