"""Linear algebra by NumPy's and PyTorch's names: factorisations, systems of equations, and minimum-cost assignment.

    q, r = eg.linalg.qr(a)                                   # a = q @ r, r with a diagonal that is not negative
    w, v = eg.linalg.eigh(c)                                 # of the symmetric part of c
    x = eg.linalg.solve(a, b)
    rows, columns = eg.linalg.linear_sum_assignment(cost)    # SciPy's function

Matrices stand in the last two axes; leading axes are a batch. Results are unique: signs are fixed (docs/python.md).
Functions of the rows of equigrad.ops have gradients, and gradients of these.
"""

import math
from typing import Any, NamedTuple

from . import _core, _names, ops
from ._core import Tensor
from ._core import permute as _permute

__all__ = [
    "LstsqResult",
    "assignment",
    "cholesky",
    "cond",
    "det",
    "eigh",
    "eigvalsh",
    "inv",
    "linear_sum_assignment",
    "lstsq",
    "matrix_rank",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
    "svd",
    "svdvals",
]


class LstsqResult(NamedTuple):
    """What lstsq() gives."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


def _tensor(x: Any) -> Tensor:
    return x if isinstance(x, Tensor) else _core.tensor(x)


def _transposed(x: Tensor) -> Tensor:
    return ops.transpose(x)


def _epsilon(x: Tensor) -> float:
    return 2.0**-23 if x.dtype == "f32" else 2.0**-52


def cholesky(a: Any, upper: bool = False) -> Tensor:
    """L with L L^T = (a + a^T) / 2, lower triangular with a positive diagonal; its transpose for `upper`.

    Both triangles of a are read: the result is that of its symmetric part, also where a is not symmetric. NumPy and
    PyTorch read one triangle; a.tril() + a.tril(-1).T has that triangle on both sides.
    """
    lower = ops.cholesky(_tensor(a))
    return _transposed(lower) if upper else lower


def solve(a: Any, b: Any) -> Tensor:
    """x with a x = b. b is [..., n, k], or a vector [n] (with a batch of a: [..., n], as in PyTorch)."""
    a, b = _tensor(a), _tensor(b)
    if _is_vector(a, b):
        return ops.squeeze(ops.solve(a, ops.unsqueeze(b, -1)), -1)
    return ops.solve(a, b)


def _is_vector(a: Tensor, b: Tensor) -> bool:
    return b.ndim == 1 or (b.ndim == a.ndim - 1 and b.shape == a.shape[:-1])


def solve_triangular(
    a: Any, b: Any, *, upper: bool | None = None, lower: bool | None = None, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """x with t x = b, t the upper triangle of a or, by upper=False or lower=True, the lower one; left=False: x t = b."""
    if upper is not None and lower is not None and bool(upper) == bool(lower):
        raise _core.ValueError("solve_triangular: upper and lower are opposites: give one")
    up = bool(upper) if upper is not None else not lower
    a, b = _tensor(a), _tensor(b)
    if not left:
        return _transposed(ops.solve_triangular(_transposed(a), _transposed(b), upper=not up, unitriangular=unitriangular))
    if _is_vector(a, b):
        return ops.squeeze(ops.solve_triangular(a, ops.unsqueeze(b, -1), upper=up, unitriangular=unitriangular), -1)
    return ops.solve_triangular(a, b, upper=up, unitriangular=unitriangular)


def inv(a: Any) -> Tensor:
    """The inverse. Raises ValueError for a singular matrix."""
    return ops.inv(_tensor(a))


def _share(function: str, name: str, share: float) -> float:
    """Checks a share of the largest singular value. 0 is 0: the default, max(m, n) epsilon, is None."""
    if not 0 <= share < 1:
        raise _core.ValueError(
            f"{function}: {name} is {share}; it must be at least 0 and less than 1; leave it out for max(m, n) epsilon"
        )
    return share


def pinv(a: Any, rcond: float | None = None, *, rtol: float | None = None) -> Tensor:
    """The pseudo-inverse. Singular values up to rtol (rcond) times the largest count as 0; None: max(m, n) epsilon."""
    if rcond is not None and rtol is not None:
        raise _core.ValueError("pinv: rcond and rtol are the same: give one")
    share = rcond if rcond is not None else rtol
    if share is None:
        return ops.pinv(_tensor(a))
    return ops.pinv(_tensor(a), rtol=_share("pinv", "rtol" if rcond is None else "rcond", share))


def det(a: Any) -> Tensor:
    """The determinant."""
    return ops.det(_tensor(a))


def slogdet(a: Any) -> Any:
    """(sign, logabsdet): det a = sign e^logabsdet."""
    return ops.slogdet(_tensor(a))


def qr(a: Any, mode: str = "reduced") -> Any:
    """(q, r) with a = q r, k = min(m, n) columns of q, r with a diagonal that is not negative; mode 'r': r alone."""
    if mode not in ("reduced", "r"):
        more = "; 'complete' would add columns that a does not determine" if mode == "complete" else ""
        raise _core.ValueError(f"qr: mode is '{mode}'; it can be 'reduced' or 'r'{more}")
    result = ops.qr(_tensor(a))
    return result.r if mode == "r" else result


def eigh(a: Any) -> Any:
    """(eigenvalues, eigenvectors) of (a + a^T) / 2: ascending; the columns are vectors, largest entries positive.

    Both triangles of a are read: the result is that of its symmetric part, also where a is not symmetric. NumPy and
    PyTorch read one triangle; a.tril() + a.tril(-1).T has that triangle on both sides.
    """
    return ops.eigh(_tensor(a))


def eigvalsh(a: Any) -> Tensor:
    """The eigenvalues of (a + a^T) / 2, ascending; of its symmetric part, as eigh()."""
    return ops.eigh(_tensor(a)).eigenvalues


def svd(a: Any, full_matrices: bool = False, compute_uv: bool = True) -> Any:
    """(u, s, vh) with a = u diag(s) vh and k = min(m, n) vectors on both sides; s alone without compute_uv.

    NumPy and PyTorch have full_matrices=True unless told otherwise; here that is for square matrices alone.
    """
    a = _tensor(a)
    if full_matrices and a.ndim >= 2 and a.shape[-1] != a.shape[-2]:
        raise _core.ValueError(
            f"svd: full_matrices=True would add vectors that a, which is {list(a.shape)}, does not determine; give False"
        )
    result = ops.svd(a)
    return result if compute_uv else result.s


def svdvals(a: Any) -> Tensor:
    """The singular values, descending."""
    return ops.svd(_tensor(a)).s


def linear_sum_assignment(cost_matrix: Any, maximize: bool = False) -> tuple[Tensor, Tensor]:
    """(rows, columns) of the min(n, m) pairs of distinct rows and columns of cost [n, m] with the least sum of costs.

    As SciPy's function: rows ascend; maximize takes the largest sum; +inf (maximize: -inf) forbids a pair. Raises
    ValueError for a NaN, for an infinity of the other sign, and where no assignment is left.
    """
    return _permute.assignment(_tensor(cost_matrix), maximize)


assignment = linear_sum_assignment


def matrix_rank(a: Any, tol: float | None = None, *, rtol: float | None = None) -> Tensor:
    """How many singular values exceed tol, or rtol times the largest, i64; without both, max(m, n) epsilon times it."""
    if tol is not None and rtol is not None:
        raise _core.ValueError("matrix_rank: tol is a bound and rtol a share of the largest singular value: give one")
    a = _tensor(a)
    with _core.pause():
        s = svdvals(a)
        if tol is not None:
            return ops.count_nonzero(s > tol, axes=[-1])
        share = max(a.shape[-2:]) * _epsilon(a) if rtol is None else _share("matrix_rank", "rtol", rtol)
        return ops.count_nonzero(s > ops.unsqueeze(_largest(s), -1) * share, axes=[-1])


def _largest(s: Tensor) -> Tensor:
    if s.shape[-1] == 0:
        return ops.sum(s, axes=[-1])
    return s[..., 0]


def cond(a: Any) -> Tensor:
    """The largest singular value over the smallest; inf, without a gradient, where the smallest is 0.

    Raises ShapeError for matrices without rows or columns, which have no singular values.
    """
    a = _tensor(a)
    s = svdvals(a)
    if s.shape[-1] == 0:
        raise _core.ShapeError(f"cond: a is {list(a.shape)}; matrices without rows or columns have no condition number")
    smallest = s[..., -1]
    return ops.where(smallest == 0, _core.tensor(math.inf, dtype=s.dtype), s[..., 0] / smallest)


def lstsq(a: Any, b: Any, rcond: float | None = None) -> LstsqResult:
    """The x of least norm among those that minimise |a x - b|, by the pseudo-inverse; rcond as in pinv.

    b is [..., m, k] or [m]. residuals: the sums of squares by column where a [m, n] has rank n < m; else empty. The
    solution has a gradient where the rank is min(m, n).
    """
    a, b = _tensor(a), _tensor(b)
    if rcond is not None:
        _share("lstsq", "rcond", rcond)
    vector = _is_vector(a, b)
    columns = ops.unsqueeze(b, -1) if vector else b
    x = ops.matmul(pinv(a, rcond), columns)
    with _core.pause():
        s = svdvals(a)
        rank = matrix_rank(a, rtol=rcond)
        m, n = a.shape[-2:]
        full = m > n and bool((rank == n).all().item())
        residuals = ops.square(ops.matmul(a, x) - columns).sum(axes=[-2]) if full else _core.zeros((0,), dtype=a.dtype)
    return LstsqResult(ops.squeeze(x, -1) if vector else x, residuals, rank, s)


def __getattr__(name: str) -> object:
    if name in _names.LINALG_WORDS:
        raise AttributeError(f"equigrad.linalg.{name}: {_names.LINALG_WORDS[name]}")
    raise AttributeError(f"module 'equigrad.linalg' has no '{name}'" + _core.did_you_mean(name, __all__))
