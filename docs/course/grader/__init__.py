"""Checkers of the exercises: each module's check(work, rng) takes a solution's module and random numbers, raises Wrong with
a sentence that helps, or returns what was measured."""

import copy

import equigrad as eg
import numpy as np


class Wrong(Exception):
    """The solution is wrong; the message says in which way, and how to see it."""


def expect(condition: bool, sentence: str) -> None:
    if not condition:
        raise Wrong(sentence)


def apart(found: np.ndarray, expected: np.ndarray) -> float:
    """max |found - expected| / max |expected|."""
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def key(rng: np.random.Generator) -> int:
    return int(rng.integers(1, 2**31))


def shuffled(n: int, rng: np.random.Generator) -> list[int]:
    """A permutation of n >= 2 elements that is neither the identity nor (for n >= 3) its own inverse."""
    while True:
        p = rng.permutation(n)
        if (p != np.arange(n)).any() and (n < 3 or (p[p] != np.arange(n)).any()):
            return [int(i) for i in p]


def keeping_heads(dim: int, heads: int, rng: np.random.Generator) -> list[int]:
    """Whole heads move, and elements within them, differently in each."""
    size = dim // heads
    return [int(h * size + i) for h in rng.permutation(heads) for i in rng.permutation(size)]


def permutation_of(p, n: int, what: str) -> list[int]:
    """p as a list of n integers; Wrong where it is no permutation."""
    try:
        found = [int(i) for i in p]
    except TypeError:
        raise Wrong(f"{what}: give a list of {n} integers, not {type(p).__name__}") from None
    expect(sorted(found) == list(range(n)), f"{what}: {found} is no permutation of 0, ..., {n - 1}")
    return found


def generic_block(dim: int, heads: int, hidden: int, rng: np.random.Generator) -> eg.nn.Block:
    """A block in f64 whose every weight is random: gains differ from 1, biases from 0."""
    block = eg.nn.Block(eg.nn.BlockConfig(dim=dim, heads=heads, mlp=hidden), key=key(rng))
    block.to("f64")
    block.load_state_dict(
        {
            name: eg.tensor(
                rng.normal(1.0 if name.startswith("norm") and name.endswith("weight") else 0.0, 0.4, x.shape)
            )
            for name, x in block.state_dict().items()
        }
    )
    return block


def arrays(state) -> dict[str, np.ndarray]:
    return {name: np.array(x) for name, x in state.items()}


def with_state(module: eg.nn.Module, state: dict[str, np.ndarray]) -> eg.nn.Module:
    """A copy of the module with these weights."""
    other = copy.deepcopy(module)
    other.load_state_dict({name: eg.tensor(np.array(x)) for name, x in state.items()})
    return other
