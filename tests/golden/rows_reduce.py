"""Extremes, spread, products, norms, scans, order and counts."""

import math

import torch

from cases import ROWS, SHAPES, B, Case, F, I, V, layouts, row
from rows_sums import AXES, HUGE, INF, NAN, over, reduction

ONE_AXIS = [((3, 5), 0), ((3, 5), 1), ((3, 5), -1), ((7,), 0), ((1,), 0), ((2, 3, 4), 1), ((2, 3, 4), 0), ((2, 3, 4), -1), ((1, 1), 0), ((0, 3), 1),
            ((3, 1, 2), 1), ((17,), -1), ((2, 2, 2, 2), 2), ((2, 2, 2, 2), 0), ((9, 1), 1), ((1, 9), 1), ((5, 3), 0), ((23,), -1), ((2, 5, 2), 1),
            ((4, 6), 1), ((13,), 0), ((6, 2), -2)]


def one_axis(name, f, draw="d", depth="2", attrs=({},), keepdim=True, extremes=(), inputs=None, required=False):
    lay = layouts(name)
    make = inputs or (lambda s: [F(s, draw, lay(s, draw != "d"))])
    cases = []
    for i, (s, axis) in enumerate(ONE_AXIS):
        a = {**attrs[i % len(attrs)], "axis": axis}
        if keepdim:
            a["keepdim"] = i % 3 == 1
        cases.append((a, make(s)))
    cases += [({**a, "axis": 1}, [V(x, "t")], "x") for a in attrs for x in extremes]
    row(name, f, cases, depth)


def along(f):
    return lambda a, x: f(x, a["axis"], a.get("keepdim", False))


one_axis("max", along(lambda x, axis, keep: torch.max(x, axis, keep).values), extremes=HUGE)
one_axis("min", along(lambda x, axis, keep: torch.min(x, axis, keep).values), extremes=HUGE)
one_axis("argmax", along(torch.argmax), depth="v")
one_axis("argmin", along(torch.argmin), depth="v")
one_axis("max_with_index", along(lambda x, axis, keep: tuple(torch.max(x, axis, keep))))
one_axis("min_with_index", along(lambda x, axis, keep: tuple(torch.min(x, axis, keep))))
NOT_EMPTY = [(s, axes) for s, axes in AXES if 0 not in s] + [((2, 1, 3), [1, 2])]
reduction("amax", over(torch.amax), "d", shapes=NOT_EMPTY, extremes=HUGE, repeats=False)
reduction("amin", over(torch.amin), "d", shapes=NOT_EMPTY, extremes=HUGE, repeats=False)
# Equals share the gradient.
for name in ("amax", "amin"):
    ROWS[name][1].append(Case({"axes": [1]}, [V([[1.0, 2.0, 2.0], [-1.0, -1.0, 0.5]])], "2"))

SPREAD = [(s, axes) for s, axes in AXES if math.prod(s[i] for i in (axes or range(len(s)))) > 1] + [((2, 7), [1]), ((3, 3), [0]), ((2, 2, 3), [2])] * 2


def spread(f):
    return lambda a, x: f(x, a["axes"] or list(range(x.dim())), correction=int(a.get("correction", 1.0)), keepdim=a.get("keepdim", False))


CORRECTIONS = ({}, {"correction": 0.0}, {"correction": 1.0})
reduction("var", spread(torch.var), attrs=CORRECTIONS, shapes=SPREAD)
reduction("std", spread(torch.std), "d", attrs=CORRECTIONS, shapes=SPREAD, repeats=False)
lay = layouts("center")
row("center", lambda a, x: x - x.mean(a["axes"] or list(range(x.dim())), keepdim=True) if x.dim() else x - x,
    [({"axes": axes}, [F(s, "n", lay(s))]) for s, axes in AXES])


def product(x, axes, keep):
    """torch.prod takes one axis; over all it is written without one."""
    for axis in sorted((i % x.dim() for i in axes), reverse=True):
        x = torch.prod(x, axis, keep)
    return x


reduction("prod", over(product), "k")
for values in ([[0.0, 2.0, -1.5], [1.0, 0.5, 3.0]], [[0.0, 0.0, 2.0], [0.0, 1.0, 1.5]]):
    ROWS["prod"][1].append(Case({"axes": [1]}, [V(values)], "2"))


def others(a, x):
    """The product of the other factors, each by itself."""
    parts = x.unbind(a["axis"])
    ones = torch.ones_like(parts[0]) if parts else None
    whole = []
    for i in range(len(parts)):
        y = ones
        for j, p in enumerate(parts):
            y = y if i == j else y * p
        whole.append(y)
    return torch.stack(whole, a["axis"]) if whole else x.clone()


one_axis("prod_of_others", others, "n", keepdim=False)
reduction("logsumexp", over(lambda x, axes, keep: torch.logsumexp(x, axes, keep) if axes else torch.logsumexp(x.reshape(1), 0)),
          shapes=NOT_EMPTY, extremes=[[[2.0**100, 1.0, -5.0], [800.0, 800.0, 799.0], [-800.0, -801.0, -800.0]],
                                      [[INF, 1.0, 2.0], [-INF, -INF, -INF], [NAN, 1.0, 2.0], [-INF, 0.0, 3.0]]])
lay = layouts("lse_backward")
row("logsumexp_backward", lambda a, g, x, y: g * torch.exp(x - y),
    [({}, [F(t, "n", lay(t)), F(s, "n", lay(s)), F(t, "n", lay(t))]) for s, t in [
        ((3, 5), (3, 1)), ((3, 5), (1, 5)), ((3, 5), (1, 1)), ((7,), (1,)), ((7,), ()), ((), ()), ((2, 3, 4), (2, 1, 4)), ((2, 3, 4), (1, 3, 1)),
        ((1, 1), (1, 1)), ((0, 3), (1, 3)), ((3, 1, 2), (3, 1, 1)), ((17,), (1,)), ((2, 2, 2, 2), (2, 1, 2, 1)), ((9, 1), (9, 1)), ((1, 9), (1, 1)),
        ((5, 3), (1, 3)), ((23,), (1,)), ((2, 5, 2), (2, 1, 2)), ((4, 6), (4, 1)), ((13,), ()), ((6, 2), (6, 1)), ((3, 5), (3, 5))]])


def norm(a, x):
    axes = a["axes"] or list(range(x.dim()))
    y = torch.linalg.vector_norm(x, a.get("p", 2.0), axes if axes else None, a.get("keepdim", False))
    return y


reduction("norm", norm, "k", attrs=({}, {"p": 1.0}, {"p": 3.0}, {"p": 2.0}), shapes=NOT_EMPTY)
reduction_norm_inf = [({"axes": axes, "p": math.inf}, [F(s, "d", "s" if s else "c")]) for s, axes in NOT_EMPTY[:6]]
ROWS["norm"][1].extend(Case(a, x, "2") for a, x in reduction_norm_inf)

for name, f in (("any", torch.any), ("all", torch.all), ("count_nonzero", torch.count_nonzero)):
    lay = layouts(name)

    def truth(a, x, f=f, name=name):
        axes = sorted((i % x.dim() for i in (a["axes"] or range(x.dim()))), reverse=True) if x.dim() else []
        keep = a.get("keepdim", False)
        y = x != 0
        if name == "count_nonzero":
            return y.to(torch.int64).sum(axes, keep) if axes else y.to(torch.int64)
        for axis in axes:
            y = f(y, axis, keep)
        return y

    def sparse(s, i):
        return F(s, "=" + ",".join(str(float((5 * k + i) % 3 == 0) * (1.5 if k % 2 else -2.0)) for k in range(math.prod(s))), lay(s))

    row(name, truth, [({"axes": axes, "keepdim": i % 3 == 1}, [[B(s, lay(s))], [sparse(s, i)], [I(s, -1, 2, lay(s))]][i % 3])
                      for i, (s, axes) in enumerate(AXES)], "v")

# --- scans ---


def cumulative(f):
    return lambda a, x: torch.flip(f(torch.flip(x, [a["axis"]]), a["axis"]), [a["axis"]]) if a.get("reverse") else f(x, a["axis"])


one_axis("cumsum", cumulative(torch.cumsum), "n", attrs=({}, {"reverse": True}), keepdim=False)
one_axis("cumprod", cumulative(torch.cumprod), "k", keepdim=False)


def scan(a, x, y):
    axis = a["axis"]
    if a.get("reverse"):
        return torch.flip(scan({"axis": axis}, torch.flip(x, [axis]), torch.flip(y, [axis])), [axis])
    parts, last = [], None
    for p, q in zip(x.unbind(axis), y.unbind(axis)):
        last = q if last is None else p * last + q
        parts.append(last)
    return torch.stack(parts, axis)


lay = layouts("linear_scan")
one_axis("linear_scan", scan, attrs=({}, {"reverse": True}), keepdim=False, inputs=lambda s: [F(s, "n", lay(s)), F(s, "n", lay(s))])

# --- order ---

ORDER = ({}, {"descending": True})
one_axis("sort", lambda a, x: tuple(torch.sort(x, dim=a["axis"], descending=a.get("descending", False), stable=True)), attrs=ORDER, keepdim=False)
one_axis("argsort", lambda a, x: torch.sort(x, dim=a["axis"], descending=a.get("descending", False), stable=True)[1], attrs=ORDER, keepdim=False, depth="v")


def topk(a, x):
    values, places = torch.topk(x, a["k"], a["axis"], a.get("largest", True), True)
    if a.get("sorted", True):
        return values, places
    places = torch.sort(places, a["axis"])[0]  # unsorted: PyTorch promises no order, here it is that of the places
    return torch.gather(x, a["axis"], places), places


lay = layouts("topk")
row("topk", topk, [({"k": (i % 3 + 1) if s[axis] > 2 else s[axis], "axis": axis, "largest": i % 2 == 0, "sorted": i % 5 != 4}, [F(s, "d", lay(s, False))])
                   for i, (s, axis) in enumerate(ONE_AXIS)])
lay = layouts("bincount")
row("bincount", lambda a, x, w=None: torch.bincount(x, w, a.get("minlength", 0)) if w is None or not w.requires_grad else
    torch.zeros(max(int(x.max()) + 1 if x.numel() else 0, a.get("minlength", 0)), dtype=torch.float64).index_add(0, x, w),
    [({"minlength": (0, 3, 9)[i % 3]}, [I((n,), 0, 1 + n % 6), F((n,), "n", "s") if i % 2 else None], "2" if i % 2 else "v")
     for i, n in enumerate([1, 2, 3, 5, 7, 8, 9, 11, 13, 17, 23, 4, 6, 10, 12, 14, 15, 16, 18, 19, 20, 21])])
TYPES = {"i64": torch.int64, "f64": torch.float64, "u8": torch.uint8, "bool": torch.bool}
row("one_hot", lambda a, x: torch.nn.functional.one_hot(x, a["num_classes"]).to(TYPES[a.get("dtype", "i64")]),
    [({"num_classes": 1 + i % 5, **({"dtype": ["u8", "bool", "f64"][i % 3]} if i % 2 else {})}, [I(s, 0, 1 + i % 5, "s" if s else "c")])
     for i, s in enumerate([s for s in SHAPES if 0 not in s] + [(2, 2), (4,)])], "v")
