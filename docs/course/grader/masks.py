"""Exercise 5: the group of a mask against the library's, and against attention itself."""

from itertools import permutations

import equigrad as eg
import numpy as np

from . import expect

CLOSED = -np.inf


def attention_error(mask: np.ndarray, p, rng) -> float:
    """max |f(Z[p]) - f(Z)[p]| of self-attention with random projections, in f64."""
    n = len(mask)
    weights = [eg.tensor(rng.normal(size=(4, 4))) for _ in range(3)]

    def f(z):
        q, k, v = (eg.ops.linear(eg.tensor(z), w) for w in weights)
        return np.asarray(eg.ops.softmax(q @ k.T * 0.5 + eg.tensor(mask)) @ v)

    z = rng.normal(size=(n, 4))
    return float(np.abs(f(z[list(p)].copy()) - f(z)[list(p)]).max())


def masks(rng):
    """Names and masks, tokens in a random order; the first ones are the purest."""
    n = 5
    i, j = np.indices((n, n))
    causal = np.where(j <= i, 0.0, CLOSED)
    yield "no mask", np.zeros((4, 4)), ""
    yield "a causal mask", causal, ""
    yield "two windows", np.where(i // 3 == j // 3, 0.0, CLOSED), ""
    yield "padding", np.where(j < 3, 0.0, CLOSED), ""
    yield "a ring", np.where((i - j) % n <= 1, 0.0, CLOSED), ""
    row = "softmax does not see a number that is added to a whole row"
    yield "no mask, and a number added to each row", np.repeat(rng.integers(1, 9, 4)[:, None] * 0.25, 4, axis=1), row
    yield "windows, and a number added to each row", np.where(i // 2 == j // 2, 0.0, CLOSED) + rng.permutation(n)[
        :, None
    ] * 0.5, row
    yield "distances", -np.abs(i - j) * 1.0, "finite numbers count as well as minus infinity"
    yield "numbers added to columns", np.repeat(
        np.array([[0.0, 0.0, 1.0, 1.0, 1.0]]), 5, axis=0
    ), "a number added to a column is seen"


def check(work, rng) -> str:
    count = 0
    for name, mask, hint in masks(rng):
        order = rng.permutation(len(mask))
        mask = mask[np.ix_(order, order)].copy()
        found = {tuple(int(i) for i in p) for p in work.automorphisms(mask.copy())}
        group = eg.permute.automorphisms(eg.permute.softmax_form(mask))
        everything = set(permutations(range(len(mask))))
        expect(
            found <= everything,
            f"{name}: {min(found - everything, default=None)} is no permutation of {len(mask)} tokens",
        )
        for p in sorted(found):
            error = attention_error(mask, p, rng)
            expect(
                error < 1e-10,
                f"{name}: {p} is in your group, and attention under the mask\n{mask}\ndoes not commute with it (error {error:.1e}). {hint}".rstrip(),
            )
        rest = sorted(everything - found)
        for p in rest:
            if attention_error(mask, p, rng) < 1e-10:
                expect(
                    False,
                    f"{name}: attention under the mask\n{mask}\ncommutes with {p}, which you leave out. {hint}".rstrip(),
                )
        expect(len(found) == group.order, f"{name}: you find {len(found)} permutations, the library {group.order}")
        count += 1
    for n in (3, 4, 6):
        rotations(work.rotations_only(n), n)
    return f"{count} masks: every permutation judged as attention does; the ring of rotations has no reflection"


def rotations(mask, n: int) -> None:
    mask = np.asarray(mask, dtype=np.float64)
    expect(mask.shape == (n, n), f"rotations_only({n}): shape {mask.shape}, not {(n, n)}")
    expect(bool(np.isin(mask, [0.0, CLOSED]).all()), f"rotations_only({n}): entries are 0 or minus infinity")
    expect(bool((mask == 0.0).any(axis=1).all()), f"rotations_only({n}): a token that sees nothing has no softmax")
    group = eg.permute.automorphisms(eg.permute.softmax_form(mask))
    for shift in range(n):
        p = [(i + shift) % n for i in range(n)]
        expect(
            np.array_equal(mask[np.ix_(p, p)], mask),
            f"rotations_only({n}): the rotation by {shift} is not in the group",
        )
    hint = " A ring whose edges point both ways has reflections too" if group.order == 2 * n else ""
    expect(group.order == n, f"rotations_only({n}): the group has {group.order} elements, not {n}.{hint}")
