"""Exercise 5: find Aut(mask).

An additive mask M [n, n] changes attention to softmax(Q K^T / sqrt(d) + M) V. Entry M[i, j] belongs to token i looking
at token j; minus infinity hides j from i. Which orders of the tokens does masked attention commute with, for all
weights? f(P Z) = P f(Z).

Note what softmax does not see.
"""

import numpy as np


def automorphisms(mask: np.ndarray) -> set[tuple[int, ...]]:
    """All permutations p of 0, ..., n - 1 with f(Z[p]) = f(Z)[p] for all weights; n is at most 6, so try them all.

    Entries are finite or minus infinity, and every row has a finite entry.
    """
    raise NotImplementedError


def rotations_only(n: int) -> np.ndarray:
    """A mask of n >= 3 tokens, entries 0 and minus infinity, whose group is the n rotations and nothing else."""
    raise NotImplementedError
