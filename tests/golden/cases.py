"""Calls to be computed: how they are written down, and the numbers that they run on (draw.cpp has the same generator)."""

import math
import random
import zlib

import numpy as np
import torch

ROWS = {}  # name -> (function of (attributes, tensors...), list of Case)

SHAPES = [(), (1,), (7,), (3, 5), (5, 3), (2, 3, 4), (1, 1), (0,), (3, 0, 2), (1, 9), (9, 1), (2, 1, 5), (2, 2, 2, 2), (4, 6), (17,), (13,),
          (3, 7), (2, 5, 2), (1, 3, 1, 4), (6,), (23,), (2, 0)]
# Numbers of every size, exact in float32; limits of exp in both types, infinities, NaN.
EXTREMES = [0.0, -0.0, 2.0**-140, -(2.0**-140), 2.0**-126, 2.0**-40, -(2.0**-40), 0.5, -0.5, 11.0, -11.0, 88.0, -88.0, 90.0, -90.0, 104.0,
            -104.0, 800.0, -800.0, 2.0**20, -(2.0**20), 2.0**100, -(2.0**100), 2.0**127, -(2.0**127), math.inf, -math.inf, math.nan]


class In:
    """One input: type f, i, u or b; extents; layout c packed, t reversed storage, s every other element, e stride 0 along axis 0."""

    def __init__(self, shape, draw="n", layout="c", type="f"):
        self.shape, self.draw, self.layout, self.type = tuple(shape), draw, layout, type

    def word(self):
        return ":".join([self.type, "x".join(map(str, self.shape)), self.layout, self.draw])


def F(shape, draw="n", layout="c"):
    return In(shape, draw, layout)


def I(shape, low, high=None, layout="c"):
    """Integers in [low, high), or those listed."""
    return In(shape, f"i{low}_{high}" if high is not None else listed(low), layout, "i")


def B(shape, layout="c", values=None):
    return In(shape, "b" if values is None else listed(values), layout, "b")


def listed(values):
    return "=" + ",".join(repr(float(v)) for v in np.ravel(values))


def V(values, layout="c"):
    """Given numbers; keep them exact in float32."""
    a = np.asarray(values, dtype=np.float64)
    return In(a.shape, listed(a), layout)


def array(tensor):
    """Its elements. Second derivatives of abs and the like are tensors without storage, whose numpy() is what lies in memory."""
    return np.zeros(tuple(tensor.shape)) if torch._is_zerotensor(tensor) else tensor.detach().resolve_conj().resolve_neg().numpy()


def rounded(tensor):
    """A computed input, rounded so that float32 holds it exactly."""
    return V(np.round(array(tensor) * 2.0**18) / 2.0**18)


class Case:
    def __init__(self, attrs, inputs, depth):
        self.attrs, self.inputs, self.depth = attrs, inputs, depth


def row(name, function, cases, depth="2"):
    """cases: (attributes, inputs) or (attributes, inputs, depth). Depth: v values, x extremes, 1 gradients, 2 second derivatives."""
    ROWS[name] = (function, [Case(c[0], c[1], c[2] if len(c) > 2 else depth) for c in cases])


def layouts(name):
    """Layouts in turn, from a place that the name gives: next_layout(shape, repeats allowed)."""
    rng = random.Random(name)

    def choose(shape, repeats=True):
        which = rng.choice("ctsse" if repeats and len(shape) > 1 and shape[0] > 1 else "cts")
        return which if len(shape) > 0 else "c"

    return choose


# --- the generator ---

MASK = (1 << 64) - 1


def mix(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def word(salt, stream, e):
    return mix(((salt << 32) + (stream << 20) + e) & MASK) >> 33


def shuffled(salt, stream, first, n):
    return sorted(range(n), key=lambda i: word(salt, stream, first + i))


ELEMENTS = {
    "n": lambda r: (r % 256 - 128) / 64,
    "p": lambda r: (r % 128 + 16) / 64,
    "u": lambda r: (2 * (r % 64) + 1) / 128,
    "s": lambda r: (r % 256 - 128) / 256,
    "w": lambda r: (r % 256 - 128) / 16,
    "k": lambda r: (1 if r % 2 == 0 else -1) * (r // 2 % 112 + 16) / 64,
    "o": lambda r: (r % 256 - 128) / 32 + 1 / 64,
    "b": lambda r: r % 2,
}


def draw(way, shape, salt, stream):
    count = math.prod(shape)
    if way.startswith("="):
        values = [float(v) for v in way[1:].split(",") if v]
    elif way == "d":
        values = [(2 * p - count + 1) / 16 + 1 / 64 for p in shuffled(salt, stream, 0, count)]
    elif way == "P":
        values = [p for first in range(0, count, shape[-1] or 1) for p in shuffled(salt, stream, first, shape[-1])]
    elif way.startswith("i"):
        low, high = map(int, way[1:].split("_"))
        values = [low + word(salt, stream, e) % (high - low) for e in range(count)]
    else:
        values = [ELEMENTS[way](word(salt, stream, e)) for e in range(count)]
    return np.array(values, dtype=np.float64).reshape(shape)


DTYPES = {"f": torch.float64, "i": torch.int64, "u": torch.uint8, "b": torch.bool}


def tensor(spec, salt, index):
    if spec is None:
        return None
    a = draw(spec.draw, spec.shape, salt, index)
    if spec.layout == "e":
        a = np.broadcast_to(a[0:1], spec.shape).copy()
    x = torch.tensor(a).to(DTYPES[spec.type])
    return x.requires_grad_() if spec.type == "f" else x


def salt_of(name, number):
    return zlib.crc32(name.encode()) % (1 << 20) * 1000 + number
