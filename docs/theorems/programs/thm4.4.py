# Theorem 4.4: an encoder whose weights are moved commutes with permutations of the features.

import equigrad as eg
from theorem import fails, holds, moved, normal, randomized, verdict

encoder = randomized(eg.nn.Block(eg.nn.BlockConfig(dim=12, heads=3, mlp=20), 0))
key = eg.permute.BlocksKey.random(encoder.config, 1, "decoupled", 5)
other = moved(encoder, key.permutations(encoder.config))
z = normal(2, 7, 12)
expected = key.apply_columns(encoder(z))
holds("Enc_(C)(Z P_C) = Enc(Z) P_C", other(key.apply_columns(z)), expected)
fails("the same with the weights as they were", encoder(key.apply_columns(z)), expected)
verdict()
