# Theorem 4.5: gradients move as the weights do, dL/dW_(C) = P_C^-1 dL/dW P_C.

import equigrad as eg
from theorem import fails, gradients, holds, moved, normal, randomized, verdict

encoder = randomized(eg.nn.Block(eg.nn.BlockConfig(dim=12, heads=3, mlp=20), 0))
key = eg.permute.BlocksKey.random(encoder.config, 1, "tied", 5)
permutations = key.permutations(encoder.config)
other, z = moved(encoder, permutations), normal(2, 7, 12)
plain = gradients(encoder, lambda: encoder(z))
permuted = gradients(other, lambda: key.undo_columns(other(key.apply_columns(z))))
holds("dL/dW_(C) = P_C^-1 dL/dW P_C", permuted, eg.permute.transform(plain, eg.permute.block_axes(), permutations))
fails("dL/dW_(C) = dL/dW", permuted, plain)
verdict()
