"""Softmax, attention, normalisation, rotary embedding."""

import math

import torch
import torch.nn.functional as nn

from cases import B, F, I, SHAPES, V, In, layouts, row
from rows_reduce import INF, NAN, ONE_AXIS, one_axis

aten = torch.ops.aten

# --- softmax ---

LOGITS = [[[2.0**100, 1.0, -5.0], [800.0, 800.0, 799.0], [-800.0, -801.0, -800.0]], [[2.0**-140, -(2.0**-140), 0.0], [INF, 1.0, 2.0], [NAN, 1.0, 2.0]],
          [[-INF, 0.0, 3.0], [88.0, -88.0, 0.0], [1.0, 1.0, 1.0]]]
one_axis("softmax", lambda a, x: torch.softmax(x, a["axis"]), "n", keepdim=False, extremes=LOGITS)
one_axis("log_softmax", lambda a, x: torch.log_softmax(x, a["axis"]), "n", keepdim=False, extremes=LOGITS)
for name, f, draw in (("softmax_backward", aten._softmax_backward_data, "u"), ("log_softmax_backward", aten._log_softmax_backward_data, "n")):
    lay = layouts(name)
    one_axis(name, lambda a, y, g, f=f: f(g, y, a["axis"], torch.float64), keepdim=False, inputs=lambda s, d=draw: [F(s, d, lay(s)), F(s, "n", lay(s))])


def seen(rows, columns, causal, mask, x):
    """Scores with what may not be seen at -inf."""
    if mask is not None:
        x = x.masked_fill(~mask, -INF) if mask.dtype == torch.bool else x + mask
    if causal:
        x = x.masked_fill(~torch.ones(rows, columns, dtype=torch.bool).tril(columns - rows), -INF)
    return x


def mask_pattern(shape, i):
    """Truth values of which every row has some that are true."""
    return B(shape, values=[float((3 * k + i) % 4 != 0 or k % shape[-1] == 0) for k in range(math.prod(shape))])


SCORES = [((3, 4), (3, 4)), ((3, 3), (3,)), ((2, 3, 3), (3, 3)), ((2, 2, 5), (2, 1, 5)), ((1, 1), (1, 1)), ((1, 7), (7,)), ((2, 2, 2, 3), (2, 1, 1, 3)), ((4, 4), (4, 4)), ((2, 9), (9,)), ((3, 5), (3, 1)), ((5, 5), (1, 5))]
lay = layouts("masked_softmax")
calls = []
for i, (s, m) in enumerate(SCORES):
    calls.append(({}, [F(s, "n", lay(s)), F(m, "n", lay(m))]))
    calls.append(({}, [F(s, "n", lay(s)), mask_pattern(m, i)]))
    if s[-1] >= s[-2]:
        calls.append(({"causal": True}, [F(s, "n", lay(s)), F(m, "n", lay(m)) if i % 2 else None]))
row("masked_softmax", lambda a, x, mask=None: torch.softmax(seen(*x.shape[-2:], a.get("causal"), mask, x), -1), calls)

# --- attention ---


def scale_of(a, d):
    return a.get("scale", 0.0) or 1.0 / math.sqrt(d)


def scores(a, q, k, mask):
    k = k.repeat_interleave(q.shape[-3] // k.shape[-3], -3) if q.dim() > 2 and k.shape[-3] != q.shape[-3] else k
    return seen(q.shape[-2], k.shape[-2], a.get("causal"), mask, scale_of(a, q.shape[-1]) * q @ k.mT)


def attention(a, q, k, v, mask=None):
    e = scores(a, q, k, mask)
    v = v.repeat_interleave(q.shape[-3] // v.shape[-3], -3) if q.dim() > 2 and v.shape[-3] != q.shape[-3] else v
    return torch.softmax(e, -1) @ v, torch.logsumexp(e, -1)


def attention_backward(a, q, k, v, y, lse, g, dlse=None, mask=None):
    """The formula of the row with y and lse as inputs of their own; check_backward holds it to autograd where they fit."""
    group = q.shape[-3] // k.shape[-3] if q.dim() > 2 else 1
    wide = [x.repeat_interleave(group, -3) if group > 1 else x for x in (k, v)]
    s = torch.exp(seen(q.shape[-2], k.shape[-2], a.get("causal"), mask, scale_of(a, q.shape[-1]) * q @ wide[0].mT) - lse.unsqueeze(-1))
    inner = g @ wide[1].mT - (g * y).sum(-1, keepdim=True) + (0 if dlse is None else dlse.unsqueeze(-1))
    de = s * inner
    dk, dv = scale_of(a, q.shape[-1]) * de.mT @ q, s.mT @ g
    if group > 1:
        dk, dv = (x.unflatten(-3, (-1, group)).sum(-3) for x in (dk, dv))
    dmask = de.sum_to_size(mask.shape) if a.get("mask_gradient") else q.new_zeros(0)
    return scale_of(a, q.shape[-1]) * de @ wide[0], dk, dv, dmask


# q, k, v
HEADS = [((3, 2), (4, 2), (4, 3)), ((1, 1), (1, 1), (1, 1)), ((2, 3), (2, 3), (2, 3)), ((2, 3, 2), (2, 4, 2), (2, 4, 2)), ((2, 2, 3, 2), (2, 2, 3, 2), (2, 2, 3, 1)), ((5, 1), (7, 1), (7, 2)), ((1, 4), (6, 4), (6, 1)),
         ((3, 3), (3, 3), (3, 5)), ((4, 2, 2), (2, 3, 2), (2, 3, 2)), ((1, 2, 2, 2), (1, 1, 3, 2), (1, 1, 3, 3)), ((0, 2), (3, 2), (3, 2))]
lay = layouts("attention")


def attention_calls(extra):
    calls = []
    for i, (q, k, v) in enumerate(HEADS):
        for j in (0, 1, 2):
            a = {} if (i + j) % 3 else {"scale": 0.75}
            mask = [None, F((q[-2], k[-2]), "n", "t"), None if i % 2 else mask_pattern((q[-2], k[-2]), i)][j] if q[-2] else None
            if j == 2 and k[-2] >= q[-2] and (mask is None or i % 3):
                a, mask = {**a, "causal": True}, None if mask is None or mask.type == "b" else mask
            if q[-2] == 0 and j:
                continue
            given = [F(s, "n", lay(s)) for s in (q, k, v)]
            calls.append((a, given + extra(i, a, q, k, v, mask)))
    return calls


def backward_extra(i, a, q, k, v, mask):
    lse = In(q[:-1], "p", lay(q[:-1]))
    y = q[:-1] + v[-1:]
    if mask is not None and mask.type == "f":
        a["mask_gradient"] = i % 2 == 0
    return [F(y, "n", lay(y)), lse, F(y, "n", lay(y)), F(q[:-1], "n", lay(q[:-1])) if i % 2 else None, mask]


row("scaled_dot_product_attention", attention, attention_calls(lambda i, a, q, k, v, mask: [mask]))
row("scaled_dot_product_attention_backward", attention_backward, attention_calls(backward_extra))


def heads_of(a, x, parts):
    return [p.transpose(-2, -3) for p in x.unflatten(-1, (parts, a["heads"], -1)).unbind(-3)]


def flat(x):
    return x.transpose(-2, -3).flatten(-2)


def attention_qkv(a, qkv, mask=None):
    y, lse = attention(a, *heads_of(a, qkv, 3), mask)
    return flat(y), lse


def attention_qkv_backward(a, qkv, y, lse, g, dlse=None, mask=None):
    q, k, v = heads_of(a, qkv, 3)
    (y,), (g,) = heads_of(a, y, 1), heads_of(a, g, 1)
    *grads, dmask = attention_backward(a, q, k, v, y, lse, g, dlse, mask)
    return torch.cat([flat(x) for x in grads], -1), dmask


QKV = [((3, 6), 1), ((3, 6), 2), ((1, 3), 1), ((2, 2, 6), 2), ((2, 3, 6), 1), ((5, 3), 1), ((2, 12), 2), ((2, 2, 2, 6), 1), ((1, 4, 6), 2), ((4, 3), 1), ((2, 9), 3), ((3, 12), 4)]
calls, back = [], []
for i, (s, heads) in enumerate(QKV):
    t, d = s[-2], s[-1] // 3
    for j in (0, 1):
        a = {"heads": heads, **({"scale": 0.5} if i % 3 == 0 else {}), **({"causal": True} if (i + j) % 3 == 0 else {})}
        mask = None if j == 0 else mask_pattern((t, t), i) if i % 2 and not a.get("causal") else F((t, t), "n", "t") if i % 4 else F((heads, 1, t), "n", "s")
        y, lse = s[:-1] + (d,), s[:-2] + (heads, t)
        calls.append((a, [F(s, "n", lay(s)), mask]))
        b = dict(a)
        if mask is not None and mask.type == "f":
            b["mask_gradient"] = i % 4 != 1
        back.append((b, [F(s, "n", lay(s)), F(y, "n", lay(y)), In(lse, "p", lay(lse)), F(y, "n", lay(y)), F(lse, "n", lay(lse)) if i % 2 else None, mask]))
row("attention_qkv", attention_qkv, calls)
row("attention_qkv_backward", attention_qkv_backward, back)


def check_backward():
    """The formula that is differentiated above is PyTorch's own gradient where y and lse come from q, k and v."""
    torch.manual_seed(1)
    for causal in (False, True):
        q, k, v, mask = (torch.randn(*s, dtype=torch.float64, requires_grad=True) for s in ((4, 3, 2), (2, 3, 2), (2, 3, 5), (3, 3)))
        a = {"causal": causal, "mask_gradient": True}
        y, lse = attention(a, q, k, v, mask)
        g, dlse = torch.randn_like(y), torch.randn_like(lse)
        right = torch.autograd.grad([y, lse], [q, k, v, mask], [g, dlse])
        for r, f in zip(right, attention_backward(a, q, k, v, y, lse, g, dlse, mask)):
            assert torch.allclose(r, f, rtol=1e-12, atol=1e-13)


check_backward()

# --- normalisation ---

ROWS_OF = [(3, 5), (5, 3), (2, 3, 4), (7,), (2,), (1, 9), (9, 2), (2, 2, 2, 2), (4, 6), (17,), (13,), (3, 7), (2, 5, 2), (6,), (23,), (2, 1, 5), (0, 3), (1, 3, 1, 4), (2, 11), (8, 2), (3, 3), (2, 8), (5, 4)]


def parameters(s, i, count):
    """gamma and beta by turns given and not."""
    return [F(s, "k", "s") if (i + j) % 3 else None for j in range(count)]


EPS = ({}, {"eps": 1e-3}, {"eps": 0.25})
lay = layouts("norms")


def gain(gamma, beta):
    """1 where only beta is given, which PyTorch does not differentiate twice."""
    return torch.ones_like(beta) if gamma is None and beta is not None else gamma


def layer_norm(a, x, gamma=None, beta=None):
    gamma = gain(gamma, beta)
    return nn.layer_norm(x, x.shape[-1:], gamma, beta, a.get("eps", 1e-5))


def rms_norm(a, x, gamma=None):
    y = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + a.get("eps", 1e-6))
    return y if gamma is None else y * gamma


def slow_layer_norm(a, x, gamma=None, beta=None):
    """The same of elementary operations: PyTorch does not differentiate its own three times."""
    c = x - x.mean(-1, keepdim=True)
    y = c * torch.rsqrt(c.square().mean(-1, keepdim=True) + a.get("eps", 1e-5))
    y = y if gamma is None else y * gamma
    return y if beta is None else y + beta


def backward_of(f, count, parameter_shape=lambda x: x.shape[-1:]):
    """(x, gamma, g) -> gradients of x and of `count` parameters (of ones and zeros where they are not given)."""

    def g(a, x, gamma, g):
        scale = torch.ones(parameter_shape(x), dtype=torch.float64, requires_grad=True) if gamma is None else gamma
        more = [torch.zeros(parameter_shape(x), dtype=torch.float64, requires_grad=True) for _ in range(count - 1)]
        grads = torch.autograd.grad(f(a, x, scale, *more), [x, scale] + more, g, create_graph=True)
        return grads if a.get("parameters", True) else (grads[0],) + tuple(x.new_zeros(0) for _ in range(count))

    return g


row("layer_norm", layer_norm, [(EPS[i % 3], [F(s, "n", lay(s))] + parameters(s[-1:], i, 2)) for i, s in enumerate(ROWS_OF)])
row("rms_norm", rms_norm, [(EPS[i % 3], [F(s, "n", lay(s))] + parameters(s[-1:], i, 1)) for i, s in enumerate(ROWS_OF)])
for name, f, count in (("layer_norm_backward", slow_layer_norm, 2), ("rms_norm_backward", rms_norm, 1)):
    row(name, backward_of(f, count), [({**EPS[i % 3], **({"parameters": False} if i % 4 == 3 else {})}, [F(s, "n", lay(s)), *parameters(s[-1:], i, 1), F(s, "n", lay(s))])
                                      for i, s in enumerate(ROWS_OF)])
x = torch.randn(3, 5, dtype=torch.float64)
assert torch.allclose(slow_layer_norm({}, x, x[0], x[1]), layer_norm({}, x, x[0], x[1]), rtol=1e-12, atol=1e-13)

CHANNELS = [(3, 2, 2), (2, 3), (4, 1, 2), (5, 2), (2, 2, 2, 2), (3, 1), (7, 2), (2, 2, 5), (1, 3, 4), (2, 1, 3, 3), (9, 1), (1, 2, 2, 3), (4, 4), (2, 5), (6, 3), (3, 2, 3), (13, 1), (1, 1, 7), (8, 2), (2, 4, 2), (3, 3, 1), (5, 1, 3), (2, 2, 3)]


def channelwise(p, x):
    return p.reshape([-1] + [1] * (x.dim() - 2))


def batch_norm(a, x, gamma=None, beta=None):
    axes = [0] + list(range(2, x.dim()))
    return nn.batch_norm(x, None, None, gain(gamma, beta), beta, True, 0.0, a.get("eps", 1e-5)), x.mean(axes), x.var(axes, correction=0)


def slow_batch_norm(a, x, gamma, beta):
    axes = [0] + list(range(2, x.dim()))
    c = x - x.mean(axes, keepdim=True)
    return c * torch.rsqrt(c.square().mean(axes, keepdim=True) + a.get("eps", 1e-5)) * channelwise(gamma, x) + channelwise(beta, x)


def batch_norm_inference(a, x, mean, var, gamma=None, beta=None):
    """torch's batch_norm gives no gradients of given statistics; values are compared with it here."""
    y = (x - channelwise(mean, x)) * torch.rsqrt(channelwise(var, x) + a.get("eps", 1e-5))
    y = y if gamma is None else y * channelwise(gamma, x)
    y = y if beta is None else y + channelwise(beta, x)
    own = nn.batch_norm(x.detach(), mean.detach(), var.detach(), gamma, beta, False, 0.0, a.get("eps", 1e-5))
    assert torch.allclose(y, own, rtol=1e-12, atol=1e-13)
    return y


row("batch_norm", batch_norm, [(EPS[i % 3], [F(s, "n", lay(s))] + parameters(s[1:2], i, 2)) for i, s in enumerate(CHANNELS)])
row("batch_norm_backward", backward_of(slow_batch_norm, 2, lambda x: x.shape[1:2]),
    [({**EPS[i % 3], **({"parameters": False} if i % 4 == 3 else {})}, [F(s, "n", lay(s)), *parameters(s[1:2], i, 1), F(s, "n", lay(s))]) for i, s in enumerate(CHANNELS)])
row("batch_norm_inference", batch_norm_inference, [(EPS[i % 3], [F(s, "n", lay(s)), F(s[1:2], "n", "s"), F(s[1:2], "p", "s")] + parameters(s[1:2], i, 2)) for i, s in enumerate(CHANNELS)])
GROUPS = [((2, 4, 2), 2), ((2, 4, 2), 4), ((2, 4, 2), 1), ((1, 2, 3), 1), ((3, 2, 2), 2), ((2, 6), 3), ((2, 6), 1), ((1, 3, 2, 2), 1), ((1, 3, 2, 2), 3), ((2, 2, 5), 2), ((1, 8), 4), ((1, 8), 2), ((2, 2, 2, 2), 1), ((3, 5, 2), 5),
          ((3, 4, 1), 2), ((1, 1, 7), 1), ((1, 6, 2), 3), ((1, 6, 2), 2), ((2, 3, 3), 3), ((4, 2, 3), 1), ((1, 4, 5), 2), ((2, 9), 3)]
row("group_norm", lambda a, x, gamma=None, beta=None: nn.group_norm(x, a["groups"], gain(gamma, beta), beta, a.get("eps", 1e-5)),
    [({"groups": n, **EPS[i % 3]}, [F(s, "n", lay(s))] + parameters(s[1:2], i, 2)) for i, (s, n) in enumerate(GROUPS)])
row("instance_norm", lambda a, x, gamma=None, beta=None: nn.instance_norm(x, weight=gain(gamma, beta), bias=beta, eps=a.get("eps", 1e-5)),
    [(EPS[i % 3], [F(s, "n", lay(s))] + parameters(s[1:2], i, 2)) for i, s in enumerate(
        [(2, 2, 3), (1, 3, 2), (3, 1, 4), (2, 2, 2, 2), (1, 1, 7), (2, 3, 2), (1, 2, 3, 2), (4, 2, 2), (1, 5, 3), (2, 1, 9), (1, 1, 3, 3), (3, 3, 2), (1, 2, 5), (2, 4, 2), (1, 1, 2), (1, 4, 2, 2), (5, 1, 3), (2, 2, 4), (1, 3, 4), (3, 2, 3), (1, 1, 13),
         (2, 1, 2, 3)])])

# --- rotary embedding: pairs times rotation matrices ---


def rotary(a, x, positions):
    y = x.transpose(-2, -3) if a.get("heads_first") else x  # [.., T, heads, D]
    dims = a.get("dims", 0) or y.shape[-1]
    turned, rest = y[..., :dims], y[..., dims:]
    pairs = turned.unflatten(-1, (-1, 2)) if a.get("interleaved") else turned.unflatten(-1, (2, -1)).transpose(-1, -2)
    frequencies = a.get("base", 10000.0) ** (-torch.arange(0, dims, 2, dtype=torch.float64) / dims)
    if a.get("frequencies"):
        frequencies = torch.tensor(a["frequencies"], dtype=torch.float64)
    angle = positions.to(torch.float64).unsqueeze(-1) * frequencies
    c, d = torch.cos(angle).unsqueeze(-2), torch.sin(-angle if a.get("inverse") else angle).unsqueeze(-2)
    z = (pairs.unsqueeze(-2) * torch.stack([torch.stack([c, -d], -1), torch.stack([d, c], -1)], -2)).sum(-1)
    turned = z.flatten(-2) if a.get("interleaved") else z.transpose(-1, -2).flatten(-2)
    y = torch.cat([turned, rest], -1)
    return y.transpose(-2, -3) if a.get("heads_first") else y


TOKENS = [(3, 1, 2), (2, 2, 4), (1, 1, 2), (5, 1, 2), (2, 3, 2, 2), (2, 2, 1, 4), (1, 1, 8), (3, 2, 2), (4, 1, 6), (7, 1, 2), (2, 1, 10)]
calls = []
for i, s in enumerate(TOKENS * 2):
    a = {"interleaved": i % 2 == 1, "inverse": i % 5 == 0, **({"base": 100.0} if i % 3 == 0 else {}), **({"dims": 2} if i % 4 == 3 else {})}
    t = s[-3:-2]
    if i >= len(TOKENS):
        a["heads_first"] = True
        s = s[:-3] + (s[-2], s[-3], s[-1])
    calls.append((a, [F(s, "n", lay(s)), I(s[:-3] + t if i % 3 == 1 else t, -5, 40)]))
for s in [(3, 1, 2), (2, 2, 3, 6)]:
    calls.append(({"frequencies": [0.75, -0.3, 0.01][: s[-1] // 2], "interleaved": len(s) == 4}, [F(s, "n", lay(s)), I(s[-3:-2], -5, 40)]))
row("rotary", rotary, calls)
