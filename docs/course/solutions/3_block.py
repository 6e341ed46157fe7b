"""Solution 3. Each axis of each weight has one permutation: that of the features on that side."""

import numpy as np


def permute_block(
    state: dict[str, np.ndarray], residual: list[int], qk: list[int], v: list[int], hidden: list[int]
) -> dict[str, np.ndarray]:
    a = len(qk)
    qkv = [*qk, *(a + i for i in qk), *(2 * a + i for i in v)]  # three blocks of rows, each moved within itself
    axes = {
        "norm1.weight": [residual],
        "norm1.bias": [residual],
        "attention.qkv.weight": [qkv, residual],
        "attention.qkv.bias": [qkv],
        "attention.proj.weight": [residual, v],
        "attention.proj.bias": [residual],
        "norm2.weight": [residual],
        "norm2.bias": [residual],
        "mlp.fc1.weight": [hidden, residual],
        "mlp.fc1.bias": [hidden],
        "mlp.fc2.weight": [residual, hidden],
        "mlp.fc2.bias": [residual],
    }
    return {name: state[name][np.ix_(*permutations)] for name, permutations in axes.items()}
