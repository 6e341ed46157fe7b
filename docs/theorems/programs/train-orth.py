# Training in another orthonormal basis: SGD follows every orthogonal map, Adam follows signed permutations.

import equigrad as eg
from equigrad import ops
from theorem import fails, holds, normal, permutation, verdict

w0, none, v = normal(20, 12), eg.eye(12, dtype="f64"), normal(12, 1)
signed_permutation = permutation(12).columns(none) * ops.sign(normal(12))
turned = none - ops.matmul(v, v, transpose_b=True) * (2.0 / (v * v).sum().item())  # a reflection


def trained(rule, r):
    """W R^T after twenty steps on x R, from W_0 R."""
    w = ops.matmul(w0, r)
    optimizer = rule([w])
    for step in range(20):
        x = eg.random.normal((7, 12), eg.random.Key(3, step), dtype="f64")
        with eg.Tape() as tape:
            loss = ops.square(ops.gelu(ops.linear(ops.matmul(x, r), w)) - 1.0).mean()
        optimizer.step(tape.gradient(loss, [w]), 0.01)
    return ops.matmul(w, r, transpose_b=True)


sgd, adam = eg.optim.SGD, eg.optim.Adam
holds("SGD, orthogonal: W_t' = W_t R", trained(sgd, turned), trained(sgd, none))
holds("Adam, permutation with signs: W_t' = W_t R", trained(adam, signed_permutation), trained(adam, none))
fails("Adam, orthogonal: W_t' = W_t R", trained(adam, turned), trained(adam, none))
verdict()
