# Theorem 4.7 and Lemma 4.8: tokens and features permuted, gradients to features and to weights.

import equigrad as eg
from equigrad import ops
from theorem import fails, gradients, holds, moved, normal, randomized, rows, verdict

encoder = randomized(eg.nn.Block(eg.nn.BlockConfig(dim=12, heads=3, mlp=20), 0))
key = eg.permute.BlocksKey.random(encoder.config, 1, "decoupled", 5)
permutations = key.permutations(encoder.config)
other, z, p, g = moved(encoder, permutations), normal(2, 7, 12), rows(2, 7), normal(2, 7, 12)


def enter(x):
    return ops.permute_rows(key.apply_columns(x), p)


def leave(x):
    return ops.permute_rows(key.undo_columns(x), ops.invert_permutation(p))


to_z = eg.vjp(encoder, z, g).gradients
to_z_p = eg.vjp(lambda x: leave(other(x)), enter(z), g).gradients
holds("dL/dZ_(P) = P_R dL/dZ P_C", to_z_p, enter(to_z))
plain, permuted = gradients(encoder, lambda: encoder(z)), gradients(other, lambda: leave(other(enter(z))))
holds("dL/dW_(P) = P_out^T dL/dW P_in", permuted, eg.permute.transform(plain, eg.permute.block_axes(), permutations))
fails("dL/dW_(P) = dL/dW", permuted, plain)
verdict()
