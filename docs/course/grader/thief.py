"""Exercise 6: the secret recovered from public weights, from flat norms, and from tuned weights."""

import equigrad as eg
import numpy as np

from . import Wrong, arrays, expect, generic_block, key, permutation_of

DIM, HEADS, HIDDEN = 24, 4, 48


def instance(rng, flat: bool, tuned: float):
    """Public weights, moved weights, and the secret residual."""
    block = generic_block(DIM, HEADS, HIDDEN, rng)
    state = arrays(block.state_dict())
    for name in state:
        if flat and name.startswith("norm"):
            state[name] = np.full(DIM, 1.0 if name.endswith("weight") else 0.0)
    moves = eg.permute.BlocksKey.random(block.config, 1, "decoupled", key(rng))
    changed = {name: eg.tensor(x + tuned * x.std() * rng.normal(size=x.shape)) for name, x in state.items()}
    moved = arrays(eg.permute.transform(changed, eg.permute.block_axes(), moves.permutations(block.config)))
    return state, moved, list(moves.residual.gather)


def recovered(work, public, moved):
    return work.recover_residual(*({name: x.copy() for name, x in state.items()} for state in (public, moved)))


def check(work, rng) -> str:
    levels = [
        ("public weights as they are", False, 0.0, "sorting one vector is enough"),
        ("flat norms", True, 0.0, "gains that are all one say nothing; a matrix has rows or columns for each feature"),
        ("tuned weights", False, 0.02, "compare whole rows or columns by distance, not for equality"),
    ]
    for name, flat, tuned, hint in levels:
        for _ in range(5):
            public, moved, secret = instance(rng, flat, tuned)
            given = recovered(work, public, moved)
            try:
                found = permutation_of(given, DIM, name)
            except Wrong as wrong:
                raise Wrong(f"{wrong}; {hint}") from None
            right = sum(a == b for a, b in zip(found, secret))
            inverse = [int(i) for i in np.argsort(secret)]
            expect(found != inverse, f"{name}: this is the inverse of the secret; moved[i] = public[p[i]] defines p")
            expect(right == DIM, f"{name}: {right} of {DIM} features are right; {hint}")
    # Control: without the right public weights the same attack must find nothing.
    guesses = []
    for _ in range(10):
        _, moved, secret = instance(rng, False, 0.0)
        unrelated, _, _ = instance(rng, False, 0.0)
        try:
            guesses.append(sum(int(a) == b for a, b in zip(recovered(work, unrelated, moved), secret)))
        except Exception:  # it may refuse
            guesses.append(0)
    chance = float(np.mean(guesses)) / DIM
    expect(
        chance < 0.3,
        f"with unrelated public weights it finds {chance:.0%} of the secret: it does not use the public weights",
    )
    return f"all {DIM} features in 15 instances; with unrelated public weights {chance:.0%}, chance is {1 / DIM:.0%}"
