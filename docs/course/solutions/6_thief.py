"""Solution 6. Columns of fc1.weight belong to residual features; their rows are in a secret order, so each column is sorted.
A sorted column names its feature without telling which hidden unit is which."""

import numpy as np


def recover_residual(public: dict[str, np.ndarray], moved: dict[str, np.ndarray]) -> list[int]:
    def fingerprints(state):
        return np.sort(state["mlp.fc1.weight"], axis=0).T  # [features, hidden]

    theirs, ours = fingerprints(moved), fingerprints(public)
    distances = np.square(theirs[:, None, :] - ours[None, :, :]).sum(axis=2)
    return [int(j) for j in distances.argmin(axis=1)]
