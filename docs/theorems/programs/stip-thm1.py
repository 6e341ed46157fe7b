# STIP, Theorem 1: causal blocks, features permuted between owner, cloud and user.

import equigrad as eg
from theorem import fails, holds, moved, normal, randomized, verdict

decoder = randomized(eg.nn.Block(eg.nn.BlockConfig(dim=12, heads=3, mlp=20, pre_norm=False, causal=True), 0))
key = eg.permute.BlocksKey.random(decoder.config, 1, "residual", 5)
at_the_cloud = moved(decoder, key.permutations(decoder.config))
x = normal(2, 7, 12)
holds("f_theta'(x pi) = f_theta(x) pi", at_the_cloud(key.apply_columns(x)), key.apply_columns(decoder(x)))
fails("the cloud's weights on x itself", at_the_cloud(x), decoder(x))
verdict()
