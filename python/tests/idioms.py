"""What the tables of idioms see, and how a result is compared with NumPy's."""

import numpy as np

import equigrad as eg

nn = eg.nn
N = np.arange(6.0).reshape(2, 3) - 2.5
M = np.array([[3.0, 1.0], [2.0, 5.0], [4.0, 0.5]])
K = np.array([[4, 1, 3], [0, 2, 9]])
V = np.array([1.0, 2.0, 3.0])
C = np.arange(24.0).reshape(2, 3, 4)


def names():
    """What idioms see: x, m, k, v, c as tensors, and the same arrays in capitals."""
    eg.random.seed(0)
    tensors = {name.lower(): eg.tensor(array.copy()) for name, array in {"X": N, "M": M, "K": K, "V": V, "C": C}.items()}
    return {**tensors, "X": N, "M": M, "K": K, "V": V, "C": C, "np": np, "eg": eg, "nn": nn}


def alike(found, wanted):
    if isinstance(found, eg.Tensor):
        found = found.numpy()
    if isinstance(wanted, np.ndarray) or isinstance(found, np.ndarray):
        assert np.shape(found) == np.shape(wanted)
        return np.allclose(found, wanted, rtol=1e-12, atol=1e-12)
    return found == wanted

