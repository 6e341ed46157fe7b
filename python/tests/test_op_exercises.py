"""The answers to the exercises of docs/ops, and what its pages say without a program."""

import math
from pathlib import Path

import equigrad as eg
import numpy as np
import pytest
from equigrad import ops

FOLDER = Path(__file__).parents[2] / "docs" / "ops"


def says(page, text):
    """The page holds the answer, line breaks aside."""
    return " ".join(text.split()) in " ".join((FOLDER / f"{page}.md").read_text().split())


def gradients(function, inputs, g=None):
    """Output and gradients of sum(g * output), g of ones where it is not given."""
    x = [eg.tensor(np.array(value, dtype=np.float64)) for value in inputs]
    with eg.Tape() as tape:
        y = function(*x)
    cotangent = np.ones(y.shape) if g is None else np.array(g, dtype=np.float64)
    return np.array(y), [np.array(v) for v in tape.gradient(y, x, eg.tensor(cotangent))]


def close(a, b, to=1e-11):
    return np.allclose(a, b, rtol=0, atol=to)


@pytest.fixture
def normal(rng):
    return lambda *shape: rng.standard_normal(shape)


def test_linear(normal):
    w, t = normal(4, 3), normal(4)
    for rows in (1, 2):
        x = normal(rows, 3)
        _, (gw,) = gradients(lambda w: ops.square(ops.linear(eg.tensor(x), w) - eg.tensor(t)).sum() * 0.5, [w])
        assert np.linalg.matrix_rank(gw) == rows
    assert close(gradients(lambda w: ops.linear(eg.tensor(np.zeros((1, 3))), w), [w])[1][0], 0)
    x, w1, w2, g = normal(1, 3), normal(5, 3), normal(2, 5), normal(1, 2)
    _, (_, g1, _) = gradients(lambda x, w1, w2: ops.linear(ops.linear(x, w1), w2), [x, w1, w2], g)
    assert close(g1, w2.T @ g.T @ x) and says("linear", r"= W_2^\top g^\top x$")


def test_gelu(normal):
    x = normal(50)
    assert close(np.array(ops.gelu(x)) - np.array(ops.gelu(-x)), x)
    assert close(np.array(ops.gelu(x)) - x / 2, np.array(ops.gelu(-x)) + x / 2)  # the even part
    slope = lambda at: gradients(ops.gelu, [[at]])[1][0][0]  # noqa: E731
    density = math.exp(-0.5) / math.sqrt(2 * math.pi)
    step = -slope(-1.0) / density
    assert 0.3 < step < 0.36 and -0.7 < -1 + step < -0.63  # a third, and over the minimum
    at = -1 + step
    for _ in range(5):
        at -= slope(at) / ((2 - at * at) * math.exp(-at * at / 2) / math.sqrt(2 * math.pi))
    assert round(at, 4) == -0.7518
    assert close(gradients(ops.gelu, [x])[1][0] + gradients(ops.gelu, [-x])[1][0], 1)  # of the page's derivation
    top = slope(math.sqrt(2))
    assert top > max(slope(math.sqrt(2) - 0.01), slope(math.sqrt(2) + 0.01))


def test_softmax(normal):
    x, g = normal(5), normal(5)
    largest = []
    for temperature in (1.0, 0.1, 0.01, 0.001):
        y, (gx,) = gradients(lambda x: ops.softmax(x * (1 / temperature)), [x], g)
        assert close(gx, y * (g - (g * y).sum()) / temperature)
        largest.append(abs(gx).max())
    assert largest[-1] < 1e-6 < largest[0]
    z, (gx,) = gradients(ops.log_softmax, [x], g)
    assert close(gx, g - np.exp(z) * g.sum())
    rows = normal(40, 33)
    order = np.random.default_rng(0).permutation(40)
    assert (np.array(ops.softmax(rows[order])) == np.array(ops.softmax(rows))[order]).all()  # bit for bit


def test_cross_entropy():
    loss = lambda x, s=0.0: ops.cross_entropy(x, [0], label_smoothing=s)  # noqa: E731
    for classes in (2, 3, 10):
        assert close(float(loss(eg.tensor(np.zeros((1, classes))))), math.log(classes))
    s, classes = 0.1, 4
    gap = math.log(1 + classes * (1 - s) / s)
    assert says("cross_entropy", r"\ln\big(1 + C (1 - s) / s\big)")
    x = np.zeros((1, classes))
    x[0, 0] = gap
    assert close(gradients(lambda x: loss(x, s), [x])[1][0], 0)
    assert not close(gradients(lambda x: loss(x, s), [x + np.eye(1, classes) * 0.1])[1][0], 0, 1e-3)
    gx = gradients(loss, [x + 30 * np.eye(1, classes)])[1][0]
    assert 0 < abs(gx).max() < 1e-10  # never 0 without smoothing, ever smaller


def test_layer_norm(normal):
    x, gamma, beta, g, eps = normal(3, 6), normal(6), normal(6), normal(3, 6), 0.3
    _, (gx, _, _) = gradients(lambda *v: ops.layer_norm(*v, eps=eps), [x, gamma, beta], g)
    r = 1 / np.sqrt(x.var(1, keepdims=True) + eps)
    xh, gh = (x - x.mean(1, keepdims=True)) * r, g * gamma
    assert close(gx.sum(1), 0)
    inner = 6 * eps * r[:, 0] ** 3 * (gh * xh).mean(1)
    assert close((gx * xh).sum(1), inner) and not close(inner, 0, 1e-3)
    assert says("layer_norm", r"n \epsilon r^3\, \overline{\hat g \odot \hat x}")
    two = gradients(lambda x: ops.layer_norm(x, eps=0.0), [normal(4, 2)], normal(4, 2))
    assert close(abs(two[0]), 1) and close(two[1][0], 0)
    three = gradients(lambda x: ops.layer_norm(x, eps=0.0), [normal(4, 3)], normal(4, 3))
    assert not close(three[1][0], 0, 1e-3)


def test_rms_norm(normal):
    x, g = normal(3, 6), normal(3, 6)
    centre = np.eye(6) - 1 / 6
    _, (gx,) = gradients(lambda x: ops.layer_norm(x, eps=1e-3), [x], g)
    _, (through,) = gradients(lambda x: ops.rms_norm(x, eps=1e-3), [x @ centre], g)
    assert close(gx, through @ centre)
    _, (gx,) = gradients(lambda x: ops.rms_norm(x, eps=0.0), [x], g)
    for rate in (0.1, 1.0):
        moved = x - rate * gx
        assert close((moved**2).sum(1), (x**2).sum(1) + rate**2 * (gx**2).sum(1))
    rotation, _ = np.linalg.qr(normal(6, 6))
    rms = lambda x: np.array(ops.rms_norm(x, eps=0.0))  # noqa: E731
    norm = lambda x: np.array(ops.layer_norm(x, eps=0.0))  # noqa: E731
    assert close(rms(x @ rotation), rms(x) @ rotation)  # any orthogonal basis
    assert not close(norm(x @ rotation), norm(x) @ rotation, 1e-3)


def test_batch_norm(normal):
    norm = lambda x, eps=0.0: ops.batch_norm(x, eps=eps)[0]  # noqa: E731
    y, (gx,) = gradients(norm, [np.array([[1.0], [4]])], normal(2, 1))
    assert close(y, [[-1], [1]]) and close(gx, 0)
    z, w, b, g = normal(5, 3), normal(2, 3), normal(2), normal(5, 2)
    y, (_, gw, gb) = gradients(lambda z, w, b: norm(ops.linear(z, w, b)), [z, w, b], g)
    assert close(gb, 0) and close((gw * w).sum(1), 0) and not close(gw, 0, 1e-3)
    scale = np.array([[2.0], [5.0]])
    scaled, (_, other, _) = gradients(lambda z, w, b: norm(ops.linear(z, w, b)), [z, scale * w, b], g)
    assert close(scaled, y) and close(other, gw / scale)
    one, (gx,) = gradients(lambda x: norm(x, 1e-5), [normal(1, 2)], normal(1, 2))
    assert close(one, 0) and close(gx, 0)


def test_embedding(normal):
    w, ids, g = normal(4, 2), [2, 0, 2], normal(3, 4)
    _, (gw,) = gradients(lambda w: ops.linear(ops.embedding(w, ids), w), [w], g)
    lookup = np.eye(4)[ids]
    assert close(gw, lookup.T @ (g @ w) + g.T @ w[ids])  # both uses
    assert (abs(gw).sum(1) > 0).all()  # of every word, read or not


def test_rotary(normal):
    turn = lambda x, p: np.array(ops.rotary(np.reshape(x, (1, 1, 2)), [p], frequencies=[0.7]))[0, 0]  # noqa: E731
    x, u, t = normal(2), 1.3, -0.4
    commutes = np.array([[u, -t], [t, u]])
    assert close(turn(commutes @ x, 3), commutes @ turn(x, 3))
    for other in ([[1, 0], [0, -1]], [[2, 0], [0, 1]], [[0, 1], [1, 0]]):  # reflections, one feature scaled, exchanged
        assert not close(turn(np.array(other) @ x, 3), np.array(other) @ turn(x, 3), 1e-3)
    assert np.spacing(np.float32(100000)) == 1 / 128


def test_attention(normal):
    attend = lambda q, k, v: ops.scaled_dot_product_attention(q, k, v, scale=0.5)  # noqa: E731
    q, v, g = normal(3, 4), normal(5, 2), normal(3, 2)
    y, (gq, gk, _) = gradients(attend, [q, np.tile(normal(1, 4), (5, 1)), v], g)
    assert close(y, np.tile(v.mean(0), (3, 1))) and close(gq, 0) and close(gk.sum(0), 0) and not close(gk, 0, 1e-3)
    _, (_, gk, _) = gradients(attend, [q, normal(5, 4), v], g)
    assert close(gk.sum(0), 0)  # for any keys
    q, k, v, g = normal(4, 3, 2), normal(1, 5, 2), normal(1, 5, 2), normal(4, 3, 2)
    _, (gq, gk, gv) = gradients(attend, [q, k, v], g)
    alone = [gradients(attend, [q[h], k[0], v[0]], g[h])[1] for h in range(4)]
    assert close(gk[0], sum(a[1] for a in alone)) and close(gv[0], sum(a[2] for a in alone))
    assert close(gq, np.stack([a[0] for a in alone]))


def test_conv2d(normal):
    x, w, b, g = normal(2, 3, 4, 5), normal(6, 3, 1, 1), normal(6), normal(2, 6, 4, 5)
    y, (gx, gw, gb) = gradients(ops.conv2d, [x, w, b], g)
    flat = lambda a: np.moveaxis(a, 1, -1).reshape(-1, a.shape[1])  # noqa: E731
    assert close(flat(y), flat(x) @ w[:, :, 0, 0].T + b)
    assert close(flat(gx), flat(g) @ w[:, :, 0, 0]) and close(gw[:, :, 0, 0], flat(g).T @ flat(x))
    assert close(gb, flat(g).sum(0))
    ones = np.ones((1, 1, 3, 3))
    _, (counts,) = gradients(lambda x: ops.conv2d(x, ones, stride=(2, 2)), [np.zeros((1, 1, 5, 5))])
    assert [int((counts == n).sum()) for n in (1, 2, 4)] == [16, 8, 1] and counts[0, 0, 2, 2] == 4
    assert says("conv2d", "the remaining 16 in one")


def test_einsum(normal):
    q, k, g = normal(2, 3, 4), normal(2, 5, 4), normal(2, 3, 5)
    _, (gq, gk) = gradients(lambda q, k: ops.einsum([q, k], "hqd,hkd->hqk"), [q, k], g)
    assert close(gq, ops.einsum([g, k], "hqk,hkd->hqd")) and close(gk, ops.einsum([q, g], "hqd,hqk->hkd"))
    assert says("einsum", "`hqk,hkd->hqd` of $(g, k)$ and `hqd,hqk->hkd` of $(q, g)$")
    y, (gx,) = gradients(lambda x: ops.einsum([x, x], "i,i->"), [[1, 2, 3]])
    assert float(y) == 14 and close(gx, [2, 4, 6])


def test_the_arithmetic_of_the_pages():
    assert 1024 * 50_000 == 51_200_000 and says("embedding", "51 million entries")
    assert 4096**2 * 16 == 268_435_456 and says("attention", "268 million entries")
    assert says("einsum", r"$10^8$ products; two products of matrices take $2 \cdot 10^6$") and 100**4 == 10**8
