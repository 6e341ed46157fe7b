"""The covector lemma: W' = A W B with the same loss gives dL'/dW' = A^-T (dL/dW) B^-T."""

import numpy as np

import equigrad as eg

rng = np.random.default_rng(1)
x, w, c = rng.normal(size=(5, 8)), rng.normal(size=(6, 8)), rng.normal(size=(5, 6))


def gradient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Of L'(W') = L(A^-1 W' B^-1) at W' = A W B, by the tape."""
    moved = eg.tensor(a @ w @ b)
    with eg.Tape() as tape:
        plain = eg.ops.matmul(eg.ops.matmul(np.linalg.inv(a), moved), np.linalg.inv(b))
        loss = (eg.ops.gelu(eg.ops.linear(x, plain)) * c).sum()
    return tape.gradient(loss, moved).numpy()


def apart(a: np.ndarray, b: np.ndarray) -> float:
    return float(abs(a - b).max() / abs(b).max())


plain = gradient(np.eye(6), np.eye(8))
maps = {
    "permutations": (np.eye(6)[rng.permutation(6)], np.eye(8)[rng.permutation(8)]),
    "rotations": (np.linalg.qr(rng.normal(size=(6, 6)))[0], np.linalg.qr(rng.normal(size=(8, 8)))[0]),
    "scalings": (np.diag(rng.uniform(1, 3, 6)), np.diag(rng.uniform(1, 3, 8))),
}
for name, (a, b) in maps.items():
    measured = gradient(a, b)
    covector, weight = np.linalg.inv(a).T @ plain @ np.linalg.inv(b).T, a @ plain @ b
    print(f"{name:13} covector rule {apart(measured, covector):.1e}   rule of the weight {apart(measured, weight):.1e}")
    assert apart(measured, covector) < 1e-11
    assert (apart(measured, weight) < 1e-11) == (name != "scalings")
