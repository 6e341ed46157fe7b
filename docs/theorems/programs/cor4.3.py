# Corollary 4.3: training with permuted tokens gives the same weights at every step.

import equigrad as eg
from equigrad import ops
from theorem import fails, holds, like, randomized, rows, train, verdict

plain = randomized(eg.nn.Block(eg.nn.BlockConfig(dim=12, heads=3, mlp=20), 0))
permuted, left = like(plain, plain.state_dict()), like(plain, plain.state_dict())


def shuffled(z, step):
    p = eg.permute.row_permutations(4, 7, eg.random.Key(4, step))  # fresh for every sample and step
    return ops.permute_rows(permuted(ops.permute_rows(z, p)), ops.invert_permutation(p))


train(plain, lambda z, step: plain(z))
train(permuted, shuffled)
train(left, lambda z, step: left(ops.permute_rows(z, rows(4, 7))))
holds("W_(R),t = W_t after 20 steps", permuted.state_dict(), plain.state_dict())
fails("the same when the output stays permuted", left.state_dict(), plain.state_dict())
verdict()
