"""Another right solution, which the checker has to accept."""

import itertools

import numpy as np


def automorphisms(mask):
    e = np.exp(mask)
    s = e / e.sum(1, keepdims=True)
    return [list(p) for p in itertools.permutations(range(len(mask))) if np.allclose(s[list(p)][:, list(p)], s)]


def rotations_only(n):
    i, j = np.indices((n, n))
    m = np.zeros((n, n))
    m[(j - i) % n > 1] = -np.inf
    return m
