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


FAILING = {
    "a shape": lambda: eg.random.normal((-1,)),
    "a mean": lambda: eg.random.normal((2,), mean="much"),
    "another argument": lambda: eg.random.uniform((2,), lowest=0),
    "no end": lambda: eg.random.integers((3,)),
    "an empty range": lambda: eg.random.integers((3,), low=5, high=5),
    "a type": lambda: eg.random.normal((2,), dtype="i64"),
    "a size": lambda: nn.Linear(-1, 3),
    "heads": lambda: nn.MultiHeadAttention(10, 3),
    "an argument of a module": lambda: nn.Linear(2, 3, None, False, 5),
    "an input": lambda: nn.Dropout(0.5)(eg.zeros((3,), dtype="i64")),
}


@pytest.mark.parametrize("failing", FAILING.values(), ids=FAILING)
def test_a_call_that_fails_takes_no_key(failing):
    def first_two():
        return [eg.random.normal((3,)), nn.Dropout(0.5)(eg.ones(40))]

    eg.random.seed(7)
    wanted = first_two()
    eg.random.seed(7)
    with pytest.raises((eg.Error, TypeError)):
        failing()
    assert all(eg.same_bits(a, b) for a, b in zip(first_two(), wanted))
    assert not eg.same_bits(first_two()[0], wanted[0])
