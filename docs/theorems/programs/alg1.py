# Algorithm 1: a ViT that is trained on permuted tokens and features alone learns the plain model, moved.

import equigrad as eg
from equigrad import ops
from theorem import fails, holds, keys, moved, normal, randomized, rows, verdict

block = eg.nn.BlockConfig(dim=12, heads=3, mlp=20)
config = eg.nn.VitConfig(image=8, channels=2, patch=4, classes=5, layers=2, encoder=block)
plain, axes = randomized(eg.nn.Vit(config, 0)), eg.permute.vit_axes(config)
key = eg.permute.BlocksKey.random(config.encoder, 2, "decoupled", 5)
permutations = key.permutations(config.encoder)
blind = moved(plain, permutations, axes)


def logits(images):
    """Tokens and features are shuffled before the blocks, and restored behind them."""
    p = rows(len(images), config.tokens)
    z = blind.encode(ops.permute_rows(key.apply_columns(blind.embed(images)), p))
    return blind.head(key.undo_columns(ops.permute_rows(z, ops.invert_permutation(p))))


def step(vit, output, labels):
    with eg.Tape() as tape:
        loss = ops.cross_entropy(output(), labels)
    eg.optim.SGD(vit.parameters()).step(tape.gradient(loss, vit.parameters()), 0.05)


for _ in range(10):
    images, labels = normal(4, 2, 8, 8), eg.random.integers(4, next(keys), 0, 5)
    step(plain, lambda: plain(images), labels)
    step(blind, lambda: logits(images), labels)
expected = eg.permute.transform(plain.state_dict(), axes, permutations)
holds("the blind model is the plain one, moved", blind.state_dict(), expected)
fails("the blind model is the plain one", blind.state_dict(), plain.state_dict())
verdict()
