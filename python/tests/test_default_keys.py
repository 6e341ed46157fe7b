"""Keys of calls that are given none."""

import numpy as np
import pytest

import equigrad as eg

nn = eg.nn


@pytest.mark.parametrize("make", [
    lambda: nn.Dropout(0.5),
    lambda: nn.MultiHeadAttention(8, 2, dropout=0.5),
    lambda: nn.Block(nn.BlockConfig(dim=8, heads=2, dropout=0.5)),
])
def test_dropout_without_a_key_drops_others_in_every_step(make):
    model, x = make(), eg.ones(1, 5, 8)
    first, second = model(x), model(x)
    assert not eg.same_bits(first, second)
    assert eg.same_bits(model(x, key=3), model(x, key=3))
    eg.random.seed(1)
    model.eval()
    assert eg.same_bits(model(x), model(x))
    after = eg.random.normal((2,))
    eg.random.seed(1)
    assert eg.same_bits(after, eg.random.normal((2,)))  # evaluation draws no key


def test_without_keys_numbers_are_the_same_in_every_run_and_differ_within_one():
    def drawn():
        eg.random.seed(5)
        return [eg.random.normal((3,)), nn.Linear(3, 3).weight, eg.random.normal((3,))]

    first, second = drawn(), drawn()
    assert all(eg.same_bits(a, b) for a, b in zip(first, second))
    assert not eg.same_bits(first[0], first[2])
    eg.random.seed(6)
    assert not eg.same_bits(eg.random.normal((3,)), first[0])
