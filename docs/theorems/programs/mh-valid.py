# Several heads, W_(P) = P^T W P: valid for permutations that keep heads together, and for no other.

import equigrad as eg
from equigrad.permute import Permutation
from theorem import fails, holds, moved, normal, randomized, tied, verdict

encoder = randomized(eg.nn.Block(eg.nn.BlockConfig(dim=12, heads=3, mlp=20), 0))
z = normal(2, 7, 12)
keeps = Permutation([9, 8, 11, 10, 1, 0, 3, 2, 4, 6, 5, 7])  # heads of 4: whole heads move, and elements within them
splits = Permutation([*range(1, 12), 0])  # one element of each head changes heads


def output(p):
    """Of the block with P^T W P, for Z P."""
    return moved(encoder, tied(encoder, p))(p.columns(z))


holds("P moves whole heads and elements within them", output(keeps), keeps.columns(encoder(z)))
fails("P splits a head", output(splits), splits.columns(encoder(z)))
verdict()
