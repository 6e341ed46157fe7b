# Several heads and any P_C: the inner axes of attention have permutations of their own.

import equigrad as eg
from equigrad.permute import Permutation
from theorem import fails, holds, moved, normal, randomized, verdict

encoder = randomized(eg.nn.Block(eg.nn.BlockConfig(dim=12, heads=3, mlp=20), 0))
z = normal(2, 7, 12)
permutations = eg.permute.BlocksKey.random(encoder.config, 1, "decoupled", 5).permutations(encoder.config)
c = permutations["residual"] = Permutation([*range(1, 12), 0])  # splits every head
expected = c.columns(encoder(z))
holds("any P_C on the residual stream", moved(encoder, permutations)(c.columns(z)), expected)
further = Permutation([*range(4, 12), *range(4)])  # V's heads one further
qkv, v = permutations["blocks.0.qkv"].gather, permutations["blocks.0.v"].then(further)
permutations |= {"blocks.0.v": v, "blocks.0.qkv": Permutation(qkv[:24] + [24 + i for i in v.gather])}
fails("V's heads moved otherwise than those of Q and K", moved(encoder, permutations)(c.columns(z)), expected)
verdict()
