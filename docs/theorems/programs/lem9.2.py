# Lemma 9.2: softmax commutes with permutations of rows and of columns.

import equigrad as eg
from equigrad import ops
from theorem import fails, holds, holds_in_bits, normal, permutation, verdict

a, r, c = normal(7, 12), permutation(7), permutation(12)
holds_in_bits("Softmax(P_R A) = P_R Softmax(A)", ops.softmax(r.rows(a)), r.rows(ops.softmax(a)))
holds("Softmax(A P_C) = Softmax(A) P_C", ops.softmax(c.columns(a)), c.columns(ops.softmax(a)))
with eg.exact():  # sums that no order of their terms changes
    holds_in_bits("the same with exact sums", ops.softmax(c.columns(a)), c.columns(ops.softmax(a)))
fails("Softmax(A P_C) = Softmax(A)", ops.softmax(c.columns(a)), ops.softmax(a))
verdict()
