"""Another right solution, which the checker has to accept."""

import numpy as np


def recover_residual(public, moved):
    f = lambda s: np.sort(s["mlp.fc2.weight"], axis=1)
    a, b = f(moved), f(public)
    return np.array([np.abs(b - r).sum(1).argmin() for r in a])
