"""Inverse and hyperbolic functions, order, selection, borders, grids, convolutions along one axis and transposed ones."""

import numpy as np
import torch
import torch.nn.functional as nn

from cases import EXTREMES, F, SHAPES, B, I, In, V, layouts, row
from rows_image import CONVOLUTIONS, pair
from rows_math import DIVISORS, binary, plain, unary
from rows_reduce import NOT_EMPTY
from rows_shape import PICKS, resized
from rows_sums import over, reduction

NAN = float("nan")

for name, f, draw in [("asin", torch.asin, "s"), ("acos", torch.acos, "s"), ("atanh", torch.atanh, "s"), ("sinh", torch.sinh, "n"),
                      ("cosh", torch.cosh, "n"), ("asinh", torch.asinh, "n"), ("log10", torch.log10, "p")]:
    unary(name, plain(f), draw, extremes=() if name in ("sinh", "cosh") else EXTREMES)
ABOVE_ONE = [1.25, 1.5, 2.0, 2.75, 3.5, 7.0, 17.0, 100.0]
row("acosh", plain(torch.acosh), [({}, [V(np.resize(ABOVE_ONE[i % 8 :] + ABOVE_ONE[: i % 8], s), "s" if i % 2 and s else "c")]) for i, s in enumerate(SHAPES)]
    + [({}, [V(EXTREMES)], "x")])
binary("atan2", torch.atan2, ("k", "k"))
lay = layouts("floor_divide")
row("floor_divide", lambda a, x, y: torch.div(x, y, rounding_mode="floor"), [
    ({}, [F(s, "o", lay(s)), V(DIVISORS[i % 5])]) for i, s in enumerate(SHAPES)])

# --- reductions ---


def holes(name):
    """A case of a reduction with NaN, whose second derivatives are left out."""
    from cases import ROWS, Case

    ROWS[name][1].append(Case({"axes": [1]}, [V([[1.0, NAN, 2.0], [0.5, -1.5, NAN], [3.0, 2.0, 1.0]])], "1"))


reduction("nansum", over(lambda x, axes, keep: torch.nansum(x, axes, keep) if axes else torch.nansum(x)))
reduction("nanmean", over(lambda x, axes, keep: torch.nanmean(x, axes, keep) if axes else torch.nanmean(x)), shapes=NOT_EMPTY)
holes("nansum")
holes("nanmean")


def at_level(x, axes, keep, q):
    """torch.quantile takes one axis: the others are joined to it."""
    axes = sorted(i % x.dim() for i in axes)
    rest = [i for i in range(x.dim()) if i not in axes]
    y = torch.quantile(x.permute(rest + axes).reshape([x.shape[i] for i in rest] + [-1]), q, dim=-1)
    return y.reshape([1 if i in axes else n for i, n in enumerate(x.shape)]) if keep else y


reduction("median", over(lambda x, axes, keep: at_level(x, axes, keep, 0.5)), "d", shapes=NOT_EMPTY, repeats=False)
reduction("quantile", lambda a, x: over(lambda x, axes, keep: at_level(x, axes, keep, a["q"]))(a, x), "d",
          attrs=({"q": 0.25}, {"q": 0.8125}, {"q": 0.0}, {"q": 1.0}), shapes=NOT_EMPTY, repeats=False)

# --- order and selection ---

lay = layouts("unique")
row("unique", lambda a, x: torch.unique(x, return_inverse=True, return_counts=True), [({}, [In(s, "i0_5", lay(s), "if"[i % 2])]) for i, s in enumerate(SHAPES)], "v")
LINES = [-1.0, 0.0, 0.25, 0.25, 0.5, 1.5, 1.75]
row("searchsorted", lambda a, x, v: torch.searchsorted(x.detach(), v.detach(), right=a.get("right", False)),
    [({"right": i % 2 == 1}, [V(LINES[: 1 + i % 7]), F(s, "n", lay(s))]) for i, s in enumerate(SHAPES) if len(s)]
    + [({"right": i % 2 == 1}, [V(np.resize(LINES, s[:-1] + (7,))), F(s, "n", lay(s, False))]) for i, s in enumerate(SHAPES) if len(s) > 1 and 0 not in s], "v")
row("nonzero", lambda a, x: torch.nonzero(x), [({}, [In(s, "i0_2", lay(s), "fib"[i % 3]) if i % 3 < 2 else B(s, lay(s))]) for i, s in enumerate(SHAPES)], "v")
lay = layouts("masked_select")
row("masked_select", lambda a, x, m: torch.masked_select(x, m),
    [({}, [F(s, "n", lay(s)), B(s[i % 2 :] if len(s) > 1 else s, "c")]) for i, s in enumerate(SHAPES)])

# --- borders, grids ---

MODES = ("reflect", "symmetric", "replicate", "circular", "edge", "wrap")


def bordered(a, x):
    mode = {"replicate": "edge", "circular": "wrap"}.get(a["mode"], a["mode"])
    places = np.pad(np.arange(x.shape[a["axis"]]), (a["before"], a["after"]), mode=mode)
    return torch.index_select(x, a["axis"], torch.tensor(places))


lay = layouts("pad_mode")
row("pad_mode", bordered, [({"axis": axis, "before": i % 4, "after": (i + 2) % 7, "mode": MODES[i % 6]}, [F(s, "n", lay(s))])
                           for i, (s, axis, _) in enumerate(PICKS)])
row("block_diag", lambda a, *xs: torch.block_diag(*xs), [({}, [F(s, "n", "cts"[i % 3]) for s in blocks]) for i, blocks in enumerate(
    [((2, 3), (4, 1)), ((3, 5), (2, 2), (1, 4)), ((2, 2),), ((1, 1), (1, 1)), ((3, 1), (1, 3)), ((2, 4), (4, 2)), ((5, 2), (2, 5), (1, 1)),
     ((7, 1),), ((1, 7), (7, 1)), ((3,), (2, 2)), ((2, 2), (3,)), ((4, 3), (2,), (1, 2)), ((6, 2),), ((2, 1), (2, 1), (2, 1)), ((3, 3), (3, 3)),
     ((2, 9),), ((9, 2), (1, 1)), ((1, 2), (3, 4), (5, 1)), ((2, 3), (3, 2)), ((4, 4), (1, 5)), ((5, 5),)])])
VECTORS = [(3, 5), (3,), (1, 4), (4, 1), (2, 3, 4), (2, 2, 2, 2), (7,), (7, 2), (2, 7), (1, 1, 1), (5, 3), (3, 2, 2), (6, 2), (13,), (2, 5), (4, 4), (9, 1),
           (1, 9), (2, 3), (3, 3, 2), (17,), (8, 2)]
row("meshgrid", lambda a, *xs: tuple(torch.meshgrid(*xs, indexing=a.get("indexing", "ij"))),
    [({"indexing": "xy"} if i % 2 and len(ns) > 1 else {}, [F((n,), "n", "cs"[k % 2]) for k, n in enumerate(ns)]) for i, ns in enumerate(VECTORS)])
row("outer", lambda a, x, y: torch.outer(x, y),
    [({}, [F((ns[0],), "n", "cs"[i % 2]), F((ns[-1] + i % 3,), "n", "sc"[i % 2])]) for i, ns in enumerate(VECTORS)])
THREES = [((3,), (3,), -1), ((5, 3), (5, 3), -1), ((5, 3), (3,), -1), ((3,), (4, 3), 1 - 2), ((2, 1, 3), (4, 3), -1), ((3, 5), (3, 5), 0), ((3, 5), (3, 1), 0),
          ((2, 3, 4), (2, 3, 4), 1), ((2, 3, 4), (1, 3, 4), -2), ((1, 3), (7, 3), 1), ((0, 3), (3,), -1)]
row("cross", lambda a, x, y: torch.linalg.cross(*torch.broadcast_tensors(x, y), dim=a["axis"]),
    [({"axis": axis}, [F(s, "n", ("c", "s")[i % 2]), F(t, "n", ("s", "t")[i % 2] if len(t) else "c")]) for i, (s, t, axis) in enumerate(THREES + THREES)])


def scattered(a, x, index, source):
    """torch.scatter_reduce; products by place, since PyTorch does not differentiate its own twice."""
    keep, how = a.get("include_self", True), a["reduce"]
    y = torch.scatter_reduce(x, a["axis"], index, source, how, include_self=keep)
    if how != "prod":
        return y
    axis = a["axis"] % x.dim()
    parts, sources, places = x.unbind(axis), source.unbind(axis), index.unbind(axis)
    out = []
    for e, own in enumerate(parts):
        there = [p == e for p in places]
        hit = torch.stack(there).any(0) if there else torch.zeros_like(own, dtype=torch.bool)
        z = own if keep else torch.where(hit, torch.ones_like(own), own)
        for p, s in zip(there, sources):
            z = torch.where(p, z * s, z)
        out.append(z)
    z = torch.stack(out, axis) if out else x * 1.0
    assert torch.allclose(z, y, rtol=1e-14, atol=0)
    return z


lay = layouts("scatter_reduce")
HOW = ("sum", "mean", "prod", "amax", "amin")
row("scatter_reduce", scattered,
    [({"axis": axis, "reduce": HOW[i % 5], "include_self": i % 3 != 1}, [F(s, "k", lay(s)), I(resized(s, axis, k), 0, s[axis], "c"), F(resized(s, axis, k), "d", "c")])
     for i, (s, axis, k) in enumerate(PICKS + PICKS)])

# --- convolutions ---


def lines(a):
    return {name: a[name] for name in ("stride", "padding", "dilation", "groups") if name in a}


def flat(s):
    """An image's shape as that of a line: its columns."""
    return s[:2] + s[3:]


def numbers(a):
    """The attributes along columns."""
    return {name: value if name == "groups" else value[-1] for name, value in a.items()}


def fits(s, w, a):
    n = numbers(a)
    return s[3] + 2 * n.get("padding", 0) > n.get("dilation", 1) * (w[3] - 1)


row("conv1d", lambda a, x, w, b=None: nn.conv1d(x, w, b, **lines(a)),
    [(numbers(a), [F(flat(s)), F(flat(w), "n", "s"), F(w[:1]) if i % 3 else None]) for i, (s, w, a) in enumerate(CONVOLUTIONS) if fits(s, w, a)])


def transposed(a, x, w, b=None, d=2):
    names = {"stride": 1, "padding": 0, "output_padding": 0, "dilation": 1}
    given = {name: a.get(name, other) if d == 1 else pair(a.get(name), other) for name, other in names.items()}
    return (nn.conv_transpose1d if d == 1 else nn.conv_transpose2d)(x, w, b, groups=a.get("groups", 1), **given)


def turned(i, s, w, a, flat_too):
    """A transposed convolution with this kernel: x has the channels that the convolution made."""
    a = {name: value for name, value in a.items() if name != "padding" or w[2] > value[0] and w[3] > value[-1]}
    stride = a.get("stride", [1])
    a = {**a, **({"output_padding": [n - 1 for n in stride]} if i % 2 and max(stride) > 1 else {})}
    x = (s[0], w[0], 2 + i % 3, 3)
    shapes = [x, w, (w[1] * a.get("groups", 1),)]
    if flat_too:
        a, shapes = numbers(a), [flat(x), flat(w), shapes[2]]
    return a, [F(shapes[0]), F(shapes[1], "n", "s"), F(shapes[2]) if i % 3 else None]


row("conv_transpose2d", transposed, [turned(i, *c, False) for i, c in enumerate(CONVOLUTIONS)])
row("conv_transpose1d", lambda a, x, w, b=None: transposed(a, x, w, b, 1), [turned(i, *c, True) for i, c in enumerate(CONVOLUTIONS)])
