"""Linear algebra. PyTorch leaves signs open; here they are fixed, as docs/python.md says."""

import numpy as np
import torch

from cases import V, draw, layouts, row

SQUARE = [(3, 3), (1, 1), (2, 2), (4, 4), (5, 5), (2, 3, 3), (3, 2, 2), (2, 2, 2, 2), (1, 3, 3), (4, 1, 1), (2, 1, 3, 3), (6, 6), (3, 3, 3), (2, 4, 4), (1, 2, 2),
          (1, 1, 4, 4), (5, 2, 2), (7, 7), (2, 5, 5), (3, 4, 4)]
ANY = [(3, 3), (5, 3), (3, 5), (1, 1), (4, 2), (2, 4), (2, 3, 2), (2, 2, 3), (4, 4), (6, 3), (3, 6), (1, 4), (4, 1), (2, 2, 2, 3), (3, 1, 2), (1, 5, 4),
       (2, 4, 4), (7, 5), (5, 7), (2, 1, 3, 2)]


def matrix(shape, salt, diagonal):
    """Numbers in [-1/2, 1/2] plus diagonal(j) at (j, j), multiples of 1/256."""
    x = np.round(draw("n", shape, salt, 0) * 64) / 256
    for j in range(min(shape[-2:])):
        x[..., j, j] += diagonal(j)
    return x


def even(j):
    return 2.0


def graded(j):
    """Values far apart, in no order."""
    return (-1.5) ** j * 1.5


def given(name, shapes, diagonal, make=lambda x: x, attrs=lambda i: {}):
    lay = layouts(name)
    return [(attrs(i), [V(make(matrix(s, 9000 + i, diagonal)), lay(s, False))]) for i, s in enumerate(shapes)]


def symmetric(x):
    return (x + x.mT) / 2


def signs(x):
    """1 or -1 for each column: the sign of its largest entry."""
    at = x.abs().argmax(-2, keepdim=True)
    return torch.where(x.gather(-2, at) < 0, -1.0, 1.0).to(x.dtype).detach()


row("cholesky", lambda a, x: torch.linalg.cholesky(symmetric(x)), given("cholesky", SQUARE, even))
row("inv", lambda a, x: torch.linalg.inv(x), given("inv", SQUARE, graded))
row("det", lambda a, x: torch.linalg.det(x), given("det", SQUARE, graded))
row("slogdet", lambda a, x: tuple(torch.linalg.slogdet(x)), given("slogdet", SQUARE, graded))
row("pinv", lambda a, x: torch.linalg.pinv(x, rtol=a.get("rtol") or None), given("pinv", ANY, even, attrs=lambda i: {"rtol": 2.0**-10} if i % 3 else {}))

lay = layouts("solve")
SYSTEMS = [(s, s[:-1] + (k,)) for s, k in zip(SQUARE, [2, 1, 3, 1, 2, 4, 1, 2, 3, 1, 2, 2, 1, 3, 2, 1, 1, 2, 1, 2])]
SYSTEMS += [((3, 3), (2, 3, 2)), ((2, 1, 3, 3), (4, 3, 1)), ((4, 2, 2), (2, 3))]
TRIANGLES = [{"upper": i % 2 == 0, "unitriangular": i % 3 == 0} for i in range(len(SYSTEMS))]


def systems(attrs):
    return [(attrs[i], [V(matrix(s, 9100 + i, graded), lay(s, False)), V(matrix(t, 9200 + i, lambda j: 0.25), lay(t, False))]) for i, (s, t) in enumerate(SYSTEMS)]


row("solve", lambda a, x, y: torch.linalg.solve(x, y.expand(torch.broadcast_shapes(x.shape[:-2], y.shape[:-2]) + y.shape[-2:])), systems([{}] * len(SYSTEMS)))
row("solve_triangular", lambda a, x, y: torch.linalg.solve_triangular(x, y, upper=a["upper"], unitriangular=a["unitriangular"]), systems(TRIANGLES))


def qr(a, x):
    q, r = torch.linalg.qr(x)
    sign = torch.where(r.diagonal(dim1=-2, dim2=-1) < 0, -1.0, 1.0).to(x.dtype).detach()
    return q * sign.unsqueeze(-2), r * sign.unsqueeze(-1)


def eigh(a, x):
    w, v = torch.linalg.eigh(symmetric(x))
    return w, v * signs(v)


def svd(a, x):
    u, s, vh = torch.linalg.svd(x, full_matrices=False)
    sign = signs(u)
    return u * sign, s, vh * sign.mT


row("qr", qr, given("qr", ANY, graded))
row("eigh", eigh, given("eigh", SQUARE, graded))
row("svd", svd, given("svd", ANY, graded))
