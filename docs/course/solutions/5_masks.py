"""Solution 5. Softmax does not see a constant added to a row, so rows are compared after their maximum is subtracted."""

from itertools import permutations

import numpy as np


def automorphisms(mask: np.ndarray) -> set[tuple[int, ...]]:
    seen = mask - mask.max(axis=1, keepdims=True)
    return {p for p in permutations(range(len(mask))) if np.array_equal(seen[np.ix_(p, p)], seen)}


def rotations_only(n: int) -> np.ndarray:
    mask = np.full((n, n), -np.inf)
    for i in range(n):
        mask[i, i] = mask[i, (i + 1) % n] = 0.0  # itself and the next one: a directed ring has no reflections
    return mask
