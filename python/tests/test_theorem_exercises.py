"""The answers to the exercises of docs/theorems that are numbers, or that can be computed."""

import itertools
import math
import sys
from pathlib import Path

import equigrad as eg
import numpy as np
import pytest
from equigrad import ops
from equigrad.permute import Permutation, automorphisms, softmax_form

FOLDER = Path(__file__).parents[2] / "docs" / "theorems"


@pytest.fixture
def theorem(monkeypatch):
    """The module that the programs of the pages share."""
    monkeypatch.syspath_prepend(str(FOLDER / "programs"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    import theorem

    return theorem


def f64(values):
    return eg.tensor(np.array(values, dtype=np.float64))


def close(a, b, to=1e-11):
    return np.allclose(np.asarray(a), np.asarray(b), rtol=0, atol=to)


def says(page, text):
    """The page holds the answer, line breaks aside."""
    return " ".join(text.split()) in " ".join((FOLDER / f"{page}.md").read_text().split())


def all_permutations(size):
    return [Permutation(list(p)) for p in itertools.permutations(range(size))]


def test_softmax_of_three_numbers():
    assert close(ops.softmax(f64([0, math.log(2), math.log(5)])), np.array([1, 2, 5]) / 8)
    assert close(ops.softmax(f64([math.log(5), 0, math.log(2)])), np.array([5, 1, 2]) / 8)
    assert says("lem9.2", "$(1, 2, 5)/8$") and says("lem9.2", "$(5, 1, 2)/8$")


def test_a_small_weight_moved():
    w = f64([[1, 2], [3, 4], [5, 6]])
    assert close(Permutation([1, 0]).columns(Permutation([2, 0, 1]).rows(w)), [[6, 5], [2, 1], [4, 3]])
    assert says("lem9.3", r"\begin{pmatrix} 6 & 5 \\ 2 & 1 \\ 4 & 3 \end{pmatrix}")


def test_a_linear_layer_between_invertible_maps(theorem):
    x, w, a, b = (np.asarray(theorem.normal(*shape)) for shape in ((4, 3), (5, 3), (3, 3), (5, 5)))
    moved = b.T @ w @ np.linalg.inv(a).T
    assert close(x @ a @ moved.T, x @ w.T @ b, 1e-9)
    assert not close(x @ a @ (b.T @ w @ a).T, x @ w.T @ b, 1e-3)


def test_bits_of_a_hidden_axis():
    bits = math.lgamma(3073) / math.log(2)
    assert round(bits) == 31164 and says("lem9.4", r"31{,}164")
    config = eg.nn.BlockConfig(dim=768, heads=12, mlp=3072)
    tied, outer = (eg.permute.key_space_log2(config, 1, form) for form in ("tied", "residual"))
    assert tied < outer < bits


def test_layer_norm_of_two_numbers():
    def norm(x, gamma):
        return ops.layer_norm(f64([x]), f64(gamma), eps=1e-15)

    assert close(norm([1, 3], [2, 1]), [[-2, 1]])
    assert close(norm([3, 1], [1, 2]), [[1, -2]])
    assert close(norm([3, 1], [2, 1]), [[2, -1]])
    assert close(norm([-1, 3], [1, 1]), [[-1, 1]])  # ln-sign
    assert says("lem9.5", "$(2, -1)$, another vector") and says("ln-sign", r"$\mathrm{LN}(xD) = (-1, 1)$")


def test_rms_norm_of_two_numbers():
    assert close(ops.rms_norm(f64([[3, 4]]), f64([1, 2]), eps=0.0), [[0.85, 2.26]], 5e-3)
    assert close(ops.rms_norm(f64([[4, 3]]), f64([2, 1]), eps=0.0), [[2.26, 0.85]], 5e-3)
    assert says("stip-rms", "$\\mathrm{RMS}(x) = (3, 8) / 3.536 = (0.85, 2.26)$")


def test_groups_of_small_masks():
    closed = -math.inf
    prefix = [[0, 0, closed, closed], [0, 0, closed, closed], [0, 0, 0, closed], [0, 0, 0, 0]]
    assert automorphisms(softmax_form(f64(prefix))).order == 2
    for b, order in (([1, 2, 4, 8], 1), ([1, 2, 2, 8], 2), ([1, 1, 1, 1], 24)):
        sums = f64([[i + j for j in b] for i in (3, 1, 4, 2)])
        assert automorphisms(softmax_form(sums)).order == order
    causal = [[0, closed], [0, 0]]  # thm10.2
    assert automorphisms(softmax_form(f64(causal))).order == 1


def test_permutations_of_two_heads(theorem):
    encoder = theorem.randomized(eg.nn.Block(eg.nn.BlockConfig(dim=4, heads=2, mlp=5), 0))
    z = theorem.normal(2, 3, 4)

    def passes(p):
        y = theorem.moved(encoder, theorem.tied(encoder, p))(p.columns(z))
        return eg.relative_error(y, p.columns(encoder(z))) < 1e-9

    valid = [tuple(p.gather) for p in all_permutations(4) if passes(p)]
    assert len(valid) == 8
    assert (1, 0, 2, 3) in valid and (2, 3, 0, 1) in valid and (0, 2, 1, 3) not in valid


def test_two_pairs_that_turn_at_one_speed(theorem):
    q, k = theorem.normal(5, 4), theorem.normal(5, 4)

    def scores(a, b, frequencies):
        turned = [ops.rotary(x.reshape((1, 5, 1, 4)), eg.arange(5), frequencies=frequencies) for x in (a, b)]
        return ops.matmul(*(t.reshape((5, 4)) for t in turned), transpose_b=True)

    def passing(speeds):
        plain = scores(q, k, speeds)
        moved = ((p, scores(p.columns(q), p.columns(k), speeds)) for p in all_permutations(4))
        return [tuple(p.gather) for p, s in moved if eg.relative_error(s, plain) < 1e-9]

    assert passing((0.7, 0.7)) == [(0, 1, 2, 3), (1, 0, 3, 2)]  # pairs are (0, 2) and (1, 3)
    assert passing((0.7, 0.2)) == [(0, 1, 2, 3)]


def test_gradients_of_keys_add_up_to_zero(theorem):
    q, k, v, g = (theorem.normal(5, 4) for _ in range(4))
    to_q, to_k = eg.vjp(lambda a, b: ops.scaled_dot_product_attention(a, b, v), [q, k], g).gradients
    assert close(to_k.sum(0), np.zeros(4))
    assert not close(to_q.sum(0), np.zeros(4), 1e-3)


def test_a_cache_on_two_machines(theorem):
    q, k, v = (np.asarray(theorem.normal(*shape)) for shape in ((3,), (6, 3), (6, 2)))

    def part(keys, values):
        e = keys @ q / math.sqrt(3)
        return e.max(), np.exp(e - e.max()).sum(), np.exp(e - e.max()) @ values

    (m1, s1, n1), (m2, s2, n2) = part(k[:2], v[:2]), part(k[2:], v[2:])
    f1, f2 = np.exp(m1 - max(m1, m2)), np.exp(m2 - max(m1, m2))
    assert close((f1 * n1 + f2 * n2) / (f1 * s1 + f2 * s2), ops.scaled_dot_product_attention(q[None], k, v)[0])


def test_an_equation_between_gradients_of_swiglu(theorem):
    x, g, gate, up, down = (theorem.normal(*shape) for shape in ((7, 4), (7, 4), (5, 4), (5, 4), (4, 5)))

    def loss(w3, w2):
        return (g * ops.gelu(ops.linear(ops.swiglu(ops.linear(x, gate), ops.linear(x, w3)), w2))).sum()

    g3, g2 = eg.grad(loss)(up, down)
    assert close((up * g3).sum(1), (down * g2).sum(0))
    assert not close((up * g3).sum(1), np.zeros(5), 1e-3)


def test_newtons_method_follows_invertible_maps(theorem):
    h, slope, t = (np.asarray(theorem.normal(*shape)) for shape in ((3, 3), (3,), (3, 3)))
    h, inverse = h + h.T, np.linalg.inv(t)
    step = np.linalg.solve(h, slope)
    assert close(np.linalg.solve(inverse.T @ h @ inverse, inverse.T @ slope), t @ step, 1e-9)
    assert not close(inverse.T @ slope, t @ slope, 1e-3)  # the step of SGD


def test_a_mean_over_tokens_and_a_loss_that_weighs_them(theorem):
    encoder = theorem.randomized(eg.nn.Block(eg.nn.BlockConfig(dim=4, heads=2, mlp=5), 0))
    z, p = theorem.normal(1, 5, 4), theorem.permutation(5)
    y, y_p = encoder(z), encoder(p.rows(z))
    assert close(y_p.mean(1), y.mean(1))  # thm4.1
    weights = f64([[1], [2], [3], [4], [5]])
    assert close((weights * p.inverse().rows(y_p)).sum(), (weights * y).sum())  # thm4.2
    assert not close((weights * y_p).sum(), (weights * y).sum(), 1e-3)


def test_relu_passes_positive_scales_and_gelu_does_not(theorem):
    x, w1, b1, w2 = (theorem.normal(*shape) for shape in ((7, 4), (5, 4), (5,), (4, 5)))
    s = f64([2, 0.5, 3, 1.5, 0.25])

    def mlp(act, scale):
        return ops.linear(act(ops.linear(x, w1 * scale.reshape((5, 1)), b1 * scale)), w2 / scale)

    one = eg.ones(5, dtype="f64")
    assert close(mlp(ops.relu, s), mlp(ops.relu, one))
    assert not close(mlp(ops.gelu, s), mlp(ops.gelu, one), 1e-3)


def test_convolutions_on_a_ring_and_depthwise(theorem):
    x, w = theorem.normal(1, 3, 1, 6), theorem.normal(3, 3, 1, 3)

    def ring(image, weight):
        closed = ops.concat([image[..., 5:], image, image[..., :1]], axis=3)
        return ops.conv2d(closed, weight)

    def error(p, weight):
        return eg.relative_error(ring(p.columns(x), weight), p.columns(ring(x, w)))

    passing = [tuple(p.gather) for p in all_permutations(6) if error(p, w) < 1e-9]
    assert sorted(passing) == [tuple((i + t) % 6 for i in range(6)) for t in range(6)]
    assert error(Permutation([5, 4, 3, 2, 1, 0]), ops.flip(w, axes=[3])) < 1e-9
    image, windows, p = theorem.normal(1, 3, 4, 4), theorem.normal(3, 1, 3, 3), theorem.permutation(3)

    def depthwise(a, b):
        return ops.conv2d(a, b, padding=(1, 1), groups=3)

    assert close(depthwise(p.apply(image, 1), p.apply(windows, 0)), p.apply(depthwise(image, windows), 1))
    assert not close(depthwise(p.apply(image, 1), windows), p.apply(depthwise(image, windows), 1), 1e-3)


def test_steps_that_take_signs(theorem):
    turn = f64([[1, 1], [-1, 1]]) / math.sqrt(2)
    slope = f64([[1, 0]])
    assert close(ops.sign(ops.matmul(slope, turn)), [[1, 1]])
    assert close(ops.matmul(ops.sign(slope), turn), np.ones((1, 2)) / math.sqrt(2))
