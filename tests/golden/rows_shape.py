"""Views, movements, joins, patches, indices."""

import math

import torch
import torch.nn.functional as nn

from cases import ROWS, SHAPES, B, Case, F, I, V, In, layouts, row


def moved(name, f, calls, types="f"):
    """calls: (shape, attributes). Every fifth case has integers, whose values alone are compared."""
    lay = layouts(name)
    cases = [(a, [F(s, "n", lay(s))]) for s, a in calls]
    cases += [(a, [I(s, -9, 9, lay(s))], "v") for s, a in calls[::5] if len(types) > 1]
    row(name, f, cases)


RESHAPES = [((3, 5), (15,)), ((3, 5), (5, 3)), ((3, 5), (-1,)), ((2, 3, 4), (6, 4)), ((2, 3, 4), (2, -1)), ((2, 3, 4), (4, 3, 2)), ((), (1,)), ((1,), ()),
            ((7,), (7, 1)), ((7,), (1, 7)), ((0,), (0, 3)), ((3, 0, 2), (0,)), ((2, 2, 2, 2), (4, 4)), ((2, 2, 2, 2), (16,)), ((16,), (2, 2, 4)), ((1, 1), ()),
            ((9, 1), (3, 3)), ((4, 6), (2, 2, 6)), ((4, 6), (8, 3)), ((2, 5, 2), (20,)), ((2, 5, 2), (2, 5, 2)), ((12,), (3, -1))]
moved("reshape", lambda a, x: x.reshape(a["shape"]), [(s, {"shape": list(t)}) for s, t in RESHAPES], "fi")
PLANES = [s for s in SHAPES if len(s) > 1]
moved("transpose", lambda a, x: x.transpose(a.get("axis_a", -2), a.get("axis_b", -1)),
      [(s, {} if i % 3 == 0 else {"axis_a": i % len(s), "axis_b": (i // 3) % len(s) - len(s)}) for i, s in enumerate(PLANES * 2)], "fi")
ORDERS = [((3, 5), (1, 0)), ((3, 5), (0, 1)), ((2, 3, 4), (2, 0, 1)), ((2, 3, 4), (1, 0, 2)), ((2, 3, 4), (0, 2, 1)), ((2, 3, 4), (2, 1, 0)), ((7,), (0,)), ((), ()),
          ((2, 2, 3, 2), (0, 2, 1, 3)), ((2, 2, 3, 2), (3, 1, 0, 2)), ((0, 3), (1, 0)), ((3, 0, 2), (2, 0, 1)), ((1, 4), (1, 0)), ((9, 1), (1, 0)), ((1, 3, 1, 2), (2, 3, 0, 1)),
          ((4, 6), (1, 0)), ((2, 5, 2), (1, 2, 0)), ((2, 1, 5), (2, 0, 1)), ((5, 3), (1, 0)), ((3, 3), (1, 0)), ((1, 1), (1, 0)), ((2, 2, 2), (1, 2, 0))]
moved("permute", lambda a, x: x.permute(a["axes"]), [(s, {"axes": list(t)}) for s, t in ORDERS], "fi")
SLICES = [((7,), 0, 1, 5, 1), ((7,), 0, 0, 7, 2), ((7,), 0, -3, 7, 1), ((3, 5), 1, 1, 4, 1), ((3, 5), 1, 0, 5, 3), ((3, 5), 0, 1, 2, 1), ((3, 5), -1, 0, -1, 1), ((2, 3, 4), 1, 0, 2, 1),
          ((2, 3, 4), 2, 1, 4, 2), ((2, 3, 4), 0, 1, 2, 1), ((1,), 0, 0, 1, 1), ((17,), 0, 2, 17, 5), ((9, 1), 0, 1, 8, 3), ((1, 9), 1, 3, 9, 2), ((2, 2, 2, 2), 3, 1, 2, 1), ((4, 6), 1, 2, 2, 1),
          ((4, 6), 0, 0, 4, 4), ((3, 0), 0, 1, 3, 1), ((5, 3), 0, 0, 5, 2), ((23,), 0, 5, 20, 7), ((2, 5, 2), 1, 1, 5, 2), ((13,), 0, -9, -2, 3)]


def sliced(x, axis, start, stop, step):
    index = [slice(None)] * x.dim()
    index[axis] = slice(start, stop, step)
    return x[tuple(index)]


moved("slice", lambda a, x: sliced(x, a["axis"], a["start"], a["stop"], a["step"]),
      [(s, {"axis": axis, "start": b, "stop": e, "step": t}) for s, axis, b, e, t in SLICES], "fi")


def slice_backward(a, g):
    shape = list(g.shape)
    shape[a["axis"]] = a["extent"]
    return torch.ops.aten.slice_backward(g, shape, a["axis"], a["start"], a["start"] + (g.shape[a["axis"]] - 1) * a["step"] + 1 if g.shape[a["axis"]] else a["start"], a["step"])


calls = []
for s, axis, b, e, t in SLICES:
    b = b + s[axis] if b < 0 else b
    g = tuple(sliced(torch.zeros(s), axis, b, e, t).shape)
    calls.append((g, {"axis": axis, "start": b, "step": t, "extent": s[axis]}))
moved("slice_backward", slice_backward, calls)
EXPANDS = [((1,), (7,)), ((5,), (3, 5)), ((3, 1), (3, 4)), ((1, 4), (3, 4)), ((), (3,)), ((), ()), ((), (2, 3)), ((2, 1, 3), (2, 4, 3)), ((1, 1), (3, 3)), ((3,), (2, 2, 3)), ((7,), (7,)),
           ((0,), (2, 0)), ((1, 3), (0, 3)), ((2, 3), (2, 3)), ((1, 1, 1), (2, 1, 3)), ((4, 1), (2, 4, 3)), ((1, 9), (2, 9)), ((9, 1), (9, 2)), ((1, 2, 1, 2), (2, 2, 2, 2)), ((13,), (1, 13)),
           ((1,), (1, 1, 5)), ((2, 1), (3, 2, 2))]
moved("expand", lambda a, x: x.expand(a["shape"]), [(s, {"shape": list(t)}) for s, t in EXPANDS], "fi")
THIN = [((1,), 0), ((1, 1), 0), ((1, 1), 1), ((3, 1), 1), ((1, 3), 0), ((2, 1, 3), 1), ((2, 1, 3), -2), ((1, 2, 3), 0), ((2, 3, 1), 2), ((2, 3, 1), -1), ((1, 1, 4), 1), ((2, 1, 2, 2), 1),
        ((1, 0), 0), ((0, 1), 1), ((1, 17), 0), ((17, 1), -1), ((1, 7), -2), ((4, 1, 1), 2), ((1, 5, 1), 0), ((3, 1, 2, 1), 1), ((3, 1, 2, 1), 3), ((9, 1), 1)]
moved("squeeze", lambda a, x: x.squeeze(a["axis"]), [(s, {"axis": i}) for s, i in THIN], "fi")
moved("unsqueeze", lambda a, x: x.unsqueeze(a["axis"]), [(s, {"axis": i % (len(s) + 1) - (len(s) + 1 if i % 2 else 0)}) for i, s in enumerate(SHAPES)], "fi")
moved("contiguous", lambda a, x: x.contiguous(), [(s, {}) for s in SHAPES], "fi")

# --- element types ---

TYPES = {"f64": torch.float64, "f32": torch.float32, "i64": torch.int64, "u8": torch.uint8, "bool": torch.bool}
lay = layouts("cast")
row("cast", lambda a, x: x.to(TYPES[a["dtype"]]), [({"dtype": "f64" if i % 2 else "f32"}, [F(s, "n", lay(s))]) for i, s in enumerate(SHAPES[:14])]
    + [({"dtype": "i64"}, [F(s, "o", lay(s))], "v") for s in SHAPES[1:5]] + [({"dtype": "bool"}, [I(s, -1, 2, lay(s))], "v") for s in SHAPES[3:6]]
    + [({"dtype": t}, [I((3, 5), 0, 200)], "v") for t in ("u8", "f64", "f32")] + [({"dtype": "i64"}, [B((7,))], "v")])

# --- joins and pieces ---

JOINS = [(((3, 5), (2, 5)), 0), (((3, 5), (3, 1)), 1), (((3, 5), (3, 2), (3, 1)), -1), (((7,), (1,)), 0), (((2, 3, 2), (2, 1, 2)), 1), (((2, 3, 2),), 0), (((0,), (3,)), 0), (((2, 0), (2, 3)), 1),
         (((1, 1), (1, 1)), 0), (((1, 1), (1, 1)), 1), (((4,), (4,), (4,)), 0), (((2, 2, 2, 2), (2, 2, 2, 1)), 3), (((5, 1), (5, 4)), 1), (((13,), (2,)), 0), (((3, 3), (3, 3)), -2),
         (((1, 9), (2, 9)), 0), (((2, 5), (2, 5)), 1), (((6,), (6,)), -1), (((2, 1, 5), (2, 2, 5)), 1), (((4, 2), (1, 2), (2, 2), (1, 2)), 0), (((3, 1), (3, 1)), 1), (((17,), (3,)), 0)]
lay = layouts("concat")
row("concat", lambda a, *xs: torch.cat(xs, a["axis"]), [({"axis": axis}, [F(s, "n", lay(s)) for s in shapes]) for shapes, axis in JOINS])
row("stack", lambda a, *xs: torch.stack(xs, a["axis"]),
    [({"axis": i % (len(s) + 1) - (len(s) + 1 if i % 2 else 0)}, [F(s, "n", lay(s)) for _ in range(1 + i % 3)]) for i, s in enumerate(SHAPES)])


def pad(a, x):
    widths = [0, 0] * x.dim()
    axis = a.get("axis", -1) % x.dim()
    widths[2 * (x.dim() - 1 - axis):2 * (x.dim() - axis)] = [a.get("before", 0), a.get("after", 0)]
    return nn.pad(x, widths, value=a.get("value", 0.0))


moved("pad", pad, [(s, {"axis": i % len(s) - (len(s) if i % 2 else 0), "before": i % 3, "after": (i + 1) % 4, "value": 0.5 * (i % 3)}) for i, s in enumerate(s for s in SHAPES[:21] + [(3, 2), (4,)] if len(s))])


def pieces(f):
    return lambda a, x: tuple(f(a, x))


moved("split", pieces(lambda a, x: torch.split(x, a["sizes"] if len(a["sizes"]) > 1 else a["sizes"][0], a["axis"])), [
    (s, {"sizes": z, "axis": axis}) for s, axis, z in [
        ((7,), 0, [3]), ((7,), 0, [1, 6]), ((7,), 0, [2, 2, 3]), ((3, 5), 1, [2]), ((3, 5), 1, [1, 4]), ((3, 5), 0, [1]), ((3, 5), -1, [5]), ((2, 3, 4), 2, [2]), ((2, 3, 4), 1, [1, 2]),
        ((1,), 0, [1]), ((1, 1), 1, [4]), ((2, 2, 2, 2), 3, [1]), ((9, 1), 0, [4]), ((1, 9), 1, [2, 3, 4]), ((4, 6), 1, [3, 3]), ((4, 6), 0, [3]), ((17,), 0, [9, 8]), ((2, 0), 0, [1]), ((5, 3), 0, [2, 0, 3]),
        ((2, 5, 2), 1, [2]), ((13,), 0, [5]), ((6, 2), -2, [4])]])
moved("chunk", pieces(lambda a, x: torch.chunk(x, a["chunks"], a["axis"])), [
    (s, {"chunks": n, "axis": axis}) for s, axis, n in [
        ((7,), 0, 3), ((7,), 0, 1), ((7,), 0, 7), ((7,), 0, 9), ((3, 5), 1, 2), ((3, 5), 1, 4), ((3, 5), 0, 3), ((3, 5), -1, 5), ((2, 3, 4), 2, 2), ((2, 3, 4), 1, 2), ((1,), 0, 1), ((1, 1), 1, 4), ((2, 2, 2, 2), 3, 2),
        ((9, 1), 0, 4), ((1, 9), 1, 3), ((4, 6), 1, 5), ((4, 6), 0, 2), ((17,), 0, 4), ((2, 0), 0, 2), ((5, 3), 0, 2), ((2, 5, 2), 1, 3), ((13,), 0, 6)]])
moved("repeat", lambda a, x: x.repeat(a["repeats"]), [(s, {"repeats": [1 + (i + k) % 3 for k in range(len(s) + i % 2)]}) for i, s in enumerate(s for s in SHAPES if math.prod(s) < 14 and len(s))]
      + [((2,), {"repeats": [r, 2]}) for r in (1, 2, 3, 4, 5)] + [((3, 1), {"repeats": [1, r]}) for r in (1, 4, 7)])
moved("repeat_interleave", lambda a, x: torch.repeat_interleave(x, a["repeats"], a["axis"]),
      [(s, {"repeats": 1 + i % 3, "axis": i % len(s) - (len(s) if i % 4 == 3 else 0)}) for i, s in enumerate(s for s in SHAPES + [(4, 3), (2, 2)] if len(s))])
moved("roll", lambda a, x: torch.roll(x, a["shifts"] if a.get("axes") else a["shifts"][0], a["axes"] if a.get("axes") else None),
      [(s, {"shifts": [i % 5 - 2], "axes": [i % len(s)]} if i % 3 == 0 else {"shifts": [i % 7 - 3]} if i % 3 == 1 else
        {"shifts": [1 + k - i % 4 for k in range(len(s))], "axes": list(range(len(s)))}) for i, s in enumerate(s for s in SHAPES + [(4, 3), (2, 2)] if len(s))])
moved("flip", lambda a, x: torch.flip(x, a["axes"]), [(s, {"axes": [i % len(s)] if i % 2 else list(range(len(s)))}) for i, s in enumerate(s for s in SHAPES + [(4, 3), (2, 2)] if len(s))])
for name in ("tril", "triu"):
    moved(name, lambda a, x, f=getattr(torch, name): f(x, a.get("diagonal", 0)), [(s, {"diagonal": i % 5 - 2}) for i, s in enumerate((PLANES * 2)[:24])])


# --- patches ---


def patchify(a, x):
    return nn.unfold(x, a["patch"], stride=a["patch"]).transpose(1, 2)


def unpatchify(a, x):
    return nn.fold(x.transpose(1, 2), (a["height"], a["width"]), a["patch"], stride=a["patch"])


IMAGES = [((1, 1, 2, 2), 2), ((1, 1, 2, 2), 1), ((2, 1, 4, 2), 2), ((1, 3, 2, 4), 2), ((2, 2, 2, 2), 1), ((1, 1, 3, 6), 3), ((1, 2, 6, 3), 3), ((3, 1, 2, 2), 2), ((1, 1, 4, 4), 2), ((1, 1, 4, 4), 4),
          ((1, 3, 1, 1), 1), ((2, 3, 2, 2), 2), ((1, 1, 1, 7), 1), ((1, 5, 2, 2), 1), ((1, 1, 6, 4), 2), ((2, 1, 3, 3), 3), ((1, 2, 4, 2), 2), ((1, 1, 2, 8), 2), ((1, 1, 8, 2), 2), ((2, 2, 4, 2), 2), ((1, 4, 2, 2), 2), ((5, 1, 2, 2), 1)]
moved("patchify", patchify, [(s, {"patch": p}) for s, p in IMAGES])
moved("unpatchify", unpatchify, [((s[0], s[2] * s[3] // (p * p), s[1] * p * p), {"channels": s[1], "height": s[2], "width": s[3], "patch": p}) for s, p in IMAGES])

# --- indices ---

TABLES = [((5, 3), (4,)), ((5, 3), (2, 3)), ((1, 4), (3,)), ((7, 1), (2, 2)), ((3, 3), ()), ((4, 2), (3,)), ((9, 2), (5,)), ((2, 5), (6,)), ((13, 1), (7,)), ((6, 2), (1, 3)), ((5, 3), (1,)), ((4, 4), (4,)),
          ((3, 2), (2, 1, 2)), ((8, 1), (9,)), ((5, 2), (3, 2)), ((2, 2), (7,)), ((10, 2), (2, 2)), ((3, 5), (3,)), ((1, 1), (1,)), ((6, 3), (2, 2)), ((17, 1), (4,)), ((4, 3), (5, 1))]
lay = layouts("embedding")
row("embedding", lambda a, w, ids: nn.embedding(ids, w), [({}, [F(w, "n", lay(w, False)), I(ids, 0, w[0], lay(ids))]) for w, ids in TABLES])
row("embedding_backward", lambda a, g, ids: torch.ops.aten.embedding_dense_backward(g, ids, a["rows"], -1, False),
    [({"rows": w[0]}, [F(ids + (w[1],), "n", lay(ids + (w[1],))), I(ids, 0, w[0], lay(ids))]) for w, ids in TABLES])
PICKS = [((5, 3), 0, 4), ((5, 3), 1, 2), ((7,), 0, 9), ((7,), -1, 3), ((2, 3, 4), 1, 5), ((2, 3, 4), 2, 2), ((2, 3, 4), 0, 3), ((1,), 0, 4), ((1, 1), 1, 1), ((3, 5), 1, 0), ((2, 2, 2, 2), 2, 3), ((9, 1), 0, 5),
         ((1, 9), 1, 4), ((4, 6), 0, 2), ((4, 6), -2, 5), ((17,), 0, 6), ((13,), 0, 13), ((2, 5, 2), 1, 3), ((6, 2), 1, 7), ((5, 3), 0, 1), ((3, 1, 2), 0, 2), ((3, 3), 1, 3)]
lay = layouts("index_select")
row("index_select", lambda a, x, i: torch.index_select(x, a["axis"], i), [({"axis": axis}, [F(s, "n", lay(s)), I((k,), 0, s[axis], "s")]) for s, axis, k in PICKS])


def resized(s, axis, n):
    t = list(s)
    t[axis] = n
    return tuple(t)


row("index_select_backward", lambda a, g, i: torch.ops.aten.index_select_backward(g, resized(g.shape, a["axis"], a["extent"]), a["axis"], i),
    [({"axis": axis, "extent": s[axis]}, [F(resized(s, axis, k), "n", lay(resized(s, axis, k))), I((k,), 0, s[axis], "s")]) for s, axis, k in PICKS])
lay = layouts("gather")
row("gather", lambda a, x, i: torch.gather(x, a["axis"], i),
    [({"axis": axis}, [F(s, "n", lay(s)), I(resized(s, axis, k), 0, s[axis], lay(s))]) for s, axis, k in PICKS])
row("scatter_add", lambda a, x, i, source: torch.scatter_add(x, a["axis"], i, source),
    [({"axis": axis}, [F(s, "n", lay(s)), I(resized(s, axis, k), 0, s[axis], lay(s)), F(resized(s, axis, k), "n", lay(s))]) for s, axis, k in PICKS])
ROWED = [((4, 3), (4,)), ((1, 3), (1,)), ((5, 1), (5,)), ((2, 3, 2), (3,)), ((2, 3, 2), (2, 3)), ((3, 2, 2), (2,)), ((3, 2, 2), (3, 2)), ((1, 4, 2), (1, 4)), ((2, 2, 2, 2), (2,)), ((2, 2, 2, 2), (2, 2, 2)), ((7, 2), (7,)),
         ((6, 3), (6,)), ((13, 1), (13,)), ((2, 5, 1), (2, 5)), ((2, 1, 4), (2, 1)), ((3, 3), (3,)), ((9, 2), (9,)), ((2, 4, 3), (2, 4)), ((4, 2, 2), (4, 2)), ((0, 3, 2), (3,)), ((8, 2), (8,)), ((2, 6), (2,))]


def permute_rows(a, x, rows):
    return torch.gather(x, -2, rows.unsqueeze(-1).expand(x.shape))


lay = layouts("rows")
row("permute_rows", permute_rows, [({}, [F(x, "n", lay(x)), In(r, "P", lay(r, False), "i")]) for x, r in ROWED])
row("permute_columns", lambda a, x, c: x[..., c], [({}, [F(s, "n", lay(s)), In(s[-1:], "P", "s", "i")]) for s in [s for s in SHAPES if len(s) and s[-1]] + [(3, 8), (2, 3, 2), (2, 11), (5, 5)]])
row("invert_permutation", lambda a, p: torch.argsort(p, -1), [({}, [In(s, "P", lay(s, False), "i")]) for s in [s for s in SHAPES if len(s) and s[-1]] + [(3, 8), (2, 3, 2), (2, 11), (5, 5)]], "v")
