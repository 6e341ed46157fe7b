"""The gradients that docs/ops.md prints: docs/ops/gradients.txt against the tape, on every row's samples.

A formula is a NumPy expression. It may use the row's inputs (None where one is not given), outputs and attributes by
name, the cotangent `g` (g_NAME where a row has several outputs) and the names that names_for() adds.
"""

import inspect
import math
import re
from pathlib import Path

import equigrad as eg
import numpy as np
import pytest

FILE = Path(__file__).parents[2] / "docs" / "ops" / "gradients.txt"
AUXILIARY = "Auxiliary"


class Entry:
    def __init__(self, topic):
        self.topic, self.formulas, self.lets, self.why = topic, {}, [], ""


def entries():
    """{row: what the file says of it}."""
    found, topic = {}, None
    for line in FILE.read_text().split("\n"):
        if line.startswith("== "):
            topic = line[3:].split(":")[0]
        elif line.startswith("-- "):
            entry = found[line[3:]] = Entry(topic)
        elif line.startswith("let: "):
            entry.lets.append(line[5:])
        elif line.startswith("why: "):
            entry.why = line[5:]
        elif formula := re.fullmatch(r"(\w+): (.*) ;; (.*)", line):
            entry.formulas[formula[1]] = formula[3]
        else:
            assert line == "" or line.startswith(("#", "  ")), line
    return found


ENTRIES = entries()
WITH_FORMULAS = [name for name, entry in ENTRIES.items() if entry.formulas]


def numpy_of(x):
    if not isinstance(x, eg.Tensor):
        return x
    return np.array(x.to("f32") if str(x.dtype) == "bf16" else x)


def has_gradient(x):
    return isinstance(x, eg.Tensor) and str(x.dtype) in ("f32", "f64")


def elementwise(function):
    return lambda x: np.vectorize(function, otypes=[float])(x) if np.size(x) else np.zeros_like(x)


def summed_to(value, shape):
    """A gradient of the broadcast shape as one of the input's."""
    value = np.asarray(value, dtype=float)
    extra = value.ndim - len(shape)
    value = value.sum(tuple(range(extra))) if extra > 0 else value
    return value.sum(tuple(i for i, n in enumerate(shape) if n == 1 and value.shape[i] != 1), keepdims=True)


def names_for(row, inputs, attributes, scope):
    """What formulas use beside inputs, outputs, attributes and cotangents."""
    x = next(v for v in inputs if isinstance(v, (np.ndarray, np.generic)))
    y = scope.get("y")
    axes = attributes.get("axes") if "axes" in attributes else [attributes["axis"]] if "axis" in attributes else None
    over = tuple(sorted(a % max(x.ndim, 1) for a in axes)) if axes else tuple(range(x.ndim))

    def wide(v):
        """A reduced tensor with the reduced axes in their places, of extent 1."""
        return np.asarray(v).reshape([1 if i in over else n for i, n in enumerate(x.shape)])

    def at(index):
        """1 at the index along `axis`, else 0."""
        return np.moveaxis(np.eye(x.shape[axes[0]])[index], -1, axes[0])

    def share(g, x):
        """The cotangent of one element's loss."""
        parts = {"mean": x.size, "batchmean": x.shape[0] if x.ndim else 1}.get(attributes["reduction"], 1)
        return g / max(parts, 1)

    def transposed(x):
        """A^T g of the linear map y = A x, column by column: <g, A e_k>, by the row's reference in plain loops."""
        k = next(i for i, v in enumerate(inputs) if v is x)

        def reference(v):
            given = [None if w is None else eg.tensor(np.ascontiguousarray(v if i == k else w)) for i, w in enumerate(inputs)]
            return np.array(eg.testing.reference(row, given, **attributes)[0])

        result, zero = np.zeros(x.shape), reference(np.zeros(x.shape))
        for place in np.ndindex(x.shape):
            unit = np.zeros(x.shape)
            unit[place] = 1
            result[place] = (scope["g"] * (reference(unit) - zero)).sum()
        return result

    return {
        "np": np,
        "over": over,
        "N": x.size / max(np.size(y), 1) if y is not None else 0,
        "wide": wide,
        "at": at,
        "share": share,
        "transposed": transposed,
        "sigmoid": lambda v: np.exp(-np.logaddexp(0, -v)),
        "Phi": elementwise(lambda v: 0.5 * math.erfc(-v / math.sqrt(2))),
        "phi": lambda v: np.exp(-0.5 * v * v) / math.sqrt(2 * math.pi),
    }


def by_formula(row, entry, inputs, attributes, outputs, cotangents):
    """{input: its gradient by the file's formula}."""
    op = eg._core.find_op(row)
    complete = {name: attributes.get(name, default) for name, _, _, default, _ in op.attributes}
    given = [numpy_of(v) for v in inputs]
    scope = dict(complete)
    if op.variadic:
        scope[op.inputs[0][0]] = given
    else:
        given += [None] * (len(op.inputs) - len(given))
        scope.update(zip((name for name, _ in op.inputs), given))
    if op.variadic_outputs:
        scope["g_" + op.outputs[0]] = cotangents
    else:
        scope.update(zip(op.outputs, (numpy_of(v) for v in outputs)))
        public = op.outputs[: len(op.outputs) - op.auxiliary]
        names = ["g"] if len(public) == 1 else ["g_" + name for name in public]
        scope.update(zip(names, cotangents))
    scope.update(names_for(row, given, complete, scope))
    exec("\n".join(entry.lets), scope)
    return {name: eval(formula, scope) for name, formula in entry.formulas.items() if scope[name] is not None}


def by_tape(row, inputs, attributes, rng):
    """Outputs, their random cotangents, and the gradient by each input that has one, by place."""
    op = eg._core.find_op(row)
    with eg.Tape() as tape:
        outputs = eg.testing.call(row, inputs, attributes)
    public = outputs[: len(outputs) - op.auxiliary]
    cotangents = [rng.standard_normal(y.shape) if has_gradient(y) else None for y in public]
    flow = [(y, g) for y, g in zip(public, cotangents) if g is not None]
    assert flow, row
    places = [i for i, x in enumerate(inputs) if has_gradient(x)]
    wanted = tape.gradient(
        [y for y, _ in flow], [inputs[i] for i in places], [eg.tensor(g).to(y.dtype) for y, g in flow]
    )
    return outputs, cotangents, dict(zip(places, map(np.array, wanted)))


TIES = eg.tensor(np.array([[2.0, 3.0, 3.0], [0.0, -1.0, 0.0]]))
OTHERS = eg.tensor(np.array([[2.0, 1.0, 4.0], [0.0, 0.0, 0.0]]))
LAST = {"axis": -1}
# Calls at ties and kinks, which the rows' samples keep away from: there the formula says what the rule does.
AT_KINKS = {
    "abs": [([TIES], {})],
    "relu": [([TIES], {})],
    "leaky_relu": [([TIES], {})],
    "elu": [([TIES], {"alpha": 2.0})],
    "hardtanh": [([TIES], {"min_val": -1.0, "max_val": 2.0})],
    "clamp": [([TIES], {"min": -1.0, "max": 2.0})],
    "hardsigmoid": [([TIES], {}), ([-TIES], {})],
    "hardswish": [([TIES], {}), ([-TIES], {})],
    "reglu": [([TIES, OTHERS], {})],
    "maximum": [([TIES, OTHERS], {})],
    "minimum": [([TIES, OTHERS], {})],
    "amax": [([TIES], {"axes": [-1]}), ([TIES], {})],
    "amin": [([TIES], {"axes": [-1]}), ([TIES], {})],
    "max": [([TIES], LAST)],
    "min": [([TIES], LAST)],
    "max_with_index": [([TIES], LAST)],
    "min_with_index": [([TIES], LAST)],
    "norm": [([OTHERS], {"axes": [-1], "p": p}) for p in (1.0, 2.0, 3.0, math.inf)],
    "prod": [([TIES], {"axes": [-1]}), ([OTHERS], {})],
    "cumprod": [([TIES], LAST)],
    "l1_loss": [([TIES, OTHERS], {"reduction": "none"})],
    "smooth_l1_loss": [([TIES, OTHERS], {"reduction": "none", "beta": 1.0})],
    "huber_loss": [([TIES, OTHERS], {"reduction": "none", "delta": 1.0})],
    "sort": [([TIES], LAST)],
    "topk": [([TIES], {"k": 2, "axis": -1})],
}


def calls(row):
    """The row's samples, and what stands in AT_KINKS."""
    yield from eg.testing.samples(row)
    for inputs, attributes in AT_KINKS.get(row, []):
        yield inputs, attributes, "at a kink"


def errors(row, entry, rng):
    """(note, input, relative error, size of the gradient) of every gradient of every call."""
    op = eg._core.find_op(row)
    for inputs, attributes, note in calls(row):
        if not any(map(has_gradient, inputs)):
            continue
        outputs, cotangents, tape = by_tape(row, inputs, attributes, rng)
        formulas = by_formula(row, entry, inputs, attributes, outputs, cotangents)
        for place, wanted in tape.items():
            name = op.inputs[0 if op.variadic else place][0]
            if name not in formulas:  # only an input without a formula whose gradient is zero
                yield note, name, float(np.abs(wanted).max(initial=0) > 0), 0.0
                continue
            found = formulas[name][place] if op.variadic else formulas[name]
            found = summed_to(found, wanted.shape)
            assert found.shape == wanted.shape, (note, name)
            size = max(np.abs(wanted).max(initial=0), np.abs(found).max(initial=0))
            yield note, name, np.abs(wanted - found).max(initial=0) / max(size, 1e-3), size


@pytest.mark.parametrize("row", WITH_FORMULAS)
def test_formula(row, rng):
    compared = {}
    for note, name, error, size in errors(row, ENTRIES[row], rng):
        exact = row not in ("linear_bf16", "linear_int8", "dequantize_int8", "cast")  # these compute in f32
        assert error < (1e-9 if exact else 1e-5), f"{row}, {note}: {name} differs by {error:.1e}"
        compared[name] = max(compared.get(name, 0), size)
    # Every formula was compared with gradients that are not zero, so that another one would not have passed.
    assert {name for name, size in compared.items() if size > 1e-3} == set(ENTRIES[row].formulas)


@pytest.mark.parametrize("row", WITH_FORMULAS)
def test_a_formula_that_is_off_by_a_thousandth_fails(row, rng):
    entry = Entry("")
    entry.lets = ENTRIES[row].lets
    variadic = eg._core.find_op(row).variadic
    for name, formula in ENTRIES[row].formulas.items():
        entry.formulas = dict(ENTRIES[row].formulas)
        entry.formulas[name] = f"[1.001 * v for v in ({formula})]" if variadic else f"1.001 * ({formula})"
        assert any(input == name and error > 1e-4 for _, input, error, _ in errors(row, entry, rng)), name


@pytest.mark.parametrize(
    ("row", "name", "wrong"),
    [
        ("softmax", "x", "y * g"),
        ("layer_norm", "x", "r * (gh - m(gh))"),
        ("mul", "a", "g * a"),
        ("matmul", "a", "a * (g @ np.swapaxes(B, -1, -2) if not transpose_a else 1)"),
        ("amax", "x", "wide(g) * largest"),
        ("rotary", "x", "g"),
        ("cumsum", "x", "np.cumsum(g, axis)"),
    ],
)
def test_wrong_formulas_fail(row, name, wrong, rng):
    entry = Entry("")
    entry.lets, entry.formulas = ENTRIES[row].lets, {**ENTRIES[row].formulas, name: wrong}
    assert max(error for _, input, error, _ in errors(row, entry, rng) if input == name) > 1e-3


def test_every_row_has_its_entry_and_every_gradient_its_formula():
    assert sorted(ENTRIES) == sorted(eg._core.op_names())
    for name, entry in ENTRIES.items():
        op = eg._core.find_op(name)
        silent = any(f"- Gradient: {word}" in op.reference for word in ("none", "zero"))
        if entry.topic == AUXILIARY or silent:
            assert not entry.formulas and not entry.why, name
        else:
            assert entry.formulas and entry.why and op.has_gradient, name
        if name.endswith("_backward"):
            assert entry.topic == AUXILIARY
        names = {input for input, _ in op.inputs}
        assert set(entry.formulas) <= names, name


def test_the_reference_has_every_call_as_python_has_it():
    text = "".join(page.read_text() for page in (FILE.parent / "reference").glob("*.md"))
    for name in eg._core.op_names():
        listed, by_name = [], False
        for parameter in inspect.signature(getattr(eg.ops, name)).parameters.values():
            if parameter.kind is parameter.KEYWORD_ONLY and not by_name:
                listed.append("*")
                by_name = True
            required = parameter.default is parameter.empty
            listed.append(parameter.name if required else f"{parameter.name}={parameter.default!r}")
        assert f"- In Python: `eg.ops.{name}({', '.join(listed)})`\n" in text
