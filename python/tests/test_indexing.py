"""Indices with lists and masks, read and written as NumPy does."""

import numpy as np
import pytest

import equigrad as eg

from idioms import N, alike, names

STATEMENTS = {
    "a mask is written": ("x[x > 0] = 0.0", "X[X > 0] = 0.0"),
    "lists are written": ("x[[0, 1], [2, 0]] = [7.0, 8.0]", "X[[0, 1], [2, 0]] = [7.0, 8.0]"),
    "the last of equal places counts": ("x[[0, 0]] = M.T", "X[[0, 0]] = M.T"),
    "a list and a slice are written": ("x[:, [2, 1]] = M[:2]", "X[:, [2, 1]] = M[:2]"),
}


@pytest.mark.parametrize("statement, numpy", STATEMENTS.values(), ids=STATEMENTS)
def test_what_is_written_by_index_is_what_numpy_writes(statement, numpy):
    here = {**names(), "X": N.copy()}
    exec(statement, here)
    exec(numpy, here)
    assert alike(here["x"], here["X"])


def read_by_numpy(array, parts):
    """array[parts], integers first: beside lists NumPy takes an integer for one of them, PyTorch and equigrad do not."""
    first = tuple(part if isinstance(part, int) or part is Ellipsis else slice(None) for part in parts if part is not None)
    return array[first][tuple(part for part in parts if not isinstance(part, int))]


def test_indices_are_read_as_numpy_reads_them():
    random = np.random.default_rng(1)
    array = random.normal(size=(3, 4, 2, 5))
    tensor = eg.tensor(array)
    tried = 0
    for _ in range(1500):
        parts, axis = [], 0
        lists = random.integers(1, 3, size=random.integers(1, 3)).tolist()
        while axis < 4 and random.random() < 0.9:
            kind = random.choice(["int", "slice", "list", "mask", "new", "rest"])
            extent = array.shape[axis]
            if kind == "new":
                if sum(part is None for part in parts) < 2:
                    parts.append(None)
                continue
            if kind == "rest" and not any(part is Ellipsis for part in parts):
                parts.append(Ellipsis)
                axis += int(random.integers(0, 4 - axis))
                continue
            if kind == "int":
                parts.append(int(random.integers(-extent, extent)))
            elif kind == "list":
                parts.append(random.integers(-extent, extent, size=lists).tolist())
            elif kind == "mask":
                parts.append(random.random(extent) < 0.5)
            else:
                parts.append(slice(*(None if random.random() < 0.5 else int(random.integers(-extent, extent)) for _ in range(2))))
            axis += 1
        index = tuple(parts)
        try:
            wanted = read_by_numpy(array, parts)
        except IndexError:
            with pytest.raises((IndexError, eg.IndexError, eg.ShapeError)):
                tensor[index]
            continue
        tried += 1
        found = tensor[index]
        assert found.shape == wanted.shape, index
        assert np.array_equal(found.numpy(), wanted), index
    assert tried > 500


def test_gradients_pass_through_masks_and_lists():
    x = eg.tensor(N.copy())
    with eg.Tape() as tape:
        y = (x[x > 0] ** 2.0).sum() + 3.0 * x[[0, 0], [1, 1]].sum()
    wanted = np.where(N > 0, 2 * N, 0.0)
    wanted[0, 1] += 6.0
    assert np.allclose(tape.gradient(y, x).numpy(), wanted)
