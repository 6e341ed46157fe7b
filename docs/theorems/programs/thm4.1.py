# Theorem 4.1: an encoder commutes with permutations of its tokens.

import equigrad as eg
from equigrad import ops
from theorem import fails, holds, normal, randomized, rows, verdict

encoder = randomized(eg.nn.Block(eg.nn.BlockConfig(dim=12, heads=3, mlp=20), 0))
z, p = normal(2, 7, 12), rows(2, 7)
holds("Enc(P_R Z) = P_R Enc(Z)", encoder(ops.permute_rows(z, p)), ops.permute_rows(encoder(z), p))
fails("Enc(P_R Z) = Enc(Z)", encoder(ops.permute_rows(z, p)), encoder(z))
verdict()
