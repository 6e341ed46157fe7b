"""Pointwise rows: arithmetic, elementary functions, activations, comparisons, where and what is made of it."""

import math

import torch
import torch.nn.functional as nn

from cases import B, EXTREMES, F, I, SHAPES, V, In, array, layouts, row

aten = torch.ops.aten


def unary(name, f, draw="n", attrs=({},), extremes=EXTREMES, depth="2"):
    lay = layouts(name)
    cases = [(attrs[i % len(attrs)], [F(s, draw, lay(s))]) for i, s in enumerate(SHAPES)]
    if extremes:
        for a in attrs:
            cases.append((a, [V(extremes)], "x"))
            cases.append((a, [V([extremes[3:17]] * 2, "t")], "x"))
    row(name, f, cases, depth)


def plain(f):
    return lambda a, x: f(x)


for name, f, draw in [
    ("neg", torch.neg, "n"), ("exp", torch.exp, "n"), ("log", torch.log, "p"), ("sqrt", torch.sqrt, "p"), ("rsqrt", torch.rsqrt, "p"),
    ("tanh", torch.tanh, "n"), ("sigmoid", torch.sigmoid, "n"), ("relu", torch.relu, "k"), ("gelu", nn.gelu, "n"),
    ("gelu_tanh", lambda x: nn.gelu(x, approximate="tanh"), "n"), ("silu", nn.silu, "n"), ("abs", torch.abs, "k"),
    ("square", torch.square, "n"), ("reciprocal", torch.reciprocal, "k"), ("expm1", torch.expm1, "n"), ("log1p", torch.log1p, "p"),
    ("sign", torch.sign, "k"), ("floor", torch.floor, "o"), ("ceil", torch.ceil, "o"), ("trunc", torch.trunc, "o"),
    ("round", torch.round, "o"), ("quick_gelu", lambda x: x * torch.sigmoid(1.702 * x), "n"), ("log_sigmoid", nn.logsigmoid, "n"),
    ("mish", nn.mish, "n"), ("hardswish", nn.hardswish, "o"), ("hardsigmoid", lambda x: nn.relu6(x + 3.0) / 6.0, "o"), ("exp2", torch.exp2, "n"),
    ("log2", torch.log2, "p"), ("sin", torch.sin, "n"), ("cos", torch.cos, "n"), ("tan", torch.tan, "u"), ("atan", torch.atan, "n"),
    ("erf", torch.erf, "n"), ("erfc", torch.erfc, "n"),
]:
    none = name in ("sin", "cos", "tan", "gelu_tanh", "quick_gelu", "mish", "hardswish")
    unary(name, plain(f), draw, extremes=() if none else EXTREMES[:-1] if name == "sign" else EXTREMES)

# The second derivative of abs, and of the norms and losses made of it, is 0 off zero: a tensor without storage (cases.array).
x = torch.tensor([-1.25, 0.5], dtype=torch.float64, requires_grad=True)
(slope,) = torch.autograd.grad(torch.abs(x), x, torch.ones_like(x, requires_grad=True), create_graph=True)
assert not array(torch.autograd.grad(slope.sum(), x)[0]).any()

unary("affine", lambda a, x: a.get("scale", 1.0) * x + a.get("shift", 0.0), "n",
      ({"scale": -1.75, "shift": 0.5}, {"scale": 3.0}, {"shift": -2.25}), extremes=())
unary("clamp", lambda a, x: torch.clamp(x, a.get("min"), a.get("max")), "o", ({"min": -1.0, "max": 1.5}, {"max": 0.5}, {"min": 0.0}))
unary("hardtanh", lambda a, x: nn.hardtanh(x, a.get("min_val", -1.0), a.get("max_val", 1.0)), "o", ({}, {"min_val": -0.5, "max_val": 2.0}))
unary("leaky_relu", lambda a, x: nn.leaky_relu(x, a.get("negative_slope", 0.01)), "k", ({"negative_slope": 0.25}, {}))
unary("elu", lambda a, x: nn.elu(x, a.get("alpha", 1.0)), "k", ({}, {"alpha": 1.75}))
unary("softplus", lambda a, x: nn.softplus(x, a.get("beta", 1.0), a.get("threshold", 20.0)), "o",
      ({}, {"beta": 2.5}, {"beta": 2.0, "threshold": 3.0}))
unary("pow_scalar", lambda a, x: torch.pow(x, a["exponent"]), "p",
      ({"exponent": 2.0}, {"exponent": -1.5}, {"exponent": 3.0}, {"exponent": 0.5}, {"exponent": 1.0}, {"exponent": 0.0}), extremes=())


# Shapes of pairs that broadcast.
PAIRS = [((3, 5), (3, 5)), ((3, 5), (5,)), ((5,), (3, 5)), ((4, 1), (1, 6)), ((), (2, 3)), ((2, 3), ()), ((), ()), ((2, 1, 3), (4, 1)),
         ((0,), (1,)), ((3, 0), (3, 1)), ((1,), (7,)), ((7,), (7,)), ((2, 2, 2, 2), (2, 1, 2)), ((1, 1), (3, 3)), ((13,), (13,)),
         ((2, 3, 4), (2, 3, 4)), ((2, 3, 4), (3, 1)), ((9, 1), (9, 2)), ((1, 5), (4, 5)), ((17,), (1,)), ((2, 5), (2, 5)), ((4, 3), (1, 3))]
PAIR_EXTREMES = [[a, b] for a in (0.0, 2.0**-130, 1.5, -3.0, 2.0**100, -(2.0**120), math.inf, -math.inf, math.nan)
                 for b in (-0.0, 2.0**-130, -0.5, 3.0, 2.0**90, math.inf, -math.inf, math.nan)]


def binary(name, f, draws=("n", "n"), extremes=True, depth="2", cases=()):
    lay = layouts(name)
    cases = [({}, [F(a, draws[0], lay(a)), F(b, draws[1], lay(b))]) for a, b in PAIRS] + list(cases)
    if extremes:
        a, b = ([p[i] for p in PAIR_EXTREMES] for i in (0, 1))
        cases += [({}, [V(a), V(b)], "x"), ({}, [V([a[:8]] * 2, "t"), V([b[:8]] * 2, "s")], "x")]
    row(name, lambda a, x, y: f(x, y), cases, depth)


binary("add", torch.add)
binary("sub", torch.sub)
binary("mul", torch.mul)
binary("div", torch.div, ("n", "k"))
binary("minimum", torch.minimum, ("n", "o"))
binary("maximum", torch.maximum, ("n", "o"), cases=[({}, [V([1.0, 2.0, -1.0]), V([1.0, 0.5, -1.0])])])


def power(x, y):
    """torch.pow loses the gradient's derivative by exponents that are 0: composed there, its values compared with torch's."""
    if (y != 0).all():
        return torch.pow(x, y)
    z = torch.exp(y * torch.log(x))
    assert torch.allclose(z, torch.pow(x, y), rtol=1e-14, atol=0)
    return z


binary("pow", power, ("p", "n"), extremes=False, cases=[({}, [V([0.5, 1.75, 2.0]), V([0.0, 0.0, -1.0])])])


DIVISORS = [1.5, -1.25, 0.75, 2.5, -3.5]
for name, f in (("fmod", torch.fmod), ("remainder", torch.remainder)):
    lay = layouts(name)
    row(name, lambda a, x, y, f=f: f(x, y), [
        ({}, [F(s, "o", lay(s)), V([[DIVISORS[(i + j) % 5]] for j in range(s[-2])] if i % 2 else DIVISORS[i % 5])] if len(s) > 1 else
         [F(s, "o", lay(s)), V(DIVISORS[i % 5])]) for i, s in enumerate(SHAPES)])


# --- backward rows ---


def with_cotangent(name, f, draw, attrs=({},)):
    """(saved or input, g) of one shape."""
    lay = layouts(name)
    row(name, f, [(attrs[i % len(attrs)], [F(s, draw, lay(s)), F(s, "n", lay(s))]) for i, s in enumerate(SHAPES)])


def pulled_back(f):
    """(x, g) -> J^T g by PyTorch's own autograd."""
    return lambda a, x, g: torch.autograd.grad(f(x), x, g, create_graph=True)


with_cotangent("tanh_backward", lambda a, t, g: aten.tanh_backward(g, t), "u")
with_cotangent("sigmoid_backward", lambda a, s, g: aten.sigmoid_backward(g, s), "u")
with_cotangent("relu_backward", lambda a, r, g: aten.threshold_backward(g, r, 0), "k")
with_cotangent("gelu_backward", pulled_back(nn.gelu), "n")
with_cotangent("gelu_tanh_backward", pulled_back(lambda x: nn.gelu(x, approximate="tanh")), "n")
with_cotangent("silu_backward", pulled_back(nn.silu), "n")
with_cotangent("hardswish_backward", pulled_back(nn.hardswish), "o")
with_cotangent("logit_loss", lambda a, x, t: nn.binary_cross_entropy_with_logits(x, t, reduction="none"), "n")

# Gated linear units: torch's glu takes both halves in one tensor, (up, gate).
GATES = {"glu": lambda a, gate, up: nn.glu(torch.cat([up, gate], -1), -1) if gate.dim() else torch.sigmoid(gate) * up,
         "reglu": lambda a, gate, up: torch.relu(gate) * up,
         "swiglu": lambda a, gate, up: nn.silu(gate) * up,
         "geglu": lambda a, gate, up: nn.gelu(gate, approximate="tanh" if a.get("approximate") else "none") * up}
for name, f in GATES.items():
    lay = layouts(name)
    attrs = [{}, {"approximate": True}] if name == "geglu" else [{}]
    shapes = [s for s in SHAPES if len(s)]
    row(name, f, [(attrs[i % len(attrs)], [F(s, "k", lay(s)), F(s, "n", lay(s))]) for i, s in enumerate(shapes)])
    row(name + "_backward", lambda a, gate, up, g, f=f: torch.autograd.grad(f(a, gate, up), [gate, up], g, create_graph=True),
        [(attrs[i % len(attrs)], [F(s, "k", lay(s)), F(s, "n", lay(s)), F(s, "n", lay(s))]) for i, s in enumerate(shapes)])


# --- comparisons and logic ---

for name in ("eq", "ne", "lt", "le", "gt", "ge"):
    f = getattr(torch, name)
    lay = layouts(name)
    row(name, lambda a, x, y, f=f: f(x, y),
        [({}, [I(s, -2, 3, lay(s)), I(t, -2, 3, lay(t))] if i % 3 == 1 else
          [F(s, "=" + ",".join(str(float((7 * k + i) % 5 - 2)) for k in range(math.prod(s))), lay(s)), F(t, "o", lay(t))] if i % 3 == 2 else
          [F(s, "=" + ",".join(str(float((7 * k + i) % 3 - 1)) for k in range(math.prod(s))), lay(s)),
           F(t, "=" + ",".join(str(float((5 * k + i) % 3 - 1)) for k in range(math.prod(t))), lay(t))]) for i, (s, t) in enumerate(PAIRS)]
        + [({}, [V([p[i] for p in PAIR_EXTREMES]) for i in (0, 1)])], "v")
for name in ("logical_and", "logical_or", "logical_xor"):
    lay = layouts(name)
    row(name, lambda a, x, y, f=getattr(torch, name): f(x, y), [({}, [B(s, lay(s)), B(t, lay(t))]) for s, t in PAIRS], "v")
row("logical_not", lambda a, x: torch.logical_not(x), [({}, [B(s, layouts("not")(s))]) for s in SHAPES], "v")
for name in ("isnan", "isinf", "isfinite"):
    lay = layouts(name)
    special = [0.0, math.inf, -1.5, math.nan, -math.inf, 2.0**127]
    row(name, lambda a, x, f=getattr(torch, name): f(x),
        [({}, [F(s, "=" + ",".join(str(special[(i + 5 * k) % 6]) for k in range(math.prod(s))), lay(s))]) for i, s in enumerate(SHAPES)], "v")

# --- of three ---

TRIPLES = [((3, 5), (3, 5), (3, 5)), ((3, 5), (5,), (3, 1)), ((5,), (3, 5), ()), ((4, 1), (1, 6), (6,)), ((), (2, 3), (2, 1)), ((), (), ()),
           ((2, 1, 3), (4, 1), (1, 1, 3)), ((0,), (1,), (0,)), ((3, 0), (3, 1), ()), ((1,), (7,), (7,)), ((7,), (7,), (1,)),
           ((2, 2, 2, 2), (2, 1, 2), (2,)), ((1, 1), (3, 3), (3, 1)), ((13,), (13,), (13,)), ((2, 3, 4), (2, 3, 4), (4,)),
           ((2, 3, 4), (3, 1), (2, 1, 1)), ((9, 1), (9, 2), (2,)), ((1, 5), (4, 5), (4, 1)), ((17,), (1,), (17,)), ((2, 5), (2, 5), (2, 5)),
           ((4, 3), (1, 3), (4, 1)), ((6,), (6,), ())]


def ternary(name, f, draws, attrs=({},)):
    lay = layouts(name)
    row(name, f, [(attrs[i % len(attrs)], [F(s, d, lay(s)) for s, d in zip(t, draws)]) for i, t in enumerate(TRIPLES)])


ternary("lerp", lambda a, x, y, w: torch.lerp(*torch.broadcast_tensors(x, y, w)), ("n", "n", "u"))
ternary("addcmul", lambda a, x, y, z: torch.addcmul(x, y, z, value=a.get("value", 1.0)), ("n", "n", "n"), ({}, {"value": -1.5}))
ternary("addcdiv", lambda a, x, y, z: torch.addcdiv(x, y, z, value=a.get("value", 1.0)), ("n", "n", "k"), ({}, {"value": 0.75}))
lay = layouts("where")
row("where", lambda a, c, x, y: torch.where(c, x, y), [({}, [B(c, lay(c)), F(x, "n", lay(x)), F(y, "n", lay(y))]) for c, x, y in TRIPLES]
    + [({}, [B((2, 3)), I((2, 3), 0, 9), I((3,), 0, 9)], "v")])
row("masked_fill", lambda a, x, m: x.masked_fill(m, a["value"]),
    [({"value": 0.5 * i - 3.0}, [F(a, "n", lay(a)), B(b, lay(b))]) for i, (a, b) in enumerate(PAIRS) if torch.broadcast_shapes(a, b) == torch.Size(a)]
    + [({"value": -math.inf} if i == 0 else {"value": 1.25 * i}, [F(s, "n", lay(s)), B(s, lay(s))]) for i, s in enumerate(SHAPES[2:13])])
row("lerp_scalar", lambda a, x, y: torch.lerp(*torch.broadcast_tensors(x, y), a["weight"]),
    [({"weight": w}, [F(s, "n", lay(s)), F(t, "n", lay(t))]) for (s, t), w in zip(PAIRS, (i / 16 - 0.3 for i in range(99)))])
