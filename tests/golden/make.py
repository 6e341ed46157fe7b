#!/usr/bin/python3
"""Writes pytorch.golden: calls of every operation with what PyTorch computes for them. README.md says how and when.

    /usr/bin/python3 tests/golden/make.py [--check] [ROW...]

--check computes everything and writes nothing; names restrict it to these rows (and imply --check)."""

import lzma
import pathlib
import re
import struct
import sys
import zlib

import numpy as np
import torch

import cases
import rows_image, rows_linalg, rows_loss, rows_math, rows_more, rows_norm, rows_reduce, rows_shape, rows_sums  # noqa: E401, F401 (they fill cases.ROWS)

HERE = pathlib.Path(__file__).resolve().parent
FLOATING = (torch.float64, torch.float32)


# --- numbers ---


def block(values, bits, code):
    """Codes n of n 2^e with the least e for which they fit, or None when something is lost beyond half a code."""
    top = np.frexp(np.abs(values).max())[1]
    e = int(top) - (bits - 2)
    codes = np.round(np.ldexp(values, -e))
    return struct.pack("<h", e) + codes.astype(code).tobytes(), np.array_equal(np.ldexp(codes, e), values)


def packed(values, whole=False):
    values = np.ravel(values)
    if values.dtype.kind in "iub":
        return b"\3" + b"".join(varint(int(v)) for v in values)
    if whole or not np.isfinite(values).all():
        return b"\2" + values.astype("<f8").tobytes()
    if not values.any():
        return b"\0"
    short, exact = block(values, 16, "<i2")
    return b"\4" + short if exact else b"\1" + block(values, 32, "<i4")[0]


def varint(n):
    n = n << 1 if n >= 0 else (-n << 1) - 1
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


# --- one case ---


def numbers(t, like=None):
    return packed(np.zeros(like.shape) if t is None else cases.array(t))


def derivatives(spec, salt, xs, ys):
    """J^T v and the derivatives of <J^T v, w> by inputs and cotangents, packed."""
    inputs = [(i, x) for i, x in enumerate(xs) if x is not None and x.dtype in FLOATING]
    vs = [(y, torch.tensor(cases.draw("n", tuple(y.shape), salt, 32 + o)).requires_grad_()) for o, y in enumerate(ys) if y.dtype in FLOATING]
    ws = [torch.tensor(cases.draw("n", tuple(x.shape), salt, 64 + i)) for i, x in inputs]
    of = [x for _, x in inputs]
    used = [(y, v.to(y.dtype)) for y, v in vs if y.requires_grad]
    g = [None] * len(of)
    if used:
        g = torch.autograd.grad([y for y, _ in used], of, [v for _, v in used], create_graph=spec.depth == "2", allow_unused=True)
    out = b"".join(numbers(a, x) for a, x in zip(g, of))
    if spec.depth != "2":
        return out
    total = sum(((a * w).sum() for a, w in zip(g, ws) if a is not None), torch.zeros((), dtype=torch.float64))
    by = of + [v for _, v in vs]
    second = torch.autograd.grad(total, by, allow_unused=True) if total.requires_grad else [None] * len(by)
    return out + b"".join(numbers(a, x) for a, x in zip(second, by))


TYPES = {torch.float64: "f", torch.float32: "s", torch.int64: "i", torch.uint8: "u", torch.bool: "b"}


def attribute(name, value):
    if isinstance(value, bool):
        return f"{name}:b={int(value)}"
    if isinstance(value, int):
        return f"{name}:i={value}"
    if isinstance(value, float):
        return f"{name}:r={value!r}"
    if isinstance(value, str):
        return f"{name}:t={value}"
    if value and isinstance(value[0], float):
        return f"{name}:v={','.join(map(repr, value))}"
    return f"{name}:l={','.join(map(str, value))}"


def computed(name, number, spec, function):
    """The line and the numbers of one case."""
    salt = cases.salt_of(name, number)
    xs = [cases.tensor(x, salt, i) for i, x in enumerate(spec.inputs)]
    ys = function(spec.attrs, *xs)
    ys = ys if isinstance(ys, (tuple, list)) else (ys,)
    types = ["d" if spec.attrs.get("dtype") == "f64" else TYPES[y.dtype] for y in ys]
    data = b"".join(packed(cases.array(y), spec.depth == "x") for y in ys)
    if spec.depth in "12":
        data += derivatives(spec, salt, xs, ys)
    words = ["case", spec.depth, str(salt)] + [attribute(k, v) for k, v in spec.attrs.items()]
    words += ["|"] + ["-" if x is None else x.word() for x in spec.inputs]
    words += ["|"] + [t + ":" + "x".join(map(str, y.shape)) for t, y in zip(types, ys)]
    return " ".join(words), data


def main():
    wanted = [a for a in sys.argv[1:] if not a.startswith("-")]
    check = "--check" in sys.argv or bool(wanted)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    registry = re.findall(r"^\s+X\((\w+)\)", (HERE / "../../core/ops/list.h").read_text(), re.M)
    for name in sorted(set(cases.ROWS) - set(registry)):
        print(f"no row of the registry: {name}")
    print("without cases:", *[name for name in registry if name not in cases.ROWS])
    lines, data, sizes, failed = [f"# PyTorch {torch.__version__}, numpy {np.__version__}, float64"], [], [], 0
    for name in wanted or registry:
        if name not in cases.ROWS:
            continue
        function, specs = cases.ROWS[name]
        if len(specs) < 20:
            print(f"{name}: only {len(specs)} cases")
        lines.append(f"op {name}")
        before = len(data)
        for number, spec in enumerate(specs):
            try:
                line, one = computed(name, number, spec, function)
            except Exception as error:  # a case that PyTorch refuses: shown with its place, the others go on
                print(f"{name}, case {number} {spec.attrs} {[x and x.word() for x in spec.inputs]}: {type(error).__name__}: {error}")
                failed += 1
                continue
            lines.append(line)
            data.append(one)
        sizes.append((sum(map(len, data[before:])), name))
    text = ("\n".join(lines) + "\n").encode()
    body = struct.pack("<I", len(text)) + text + b"".join(data)
    # The checksum covers all that follows it.
    content = b"EGGOLD1\n" + struct.pack("<I", zlib.crc32(body)) + body
    file = lzma.compress(content, preset=9)
    print(f"{len(data)} cases of {len(sizes)} rows, {len(content)} bytes, packed {len(file)}; largest:", *sorted(sizes)[-6:])
    if failed:
        sys.exit(f"{failed} cases could not be computed")
    if not check:
        (HERE / "pytorch.golden").write_bytes(file)


main()
