"""A random sample of eg.ops calls beside NumPy's and PyTorch's answers, all in one process.

Each row of the table draws its inputs; EQUIGRAD_SEED draws others. PyTorch is compared where it is installed.
"""

import math
import os

import equigrad as eg
import numpy as np
import pytest

SEED = int(os.environ.get("EQUIGRAD_SEED", "20240701"))
DRAWS = 6


def shape(rng, low=1, high=4):
    return tuple(int(n) for n in rng.integers(1, 7, rng.integers(low, high)))


def normal(rng, like=None):
    return [rng.normal(size=shape(rng) if like is None else like)]


def positive(rng):
    return [rng.uniform(0.1, 4, shape(rng))]


def broadcast_pair(rng):
    whole = shape(rng, 2, 5)
    part = [n if rng.random() < 0.6 else 1 for n in whole[int(rng.integers(0, len(whole))) :]]
    pair = [rng.normal(size=whole), rng.uniform(0.5, 2, part)]
    return pair if rng.random() < 0.5 else pair[::-1]


def matrices(rng):
    m, k, n, batch = *(int(x) for x in rng.integers(1, 40, 3)), shape(rng, 0, 3)
    return [rng.normal(size=(*batch, m, k)), rng.normal(size=(k, n))]


def rows(rng):
    return [rng.normal(size=(int(rng.integers(1, 9)), int(rng.integers(2, 40))))]


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def erf(x):
    return np.vectorize(math.erf)(x)


def layer_norm(x):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


# name: (draw, attributes, NumPy's answer or None, PyTorch's answer or None)
POINTWISE = {
    "exp": (normal, {}, np.exp, "exp"),
    "expm1": (normal, {}, np.expm1, "expm1"),
    "log": (positive, {}, np.log, "log"),
    "log1p": (positive, {}, np.log1p, "log1p"),
    "sqrt": (positive, {}, np.sqrt, "sqrt"),
    "rsqrt": (positive, {}, lambda x: 1 / np.sqrt(x), "rsqrt"),
    "tanh": (normal, {}, np.tanh, "tanh"),
    "sin": (normal, {}, np.sin, "sin"),
    "cos": (normal, {}, np.cos, "cos"),
    "tan": (normal, {}, np.tan, "tan"),
    "atan": (normal, {}, np.arctan, "atan"),
    "erf": (normal, {}, erf, "erf"),
    "abs": (normal, {}, np.abs, "abs"),
    "sign": (normal, {}, np.sign, "sign"),
    "floor": (normal, {}, np.floor, "floor"),
    "ceil": (normal, {}, np.ceil, "ceil"),
    "round": (normal, {}, np.round, "round"),
    "square": (normal, {}, np.square, "square"),
    "reciprocal": (positive, {}, np.reciprocal, "reciprocal"),
    "sigmoid": (normal, {}, lambda x: 1 / (1 + np.exp(-x)), "sigmoid"),
    "relu": (normal, {}, lambda x: np.maximum(x, 0), "relu"),
    "gelu": (normal, {}, lambda x: x * 0.5 * (1 + erf(x / math.sqrt(2))), None),
    "silu": (normal, {}, lambda x: x / (1 + np.exp(-x)), None),
    "softplus": (normal, {}, lambda x: np.log1p(np.exp(x)), None),
    "add": (broadcast_pair, {}, np.add, "add"),
    "sub": (broadcast_pair, {}, np.subtract, "sub"),
    "mul": (broadcast_pair, {}, np.multiply, "mul"),
    "div": (broadcast_pair, {}, np.divide, "div"),
    "minimum": (broadcast_pair, {}, np.minimum, "minimum"),
    "maximum": (broadcast_pair, {}, np.maximum, "maximum"),
    "fmod": (broadcast_pair, {}, np.fmod, "fmod"),
    "remainder": (broadcast_pair, {}, np.remainder, "remainder"),
    "lt": (broadcast_pair, {}, np.less, "lt"),
    "ge": (broadcast_pair, {}, np.greater_equal, "ge"),
}
OTHERS = {
    "matmul": (matrices, {}, np.matmul, "matmul"),
    "softmax": (rows, {}, softmax, lambda t, x: t.softmax(x, -1)),
    "log_softmax": (rows, {}, lambda x: np.log(softmax(x)), lambda t, x: t.log_softmax(x, -1)),
    "layer_norm": (rows, {}, layer_norm, lambda t, x: t.nn.functional.layer_norm(x, x.shape[-1:])),
    "logsumexp": (rows, {"axes": [-1]}, lambda x: np.log(np.exp(x).sum(-1)), lambda t, x: t.logsumexp(x, -1)),
    "sum": (rows, {"axes": [0]}, lambda x: x.sum(0), lambda t, x: x.sum(0)),
    "mean": (rows, {"axes": [1], "keepdim": True}, lambda x: x.mean(1, keepdims=True), lambda t, x: x.mean(1, True)),
    "var": (rows, {"axes": [1]}, lambda x: x.var(1, ddof=1), lambda t, x: x.var(1)),
    "std": (rows, {"axes": [1], "correction": 0}, lambda x: x.std(1), lambda t, x: x.std(1, unbiased=False)),
    "prod": (rows, {"axes": [1]}, lambda x: x.prod(1), lambda t, x: x.prod(1)),
    "amax": (rows, {"axes": [0]}, lambda x: x.max(0), lambda t, x: x.amax(0)),
    "argmax": (rows, {"axis": 1}, lambda x: x.argmax(1), lambda t, x: x.argmax(1)),
    "norm": (rows, {"axes": [1]}, lambda x: np.linalg.norm(x, axis=1), lambda t, x: x.norm(dim=1)),
    "cumsum": (rows, {"axis": 1}, lambda x: x.cumsum(1), lambda t, x: x.cumsum(1)),
    "cumprod": (rows, {"axis": 0}, lambda x: x.cumprod(0), lambda t, x: x.cumprod(0)),
    "argsort": (rows, {"axis": 1}, lambda x: x.argsort(1, kind="stable"), lambda t, x: x.argsort(1)),
    "transpose": (rows, {}, lambda x: x.T, lambda t, x: x.t()),
    "flip": (rows, {"axes": [1]}, lambda x: x[:, ::-1], lambda t, x: x.flip(1)),
    "roll": (rows, {"shifts": [2], "axes": [1]}, lambda x: np.roll(x, 2, 1), lambda t, x: x.roll(2, 1)),
    "tril": (rows, {"diagonal": 1}, lambda x: np.tril(x, 1), lambda t, x: x.tril(1)),
    "repeat": (rows, {"repeats": [2, 3]}, lambda x: np.tile(x, (2, 3)), lambda t, x: x.repeat(2, 3)),
    "pad": (rows, {"axis": 1, "before": 2, "after": 1}, lambda x: np.pad(x, ((0, 0), (2, 1))), None),
    "clamp": (rows, {"min": -0.5, "max": 0.5}, lambda x: x.clip(-0.5, 0.5), lambda t, x: x.clamp(-0.5, 0.5)),
}
TABLE = {**POINTWISE, **OTHERS}


def draws(name):
    """The drawn calls of one op: arrays, sometimes transposed or cut so that they are strided."""
    for number in range(DRAWS):
        rng = np.random.default_rng([SEED, number, *map(ord, name)])
        arrays = TABLE[name][0](rng)
        yield [a if rng.random() < 0.6 else np.repeat(a, 2, -1)[..., ::2] for a in arrays]


def close(found, expected, dtype):
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape
    scale = np.abs(expected).max(initial=0) + 1
    tolerance = 1e-12 if dtype == "float64" else 3e-6
    np.testing.assert_allclose(found, expected, rtol=10 * tolerance, atol=tolerance * scale)


@pytest.mark.parametrize("name", TABLE)
def test_numpy(name):
    _, attributes, answer, _ = TABLE[name]
    for arrays in draws(name):
        found = getattr(eg.ops, name)(*arrays, **attributes)
        close(found, answer(*arrays), "float64")


def torchs(torch, name):
    answer = TABLE[name][3]
    if answer is None:
        known = {"gelu": torch.nn.functional.gelu, "silu": torch.nn.functional.silu}
        known["softplus"] = torch.nn.functional.softplus
        known["pad"] = lambda x: torch.nn.functional.pad(x, (2, 1))
        return known[name]
    return getattr(torch, answer) if isinstance(answer, str) else lambda *x: answer(torch, *x)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", TABLE)
def test_torch(name, dtype):
    """Values, and gradients for one drawn cotangent, on the same memory."""
    torch = pytest.importorskip("torch")
    attributes, answer = TABLE[name][1], torchs(torch, name)
    for arrays in draws(name):
        mine = [eg.tensor(a.astype(dtype)) for a in arrays]
        theirs = [torch.from_dlpack(x).clone().requires_grad_() for x in mine]
        with eg.Tape() as tape:
            y = getattr(eg.ops, name)(*mine, **attributes)
        z = answer(*theirs)
        close(y, z.detach(), dtype)
        if not z.is_floating_point():
            continue
        v = np.random.default_rng(SEED).normal(size=y.shape).astype(dtype)
        gradients = tape.gradient(y, mine, eg.tensor(v))
        expected = torch.autograd.grad(z, theirs, torch.from_numpy(v), allow_unused=True)
        for g, e in zip(gradients, expected):
            close(g, np.zeros(g.shape) if e is None else e, dtype)


def test_attention_block_and_loss_beside_torch(rng):
    torch = pytest.importorskip("torch")
    x, w = rng.normal(size=(2, 5, 8)), rng.normal(size=(24, 8)) * 0.3
    labels = rng.integers(0, 8, (2, 5))

    def mine(x, w):
        q, k, v = (t.reshape(2, 5, 2, 4).transpose(1, 2) for t in eg.ops.split(eg.ops.linear(x, w), sizes=[8], axis=2))
        y = eg.ops.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(2, 5, 8)
        return eg.ops.cross_entropy(eg.ops.gelu(y + x), eg.tensor(labels))

    def theirs(x, w):
        q, k, v = (t.reshape(2, 5, 2, 4).transpose(1, 2) for t in torch.nn.functional.linear(x, w).split(8, 2))
        y = ((q @ k.transpose(-1, -2) / 2).softmax(-1) @ v).transpose(1, 2).reshape(2, 5, 8)
        return torch.nn.functional.cross_entropy(
            torch.nn.functional.gelu(y + x).reshape(10, 8), torch.from_numpy(labels).reshape(10)
        )

    value, gradients = eg.value_and_grad(mine)(eg.tensor(x), eg.tensor(w))
    tx, tw = torch.from_numpy(x).requires_grad_(), torch.from_numpy(w).requires_grad_()
    loss = theirs(tx, tw)
    loss.backward()
    close(value, loss.detach(), "float64")
    for g, t in zip(gradients, (tx, tw)):
        close(g, t.grad, "float64")
