"""Sums, products of matrices and tensors, einsum, the low-pass."""

import torch
import torch.nn.functional as nn

from cases import F, SHAPES, V, layouts, row

INF, NAN = float("inf"), float("nan")
AXES = [((3, 5), [0]), ((3, 5), [1]), ((3, 5), [-1]), ((3, 5), [0, 1]), ((3, 5), []), ((), []), ((7,), [0]), ((2, 3, 4), [1]), ((2, 3, 4), [0, 2]),
        ((2, 3, 4), [-1, -2]), ((1, 1), [0]), ((3, 0), [0]), ((3, 1, 2), [1]), ((17,), []), ((2, 2, 2, 2), [1, 3]), ((2, 2, 2, 2), [0, -1]),
        ((9, 1), [1]), ((1, 9), [1]), ((5, 3), [0]), ((23,), [-1]), ((2, 5, 2), [0, 1, 2]), ((4, 6), [1])]


def reduction(name, f, draw="n", depth="2", attrs=({},), shapes=AXES, extremes=(), repeats=True):
    lay = layouts(name)
    cases = [({**attrs[i % len(attrs)], "axes": axes, "keepdim": i % 3 == 1}, [F(s, draw, lay(s, repeats))]) for i, (s, axes) in enumerate(shapes)]
    cases += [({"axes": [1], **a}, [V(x, "t")], "x") for a in attrs for x in extremes]
    row(name, f, cases, depth)


def over(f):
    """f(x, axes, keepdim) of a case; an empty list means all axes."""

    def g(a, x, *more):
        axes = a["axes"] or list(range(x.dim()))
        return f(x, axes, a.get("keepdim", False), *more)

    return g


HUGE = [[[2.0**127, 2.0**127, -(2.0**127)], [1.0, 2.0**-140, -1.0]], [[INF, 1.0, 2.0], [INF, -INF, 0.0], [NAN, 1.0, 2.0], [-INF, -INF, 3.0]]]
reduction("sum", over(lambda x, axes, keep: torch.sum(x, axes, keep) if axes else x.sum()), extremes=HUGE[1:])
reduction("mean", over(lambda x, axes, keep: torch.mean(x, axes, keep) if axes else x.mean()), extremes=HUGE[1:])
lay = layouts("sum_to")
row("sum_to", lambda a, x: x.sum_to_size(a["shape"]) if a["shape"] else x.sum(), [
    ({"shape": list(t)}, [F(s, "n", lay(s))]) for s, t in [
        ((3, 5), (5,)), ((3, 5), (1, 5)), ((3, 5), (3, 1)), ((3, 5), (3, 5)), ((3, 5), ()), ((3, 5), (1, 1)), ((7,), (1,)), ((7,), ()), ((), ()),
        ((2, 3, 4), (3, 4)), ((2, 3, 4), (3, 1)), ((2, 3, 4), (2, 1, 4)), ((2, 3, 4), (4,)), ((2, 2, 2, 2), (2, 1, 2)), ((0, 3), (1, 3)),
        ((3, 0), (3, 1)), ((13,), (13,)), ((9, 1), (1,)), ((1, 9), (9,)), ((2, 1, 5), (1, 5)), ((4, 6), (6,)), ((2, 5, 2), (1, 2))]])

# --- matrices ---

PRODUCTS = [((3, 5), (5, 2)), ((1, 1), (1, 1)), ((1, 7), (7, 1)), ((5, 1), (1, 4)), ((3, 0), (0, 2)), ((0, 3), (3, 2)), ((2, 3, 4), (2, 4, 3)),
            ((2, 3, 4), (4, 2)), ((3, 4), (2, 4, 2)), ((2, 1, 3, 2), (3, 2, 3)), ((1, 2, 3), (2, 3, 2)), ((7, 3), (3, 3)), ((2, 9), (9, 2)),
            ((4, 4), (4, 4)), ((1, 13), (13, 1)), ((3, 17), (17, 1)), ((2, 2, 2, 2), (2, 2, 2, 2)), ((3, 3), (3, 5)), ((6, 2), (2, 3)),
            ((2, 5, 1), (2, 1, 3)), ((1, 4), (4, 6)), ((5, 3), (3, 1))]


def swapped(shape, yes):
    return shape[:-2] + (shape[-1], shape[-2]) if yes else shape


lay = layouts("matmul")
row("matmul", lambda a, x, y: torch.matmul(x.mT if a.get("transpose_a") else x, y.mT if a.get("transpose_b") else y),
    [({"transpose_a": i % 2 == 1, "transpose_b": i % 4 > 1}, [F(swapped(s, i % 2 == 1), "n", lay(s)), F(swapped(t, i % 4 > 1), "n", lay(t))])
     for i, (s, t) in enumerate(PRODUCTS)] + [({}, [V([[1.0, INF], [NAN, 1.0], [2.0**100, 0.5]]), V([[1.0, 2.0], [-1.0, 0.5]], "t")], "x")])

LINEAR = [((3, 5), 2), ((5,), 3), ((1, 1), 1), ((2, 3, 4), 2), ((0, 3), 2), ((4, 1), 5), ((1, 7), 1), ((2, 2, 2, 3), 2), ((7, 2), 3), ((3, 9), 2),
          ((6, 3), 3), ((2, 1, 5), 4)]
lay = layouts("linear")


def linear(a, x, w, b=None, more=None):
    y = nn.linear(x, w, b)
    return y if more is None else y + more


row("linear", linear, [({}, [F(s, "n", lay(s)), F((out, s[-1]), "n", lay((out, s[-1]))), F((out,), "n", "s") if i % 4 != 1 else None,
                             F(s[:-1] + (out,), "n", lay(s[:-1] + (out,))) if i % 4 < 2 else None])
                       for i, (s, out) in enumerate([p for p in LINEAR for _ in (0, 1)])])


def linear_gelu(a, x, w, b=None):
    pre = nn.linear(x, w, b)
    return nn.gelu(pre, approximate="tanh" if a.get("approximate") else "none"), pre


row("linear_gelu", linear_gelu, [({"approximate": i % 2 == 1}, [F(s, "n", lay(s)), F((out, s[-1]), "n", lay((out, s[-1]))),
                                                                F((out,), "n", "s") if i % 3 != 1 else None])
                                 for i, (s, out) in enumerate([p for p in LINEAR for _ in (0, 1)]) if i % 8 != 7])

EQUATIONS = [("ij,jk->ik", (3, 4), (4, 2)), ("ij,jk", (2, 3), (3, 2)), ("bij,bjk->bik", (2, 3, 2), (2, 2, 3)), ("i,j->ij", (3,), (4,)), ("i,i->", (7,), (7,)),
             ("ii->i", (4, 4)), ("ii", (3, 3)), ("ij->ji", (3, 5)), ("ij->i", (3, 5)), ("ij->", (2, 5)), ("bhqd,bhkd->bhqk", (1, 2, 3, 2), (1, 2, 2, 2)),
             ("bhqk,bhkd->bqhd", (1, 2, 3, 2), (1, 2, 2, 2)), ("...ij,...jk->...ik", (2, 1, 2, 3), (3, 3, 2)), ("...i->...", (2, 3, 4)),
             ("ij,jk,kl->il", (2, 3), (3, 2), (2, 3)), ("ij,ij->ij", (3, 4), (3, 4)), ("i,ij,j->", (3,), (3, 4), (4,)), ("ijk,jil->kl", (2, 3, 2), (3, 2, 3)),
             ("abc,cd->abd", (2, 2, 3), (3, 2)), ("bi,oi,bo->b", (2, 3), (2, 3), (2, 2)), ("iij,j->i", (2, 2, 3), (3,)), ("ij,k->ikj", (2, 2), (3,)),
             ("i,i->i", (0,), (0,)), ("ij,jk->ik", (1, 1), (1, 1))]
lay = layouts("einsum")
row("einsum", lambda a, *xs: torch.einsum(a["equation"], *xs),
    [({"equation": e, "order": "greedy" if i % 3 == 2 else "left_to_right"}, [F(s, "n", lay(s)) for s in shapes]) for i, (e, *shapes) in enumerate(EQUATIONS)])


def low_pass(a, x):
    """The frequencies above the cutoff set to zero in the Fourier transform."""
    z = torch.fft.fft2(x)
    for axis in (-2, -1):
        n = x.shape[axis]
        keep = (torch.fft.fftfreq(n, 1.0 / n, dtype=torch.float64).abs() <= a["cutoff"]).to(torch.float64)
        z = z * (keep.unsqueeze(-1) if axis == -2 else keep)
    return torch.fft.ifft2(z).real


lay = layouts("low_pass")
row("fft_low_pass", low_pass, [({"cutoff": c}, [F(s, "n", lay(s))]) for s, c in [
    ((3, 4), 1), ((4, 3), 0), ((5, 5), 1), ((5, 5), 2), ((1, 7), 2), ((7, 1), 1), ((2, 3, 3), 1), ((2, 4, 4), 1), ((2, 2, 3, 5), 1), ((6, 2), 2),
    ((6, 4), 3), ((8, 3), 2), ((1, 1), 0), ((1, 9), 3), ((1, 2, 4, 4), 2), ((3, 7), 2), ((2, 13), 4), ((1, 10), 4), ((5, 2), 0), ((2, 8), 3), ((4, 5), 1),
    ((2, 2), 1)]])
