# Theorem 10.1: what lies outside the encoder gets the same gradients.

import equigrad as eg
from equigrad import ops
from theorem import fails, gradients, holds, moved, normal, randomized, rows, verdict

block = eg.nn.BlockConfig(dim=12, heads=3, mlp=20)
config = eg.nn.VitConfig(image=8, channels=2, patch=4, classes=5, layers=2, encoder=block)
plain = randomized(eg.nn.Vit(config, 0))
key = eg.permute.BlocksKey.random(config.encoder, 2, "decoupled", 5)
other = moved(plain, key.permutations(config.encoder), eg.permute.vit_axes(config))
images, p = normal(3, 2, 8, 8), rows(3, config.tokens)


def logits():
    z = other.encode(ops.permute_rows(key.apply_columns(other.embed(images)), p))
    return other.head(key.undo_columns(ops.permute_rows(z, ops.invert_permutation(p))))


expected, permuted = gradients(plain, lambda: plain(images)), gradients(other, logits)
fails("every gradient is the plain one", permuted, expected)
outside = [name for name in expected if not name.startswith("blocks.")]
holds("embedding, class token, positions, final norm, classifier",
      {name: permuted[name] for name in outside}, {name: expected[name] for name in outside})
verdict()
