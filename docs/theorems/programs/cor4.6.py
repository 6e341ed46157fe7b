# Corollary 4.6: training with permuted features gives the plain weights, moved, from coupled initial weights.

import equigrad as eg
from theorem import fails, holds, like, moved, randomized, train, verdict

plain = randomized(eg.nn.Block(eg.nn.BlockConfig(dim=12, heads=3, mlp=20), 0))
key = eg.permute.BlocksKey.random(plain.config, 1, "tied", 5)
permutations = key.permutations(plain.config)
coupled, same = moved(plain, permutations), like(plain, plain.state_dict())
train(plain, lambda z, step: plain(z))
for block in (coupled, same):
    train(block, lambda z, step: key.undo_columns(block(key.apply_columns(z))))
expected = eg.permute.transform(plain.state_dict(), eg.permute.block_axes(), permutations)
holds("W_(C),t = P_C^-1 W_t P_C from W_(C),0 = P_C^-1 W_0 P_C", coupled.state_dict(), expected)
fails("the same from W_(C),0 = W_0, as printed", same.state_dict(), expected)
verdict()
