"""What the programs of these pages share: random values in f64, generic weights, and verdicts."""

import itertools

import equigrad as eg
from equigrad import ops
from equigrad.permute import Permutation

keys = (eg.random.Key(1, stream) for stream in itertools.count(1))  # each is taken once
_good = True


def normal(*shape, stddev=1.0, mean=0.0):
    return eg.random.normal(shape, next(keys), mean, stddev, "f64")


def permutation(size):
    """Never the identity."""
    return Permutation.random_nonidentity(size, next(keys))


def rows(samples, tokens):
    """A permutation for each sample, [samples, tokens]: what ops.permute_rows takes."""
    return eg.permute.row_permutations(samples, tokens, next(keys))


def randomized(module):
    """The module in f64, gamma about 1, every other parameter about 0 and none of them zero."""
    module.to("f64")
    for name, value in module.named_parameters():
        gamma = "norm" in name and name.endswith("weight")
        value.copy_from(normal(*value.shape, stddev=0.3, mean=1.0 if gamma else 0.0))
    return module


def like(module, state):
    """A block or ViT of the same config with these weights."""
    other = type(module)(module.config, 0)
    other.to("f64")
    other.load_state_dict(state)
    return other


def moved(module, permutations, axes=None):
    """One whose weights are moved by the permutations, {axis group: permutation}."""
    return like(module, eg.permute.transform(module.state_dict(), axes or eg.permute.block_axes(), permutations))


def tied(block, p):
    """The permutations of a block by one P for the residual stream and the inner axes of attention."""
    qkv = Permutation([part * len(p) + i for part in range(3) for i in p.gather])
    hidden = Permutation.identity(block.config.mlp)
    return {"residual": p, "blocks.0.qkv": qkv, "blocks.0.v": p, "blocks.0.hidden": hidden}


def gradients(module, output):
    """{parameter: dL/d(parameter)} of L = sum(g * gelu(output())), with one g for every output of a shape."""
    with eg.Tape() as tape:
        y = output()
        loss = (eg.random.normal(y.shape, 2, dtype="f64") * ops.gelu(y)).sum()
    return dict(zip(module.state_dict(), tape.gradient(loss, module.parameters())))


def train(module, output):
    """Twenty steps of SGD with momentum on batches Z [4, 7, 12]; output(z, step) is what the model makes of one."""
    optimizer = eg.optim.SGD(module.parameters(), momentum=0.9)
    for step in range(20):
        z = eg.random.normal((4, 7, 12), eg.random.Key(3, step), dtype="f64")
        with eg.Tape() as tape:
            loss = ops.square(output(z, step) - z).mean()
        optimizer.step(tape.gradient(loss, module.parameters()), 0.05)


def error(a, b):
    """Of tensors, or the largest of tensors by name."""
    if isinstance(a, dict):
        return max(eg.relative_error(a[name], b[name]) for name in b) if a.keys() == b.keys() else 1.0
    return eg.relative_error(a, b)


def _say(what, good, yes, no):
    global _good
    _good = _good and good
    print(f"{what}: {yes if good else no}")


def holds(what, a, b):
    _say(what, error(a, b) <= 1e-11, "holds to 1e-11", "FAILS")


def holds_in_bits(what, a, b):
    _say(what, eg.same_bits(a, b), "holds bit for bit", "FAILS")


def fails(what, a, b):
    """A control: a must differ from b."""
    _say(what, error(a, b) > 1e-3, "fails, as it must", "HOLDS, and must not")


def verdict():
    """Ends the program with an error where something was not as it must be."""
    raise SystemExit(0 if _good else 1)
