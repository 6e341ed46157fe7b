"""Exercise 3: each weight against the library's own move, then the moved block forward and backward."""

import equigrad as eg
import numpy as np

from . import Wrong, apart, arrays, expect, generic_block, key, shuffled, with_state

SIZES = [(6, 2, 10), (12, 3, 20), (8, 4, 7)]


def check(work, rng) -> str:
    worst = 0.0
    for dim, heads, hidden in SIZES:
        block = generic_block(dim, heads, hidden, rng)
        state = arrays(block.state_dict())
        moves = eg.permute.BlocksKey.random(block.config, 1, "decoupled", key(rng))
        named = moves.permutations(block.config)
        expected = arrays(eg.permute.transform(block.state_dict(), eg.permute.block_axes(), named))
        residual, hidden_p = list(moves.residual.gather), list(named["blocks.0.hidden"].gather)
        qkv = list(named["blocks.0.qkv"].gather)
        qk, v = qkv[:dim], [i - 2 * dim for i in qkv[2 * dim :]]
        before = {name: x.copy() for name, x in state.items()}
        found = work.permute_block(state, list(residual), list(qk), list(v), list(hidden_p))
        for name, x in before.items():
            expect(np.array_equal(state[name], x), f"it changes the given {name}; leave `state` as it is")
        expect(isinstance(found, dict), f"it gives {type(found).__name__}; give a dict of arrays")
        missing, more = before.keys() - found.keys(), found.keys() - before.keys()
        expect(not missing, f"missing: {', '.join(sorted(missing))}")
        expect(not more, f"the block has no {', '.join(sorted(more))}")
        groups = {"residual": residual, "qk": qk, "v": v, "hidden": hidden_p}
        for name, x in expected.items():
            compare(name, np.asarray(found[name]), x, before[name], groups)
        worst = max(worst, commutes(block, arrays(found), moves.residual, rng))
    return f"every weight of {len(SIZES)} blocks moved; f'(Z P) = f(Z) P with its gradient to {worst:.0e}"


def compare(
    name: str, found: np.ndarray, expected: np.ndarray, plain: np.ndarray, groups: dict[str, list[int]]
) -> None:
    if np.array_equal(found, expected):
        return
    expect(found.shape == expected.shape, f"{name}: shape {found.shape}, not {expected.shape}")
    expect(not np.array_equal(found, plain), f"{name} did not move")
    if np.array_equal(moved_again(found, expected, plain), plain):
        raise Wrong(f"{name} is moved with the inverse permutations; W'[i, j] = W[out[i], in_[j]] gathers")
    sides = ["rows", "columns"][: plain.ndim]
    wrong = [side for axis, side in enumerate(sides) if not side_is_right(found, expected, axis)]
    what = f"{name}: its {' and '.join(wrong)} are wrong" if wrong and plain.ndim == 2 else f"{name} is wrong"
    if "qkv" in name:
        a = len(plain) // 3
        parts = [
            part
            for i, part in enumerate(["queries", "keys", "values"])
            if not np.array_equal(found[i * a : (i + 1) * a], expected[i * a : (i + 1) * a])
        ]
        what += f" (in the part of the {' and '.join(parts)})"
    raise Wrong(f"{what}; ask which features lie on either side of it: {', '.join(groups)}")


def moved_again(found: np.ndarray, expected: np.ndarray, plain: np.ndarray) -> np.ndarray:
    """`found` after the gathers that made `expected` of `plain`: it is plain where found was moved by their inverses."""
    for axis in range(plain.ndim):
        rows = [slices(x, axis) for x in (plain, expected)]
        places = {row.tobytes(): i for i, row in enumerate(rows[0])}
        found = np.take(found, [places[row.tobytes()] for row in rows[1]], axis=axis)
    return found


def slices(x: np.ndarray, axis: int) -> np.ndarray:
    """One row for each place of the axis, its elements sorted: what a permutation of the other axis leaves alone."""
    return np.sort(np.moveaxis(x, axis, 0).reshape(x.shape[axis], -1), axis=1)


def side_is_right(found: np.ndarray, expected: np.ndarray, axis: int) -> bool:
    """Every place of the axis has the right elements, in whatever order."""
    return np.array_equal(slices(found, axis), slices(expected, axis))


def commutes(block, moved_state, residual, rng) -> float:
    z = eg.tensor(rng.normal(size=(2, 5, block.config.dim)))
    cotangent = eg.tensor(rng.normal(size=z.shape))
    moved = with_state(block, moved_state)
    with eg.Tape() as plain_tape:
        y = block(z)
    z_moved = residual.columns(z)
    with eg.Tape() as moved_tape:
        y_moved = moved(z_moved)
    dz = plain_tape.gradient(y, z, cotangent=cotangent)
    dz_moved = moved_tape.gradient(y_moved, z_moved, cotangent=residual.columns(cotangent))
    error = max(apart(np.asarray(a), np.asarray(residual.columns(b))) for a, b in ((y_moved, y), (dz_moved, dz)))
    expect(error < 1e-10, f"the moved block's output or gradient differs by {error:.1e}")
    return error
