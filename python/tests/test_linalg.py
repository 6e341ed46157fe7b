"""eg.linalg against NumPy (LAPACK), assignment against brute force, gradients against directional differences."""

import itertools

import numpy as np
import pytest

import equigrad as eg

RNG = np.random.default_rng(20240701)
SHAPES = [(1, 1), (2, 2), (5, 5), (17, 17), (64, 64), (3, 4, 4), (2, 3, 6, 6)]
RECTANGLES = [(4, 2), (2, 4), (9, 5), (5, 9), (1, 6), (6, 1), (3, 7, 4), (2, 2, 4, 7), (40, 25)]
EPS = {"float64": 2.0**-52, "float32": 2.0**-23}
DTYPES = ["float64", "float32"]


def general(shape, dtype="float64"):
    return RNG.standard_normal(shape).astype(dtype)


def definite(shape, dtype="float64"):
    x = RNG.standard_normal(shape)
    return (x @ np.swapaxes(x, -1, -2) + np.eye(shape[-1])).astype(dtype)


def array(x):
    return np.array(x, dtype=np.float64)


def T(x):
    return np.swapaxes(x, -1, -2)


def error(found, wanted):
    """Largest difference over the largest entry, matrix by matrix."""
    found, wanted = array(found), np.asarray(wanted, dtype=np.float64)
    assert found.shape == wanted.shape
    if wanted.size == 0:
        return 0.0
    axes = tuple(range(max(wanted.ndim - 2, 0), wanted.ndim))
    return (np.abs(found - wanted).max(axes) / np.maximum(np.abs(wanted).max(axes), 1e-300)).max()


def bound(a, factor=16.0):
    """c eps n, times the condition where results have it."""
    return factor * EPS[str(a.dtype)] * max(a.shape[-2:])


# --- against NumPy ---


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_square_matrices_against_numpy(shape, dtype):
    a, c = general(shape, dtype), definite(shape, dtype)
    wide = a.astype(np.float64)
    condition = np.linalg.cond(wide).max()
    b = general(shape[:-1] + (3,), dtype)
    assert error(eg.linalg.inv(a), np.linalg.inv(wide)) < bound(a) * condition
    assert error(eg.linalg.solve(a, b), np.linalg.solve(wide, b)) < bound(a) * condition
    if shape[-1] < 30:  # f32 would overflow
        assert error(eg.linalg.det(c), np.linalg.det(c.astype(np.float64))) < bound(a, 64)
    sign, log = eg.linalg.slogdet(a)
    wanted = np.linalg.slogdet(wide)
    assert error(sign, wanted[0]) == 0 and np.abs(array(log) - wanted[1]).max() < bound(a) * condition
    assert error(eg.linalg.cholesky(c), np.linalg.cholesky(c.astype(np.float64))) < bound(a) * np.linalg.cond(c).max()
    w, v = eg.linalg.eigh(c)
    values, vectors = np.linalg.eigh(c.astype(np.float64))
    assert error(w, values) < bound(a)
    at = np.abs(vectors).argmax(-2)[..., None, :]
    vectors = vectors * np.sign(np.take_along_axis(vectors, at, -2))
    gap = np.diff(values).min(initial=1.0) / values.max()
    assert error(v, vectors) < bound(a) / min(max(gap, 1e-12), 1.0)
    assert np.abs(array(eg.linalg.cond(a)) / np.linalg.cond(wide) - 1).max() < bound(a) * condition


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES + RECTANGLES)
def test_any_matrices_against_numpy(shape, dtype):
    a = general(shape, dtype)
    wide = a.astype(np.float64)
    q, r = eg.linalg.qr(a)
    Q, R = zip(*(np.linalg.qr(x) for x in wide.reshape(-1, *shape[-2:])))
    Q, R = np.reshape(Q, q.shape), np.reshape(R, r.shape)
    signs = np.where(np.diagonal(R, axis1=-2, axis2=-1) < 0, -1, 1)
    k = min(shape[-2:])
    condition = max(np.linalg.cond(x[:, :k]) for x in wide.reshape(-1, *shape[-2:]))
    assert error(q, Q * signs[..., None, :]) < bound(a) * condition
    assert error(r, R * signs[..., :, None]) < bound(a) * condition
    u, s, vh = eg.linalg.svd(a)
    assert error(s, np.linalg.svd(wide, compute_uv=False)) < bound(a)
    assert error((u * s[..., None, :]) @ vh, a) < bound(a)
    assert error(T(array(u)) @ array(u), np.broadcast_to(np.eye(k), s.shape + (k,))) < bound(a)
    assert error(eg.linalg.pinv(a), np.linalg.pinv(wide)) < bound(a, 32) * np.linalg.cond(wide).max() ** 2
    assert (array(eg.linalg.matrix_rank(a)) == np.linalg.matrix_rank(wide)).all()


def test_the_bounds_can_be_missed():
    """A result that is off in the last quarter of the digits."""
    a = general((17, 17))
    u, s, vh = (array(x) for x in eg.linalg.svd(a))
    s[3] *= 1 + 1e-11
    assert error((u * s) @ vh, a) > bound(a)
    assert error(array(eg.linalg.inv(a)).T, np.linalg.inv(a)) > bound(a) * np.linalg.cond(a)


@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize("left", [True, False])
def test_triangles(upper, unit, left):
    a = general((2, 4, 4)) * 0.5 + 3 * np.eye(4)
    b = general((2, 4, 3)) if left else general((2, 3, 4))
    t = np.triu(a) if upper else np.tril(a)
    if unit:
        t = t - t * np.eye(4) + np.eye(4)
    x = array(eg.linalg.solve_triangular(a, b, upper=upper, unitriangular=unit, left=left))
    assert error(t @ x if left else x @ t, b) < 1e-13
    if left:
        assert eg.same_bits(eg.linalg.solve_triangular(a, b, lower=not upper, unitriangular=unit), eg.tensor(x))


def test_least_squares():
    for shape in [(7, 3), (3, 7), (5, 5), (6, 1)]:
        a, b = general(shape), general((shape[0], 2))
        x, residuals, rank, s = eg.linalg.lstsq(a, b)
        X, R, K, S = np.linalg.lstsq(a, b, rcond=None)
        assert error(x, X) < 1e-12 and rank.item() == K and error(s, S) < 1e-13
        assert residuals.shape == R.shape and error(residuals, R) < 1e-12
        assert error(eg.linalg.lstsq(a, b[:, 0]).solution, X[:, 0]) < 1e-12
        both = eg.linalg.lstsq(np.stack([a, 2 * a]), np.stack([b[:, 0], b[:, 1]])).solution  # a batch of vectors
        assert error(both, np.stack([X[:, 0], X[:, 1] / 2])) < 1e-12
    low = general((6, 2)) @ general((2, 4))
    found = eg.linalg.lstsq(low, b := general((6, 2)))
    assert found.rank.item() == 2 and error(found.solution, np.linalg.lstsq(low, b, rcond=None)[0]) < 1e-11
    assert found.residuals.shape == (0,)


def test_a_share_of_0_keeps_every_singular_value():
    a = np.diag([1.0, 1e-20])
    for rtol, rank in [(None, 1), (0, 2), (1e-30, 2), (1e-10, 1)]:
        assert eg.linalg.matrix_rank(a, rtol=rtol).item() == rank
        assert error(eg.linalg.pinv(a, rtol=rtol), np.diag([1, 1e20 if rank == 2 else 0])) < 1e-12
        found = eg.linalg.lstsq(a, np.ones(2), rcond=rtol)
        assert found.rank.item() == rank and error(found.solution, np.array([1, 1e20 if rank == 2 else 0])) < 1e-12
    assert eg.linalg.matrix_rank(a, 0).item() == 2 and eg.linalg.matrix_rank(a, 2).item() == 0
    assert error(eg.linalg.pinv(np.zeros((2, 3)), rtol=0), np.zeros((3, 2))) == 0
    assert eg.linalg.matrix_rank(np.zeros((2, 3)), rtol=0).item() == 0


def test_conditions_of_singular_and_empty_matrices():
    a = np.stack([np.zeros((3, 3)), np.diag([1.0, 2.0, 0.0]), np.diag([1.0, 2.0, 4.0])])
    with np.errstate(divide="ignore", invalid="ignore"):
        wanted = np.linalg.cond(a)
    assert (array(eg.linalg.cond(a)) == wanted).all() and array(eg.linalg.cond(a)).tolist() == [np.inf, np.inf, 4]
    assert eg.linalg.cond(a.astype(np.float32)).dtype == "f32"
    assert eg.linalg.cond(np.zeros((0, 2, 2))).shape == (0,)


def test_least_squares_without_columns_or_rows():
    for m, n in [(4, 0), (0, 3), (0, 0)]:
        for b in (np.ones((m, 2)), np.ones(m)):
            x, residuals, rank, s = eg.linalg.lstsq(np.ones((m, n)), b)
            X = np.linalg.lstsq(np.ones((m, n)), b, rcond=None)[0]
            assert x.shape == X.shape and not np.array(x).any() and rank.item() == 0 and s.shape == (0,)
    a, b = np.ones((2, 4, 0)), np.ones((2, 4))  # a batch of vectors
    assert eg.linalg.lstsq(a, b).solution.shape == (2, 0)


def test_long_sides():
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((100000, 4)), rng.standard_normal(100000)
    assert error(eg.linalg.lstsq(a, b).solution, np.linalg.lstsq(a, b, rcond=None)[0]) < 1e-12
    x, y = eg.tensor(a), eg.tensor(b)
    with eg.Tape() as tape:
        norm = (eg.linalg.lstsq(x, y).solution ** 2).sum()
    by_a, by_b = tape.gradient(norm, [x, y])
    solution = np.linalg.lstsq(a, b, rcond=None)[0]
    gram = np.linalg.inv(a.T @ a)
    assert error(by_b, 2 * a @ gram @ solution) < 1e-10
    h = gram @ (2 * solution)  # dx = G (da^T (b - a x) - a^T da x)
    assert error(by_a, np.outer(b - a @ solution, h) - np.outer(a @ h, solution)) < 1e-10
    assert eg.linalg.solve(np.eye(2) * 2, np.ones((2, 30000))).shape == (2, 30000)


def test_names_and_vectors():
    a, b = general((3, 3)), general(3)
    assert error(eg.linalg.solve(a, b), np.linalg.solve(a, b)) < 1e-12
    assert error(eg.linalg.solve(np.stack([a, 2 * a]), np.stack([b, b])), np.stack([np.linalg.solve(a, b), np.linalg.solve(2 * a, b)])) < 1e-12
    assert eg.same_bits(eg.tensor(a).inv(), eg.linalg.inv(a)) and eg.same_bits(eg.inv(a), eg.ops.inv(a))
    assert eg.same_bits(eg.linalg.qr(a, mode="r"), eg.linalg.qr(a).r)
    assert eg.same_bits(eg.linalg.svd(a, compute_uv=False), eg.linalg.svdvals(a))
    assert eg.same_bits(eg.linalg.svd(a, full_matrices=True).u, eg.linalg.svd(a).u)
    c = definite((3, 3))
    assert eg.same_bits(eg.linalg.eigvalsh(c), eg.linalg.eigh(c).eigenvalues)
    assert error(eg.linalg.cholesky(c, upper=True), np.linalg.cholesky(c).T) < 1e-14


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: eg.linalg.inv(np.ones((2, 3, 3))), "inv: a[0] is singular"),
        (lambda: eg.linalg.solve(np.stack([np.eye(2), np.zeros((2, 2))]), np.ones((2, 1))), "solve: a[1] is singular"),
        (lambda: eg.linalg.cholesky(-np.eye(3)), "cholesky: a is not positive definite"),
        (lambda: eg.linalg.svd(np.array([[1.0, np.nan]])), "svd: a has an element that is not finite"),
        (lambda: eg.linalg.eigh(np.ones((2, 3))), "eigh: a must be [..., n, n], it is [2, 3]"),
        (lambda: eg.linalg.qr(np.ones((2, 2), dtype=np.int64)), "qr: a must be f32 or f64, it is i64"),
        (lambda: eg.linalg.qr(np.ones((2, 2)), mode="complete"), "qr: mode is 'complete'; it can be 'reduced' or 'r'"),
        (lambda: eg.linalg.svd(np.ones((2, 3)), full_matrices=True), "svd: full_matrices=True would add vectors"),
        (lambda: eg.linalg.pinv(np.ones((2, 3)), 0.1, rtol=0.2), "pinv: rcond and rtol are the same"),
        (lambda: eg.linalg.pinv(np.ones((2, 3)), -1), "pinv: rcond is -1; it must be at least 0 and less than 1; leave it out"),
        (lambda: eg.linalg.pinv(np.ones((2, 3)), rtol=np.nan), "pinv: rtol is nan; it must be at least 0 and less than 1"),
        (lambda: eg.ops.pinv(np.ones((2, 3)), rtol=-2.0), "pinv: rtol is -2; it must be at least 0 and less than 1, or -1"),
        (lambda: eg.linalg.lstsq(np.ones((2, 3)), np.ones(2), rcond=-1), "lstsq: rcond is -1; it must be at least 0"),
        (lambda: eg.linalg.matrix_rank(np.ones((2, 3)), 0.1, rtol=0.2), "matrix_rank: tol is a bound and rtol a share"),
        (lambda: eg.linalg.matrix_rank(np.ones((2, 3)), rtol=1), "matrix_rank: rtol is 1; it must be at least 0"),
        (lambda: eg.linalg.cond(np.ones((2, 3, 0))), "cond: a is [2, 3, 0]; matrices without rows or columns have no"),
        (lambda: eg.linalg.cond(np.ones(3)), "svd: a must be [..., m, n], it is [3]"),
        (lambda: eg.linalg.solve_triangular(np.eye(2), np.eye(2), upper=True, lower=True), "upper and lower are opposites"),
        (lambda: eg.linalg.solve_triangular(np.zeros((2, 2)), np.eye(2)), "solve_triangular: a has a zero on its diagonal"),
    ],
)
def test_refusals_are_one_sentence(call, words):
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_exact_mode_refuses_in_a_sentence():
    with eg.exact(), pytest.raises(eg.ValueError, match="svd: exact mode refuses it"):
        eg.linalg.svd(np.eye(2))
    with eg.exact():
        eg.linalg.cholesky(np.eye(2))


# --- gradients ---

LOSSES = {
    "inv": (lambda x: eg.linalg.inv(x), (2, 4, 4)),
    "solve": (lambda x: eg.linalg.solve(x, eg.tensor(np.arange(8.0).reshape(4, 2))), (4, 4)),
    "solve_triangular": (lambda x: eg.linalg.solve_triangular(x, eg.tensor(np.arange(8.0).reshape(4, 2)), lower=True), (4, 4)),
    "cholesky": (lambda x: eg.linalg.cholesky(x @ x.mT + eg.eye(4, dtype="f64")), (2, 4, 4)),
    "det": (lambda x: eg.linalg.det(x), (3, 3, 3)),
    "slogdet": (lambda x: eg.linalg.slogdet(x).logabsdet, (3, 3, 3)),
    "qr": (lambda x: sum((y * y * y).sum() for y in eg.linalg.qr(x)), (5, 3)),
    "qr, wide": (lambda x: sum((y * y * y).sum() for y in eg.linalg.qr(x)), (2, 3, 5)),
    "eigh": (lambda x: sum((y * y * y).sum() for y in eg.linalg.eigh(x)), (2, 4, 4)),
    "svd, tall": (lambda x: sum((y * y * y).sum() for y in eg.linalg.svd(x)), (5, 3)),
    "svd, wide": (lambda x: sum((y * y * y).sum() for y in eg.linalg.svd(x)), (3, 5)),
    "pinv, tall": (lambda x: eg.linalg.pinv(x), (5, 3)),
    "pinv, wide": (lambda x: eg.linalg.pinv(x), (2, 3, 5)),
    "lstsq": (lambda x: eg.linalg.lstsq(x, np.arange(10.0).reshape(5, 2)).solution, (5, 3)),
    "cond": (lambda x: eg.linalg.cond(x), (4, 4)),
}


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_by_directional_differences(name):
    make, shape = LOSSES[name]
    loss = lambda x: (lambda y: (y * y).sum() + y.sum())(make(x))
    rng = np.random.default_rng(7)
    for _ in range(5):
        x = rng.standard_normal(shape) * 0.4 + np.eye(*shape[-2:]) * np.arange(2.0, 2.0 + shape[-1])
        u = rng.standard_normal(shape)
        slope = (eg.grad(loss)(eg.tensor(x)) * eg.tensor(u)).sum().item()
        h = 1e-5
        wanted = (loss(eg.tensor(x + h * u)).item() - loss(eg.tensor(x - h * u)).item()) / (2 * h)
        assert slope == pytest.approx(wanted, rel=2e-7, abs=1e-7), name
        # and along the gradient, once more
        g = lambda x: (eg.grad(loss)(x) * eg.tensor(u)).sum()
        second = eg.hvp(loss, eg.tensor(x), tangents=eg.tensor(u)).products
        bend = (g(eg.tensor(x + h * u)).item() - g(eg.tensor(x - h * u)).item()) / (2 * h)
        assert (second * eg.tensor(u)).sum().item() == pytest.approx(bend, rel=2e-6, abs=1e-6), name


def test_polar_factor_from_the_singular_vectors():
    """The nearest orthogonal matrix, and its gradient away from equal singular values."""
    a = general((4, 4))
    u, s, vh = eg.linalg.svd(a)
    nearest = array(u @ vh)
    assert error(nearest @ nearest.T, np.eye(4)) < 1e-14
    for _ in range(200):
        other = np.linalg.qr(general((4, 4)))[0]
        assert np.linalg.norm(a - nearest) <= np.linalg.norm(a - other) + 1e-12
    with pytest.raises(eg.ValueError, match="svd: singular values 0 and 1 of a are equal to rounding"):
        eg.grad(lambda x: (eg.linalg.svd(x).u @ eg.linalg.svd(x).vh)[0, 1])(eg.tensor(nearest))


# --- permutations ---


def permutation(n):
    return np.eye(n)[RNG.permutation(n)]


def test_how_factorisations_move_under_permutations():
    holds, fails = 0, 0
    for _ in range(30):
        a, P, Q = general((5, 5)), permutation(5), permutation(5)
        c = definite((5, 5))
        if (P == np.eye(5)).all() or (Q == np.eye(5)).all() or (P == Q).all():
            continue
        # the symmetries
        assert error(eg.linalg.inv(P @ a @ Q), Q.T @ array(eg.linalg.inv(a)) @ P.T) < 1e-10
        assert error(eg.linalg.solve(P @ a, P @ c), eg.linalg.solve(a, c)) < 1e-10
        q, r = eg.linalg.qr(a)
        moved = eg.linalg.qr(P @ a)
        assert error(moved.q, P @ array(q)) < 1e-12 and error(moved.r, r) < 1e-12
        u, s, vh = eg.linalg.svd(a)
        moved = eg.linalg.svd(P @ a @ Q)
        assert error(moved.s, s) < 1e-13 and error(moved.u, P @ array(u)) < 1e-10 and error(moved.vh, array(vh) @ Q) < 1e-10
        w, v = eg.linalg.eigh(c)
        moved = eg.linalg.eigh(P @ c @ P.T)
        assert error(moved.eigenvalues, w) < 1e-13 and error(moved.eigenvectors, P @ array(v)) < 1e-10
        holds += 1
        # what is none
        L = array(eg.linalg.cholesky(c))
        fails += error(eg.linalg.cholesky(P @ c @ P.T), P @ L) > 1e-3
        fails += error(eg.linalg.cholesky(P @ c @ P.T), P @ L @ P.T) > 1e-3
        fails += error(eg.linalg.qr(a @ Q).q, q) > 1e-3
        fails += error(eg.linalg.inv(P @ a), P @ array(eg.linalg.inv(a))) > 1e-3
    assert holds > 20 and fails == 4 * holds


# --- assignment ---


def by_force(cost, maximize=False):
    n, m = cost.shape
    if n > m:
        return by_force(cost.T, maximize)
    sums = (sum(cost[i, p[i]] for i in range(n)) for p in itertools.permutations(range(m), n))
    return max(sums) if maximize else min(sums)


def check_assignment(cost, maximize=False):
    rows, columns = (np.array(x) for x in eg.linalg.linear_sum_assignment(cost, maximize=maximize))
    k = min(cost.shape)
    assert rows.tolist() == sorted(set(rows.tolist())) and len(set(columns.tolist())) == k == len(rows)
    return cost[rows, columns].sum()


def test_assignment_is_the_least_of_all():
    """Thousands of small costs, many with ties and rectangular, against every assignment."""
    for case in range(3000):
        n, m = RNG.integers(1, 6, 2)
        kind = case % 4
        cost = RNG.standard_normal((n, m)) if kind == 0 else RNG.integers(0, 3, (n, m)).astype(float) if kind == 1 else None
        if kind == 2:
            cost = RNG.choice([0.0, 1.0, 1e9, -1e9], (n, m))
        if kind == 3:
            cost = np.round(RNG.standard_normal((n, m)) * 2) / 2
        maximize = bool(case % 3 == 0)
        assert check_assignment(cost, maximize) == pytest.approx(by_force(cost, maximize), rel=1e-12, abs=1e-12)
    for n in (6, 7, 8):
        for kind in range(3):
            cost = RNG.integers(0, 4, (n, n)).astype(float) if kind else RNG.standard_normal((n, n))
            assert check_assignment(cost) == pytest.approx(by_force(cost), rel=1e-12)


def test_brute_force_would_notice():
    cost = np.array([[4.0, 1.0, 3.0], [2.0, 0.0, 5.0], [3.0, 2.0, 2.0]])
    assert by_force(cost) == check_assignment(cost) == 5.0
    assert cost[[0, 1, 2], [0, 1, 2]].sum() != by_force(cost)


def test_assignment_takes_what_scipy_takes():
    rows, columns = eg.linalg.linear_sum_assignment([[4, 1, 3], [2, 0, 5], [3, 2, 2]])
    assert rows.tolist() == [0, 1, 2] and columns.tolist() == [1, 0, 2]
    assert eg.linalg.assignment is eg.linalg.linear_sum_assignment
    assert eg.permute.assignment(eg.tensor([[0.0, 1.0]]))[1].tolist() == [0]
    for bad, words in [(np.array([[1.0, np.nan]]), "a cost is NaN"), (np.array([[1.0, -np.inf]]), "a cost is -inf"), (np.ones(3), "cost must be")]:
        with pytest.raises(eg.Error, match=words):
            eg.linalg.linear_sum_assignment(bad)
    with pytest.raises(eg.ValueError, match="leave no assignment"):
        eg.linalg.linear_sum_assignment(np.array([[np.inf, 1.0], [np.inf, 2.0]]))
    assert eg.linalg.linear_sum_assignment(np.array([[np.inf, 1.0], [0.0, np.inf]]))[1].tolist() == [1, 0]


def test_assignment_at_sizes_where_the_optimum_is_known():
    """Prices prove it: cost = u_i + v_j + slack, slack 0 on one permutation alone."""
    for n in (50, 120):
        p = RNG.permutation(n)
        cost = RNG.uniform(0.1, 1.0, (n, n))
        cost[np.arange(n), p] = 0
        cost += RNG.standard_normal((n, 1)) * 5 + RNG.standard_normal((1, n)) * 5
        assert eg.linalg.linear_sum_assignment(cost)[1].tolist() == p.tolist()
