#!/usr/bin/env python3
"""Times single calls of equigrad beside PyTorch's (eager): forward, and forward with the gradients of every float input.

    PYTHONPATH=build/release/python tests/bench/ops.py --rounds 5 --threads 1,2 --json ops.jsonl --table

A case is a name, its inputs, and the call in both libraries. Both run in one process, a few calls of one and then of
the other, in turns. The smallest time of each is what the machine allows; on a shared machine the ratio of medians says
how much to trust it. A further run into the same --json goes on with the cases that it lacks.
"""
import argparse
import gc
import json
import re
import statistics
import sys
import time
import warnings

import torch
import torch.nn.functional as F

import equigrad as eg

O = eg.ops


# --- the list of cases ---


class Case:
    """One call in both libraries; `grad`: with the gradients of the inputs numbered `diff` (None: of all floats)."""

    def __init__(self, name, make, ours, theirs, grad, diff):
        self.name = name + (" fwd+bwd" if grad else " fwd")
        self.make, self.ours, self.theirs, self.grad, self.diff = make, ours, theirs, grad, diff

    def calls(self):
        """Two functions without arguments: ours and theirs."""
        torch.manual_seed(0)
        made = self.make()
        x = list(made) if isinstance(made, (tuple, list)) else [made]
        ours_in = [eg.tensor(t) for t in x]
        if not self.grad:

            def theirs():
                with torch.no_grad():
                    return self.theirs(*x)

            return lambda: self.ours(*ours_in), theirs
        chosen = [i for i, t in enumerate(x) if t.is_floating_point() and (self.diff is None or i in self.diff)]
        theirs_in = [t.detach().requires_grad_() if i in chosen else t for i, t in enumerate(x)]
        shape_of = first(self.theirs(*theirs_in))
        cotangent = torch.randn(shape_of.shape, dtype=shape_of.dtype)
        ours_cotangent = eg.tensor(cotangent)

        def ours():
            with eg.Tape() as tape:
                y = first(self.ours(*ours_in))
            return tape.gradient_views(y, [ours_in[i] for i in chosen], ours_cotangent)  # PyTorch's are views too

        def theirs():
            y = first(self.theirs(*theirs_in))
            return torch.autograd.grad(y, [theirs_in[i] for i in chosen], cotangent)

        return ours, theirs


def first(y):
    return y[0] if isinstance(y, (tuple, list)) else y


cases = []


def both(name, make, ours, theirs, diff=None):
    """Forward, and forward with gradients."""
    forward(name, make, ours, theirs)
    cases.append(Case(name, make, ours, theirs, True, diff))


def forward(name, make, ours, theirs):
    cases.append(Case(name, make, ours, theirs, False, None))


def normal(*shapes):
    """A function that makes normal numbers of these shapes."""
    return lambda: [torch.randn(*s) for s in shapes]


def positive(*shape):
    return lambda: [torch.randn(*shape).abs() + 0.1]


def below(n, *shape):
    return torch.randint(0, n, shape)


big = (2048, 3072)
mid = (512, 768)
square = (1024, 1024)


def products():
    for n in (256, 512, 1024, 2048):
        (both if n <= 1024 else forward)(f"matmul {n}", normal((n, n), (n, n)), O.matmul, torch.matmul)
    forward("matmul NT 1024", normal(square, square), lambda a, b: O.matmul(a, b, transpose_b=True), lambda a, b: a @ b.mT)
    forward("matmul TN 1024", normal(square, square), lambda a, b: O.matmul(a, b, transpose_a=True), lambda a, b: a.mT @ b)
    for k, n in ((768, 768), (768, 3072), (3072, 768), (4096, 4096)):
        forward(f"matmul 1x{k}x{n}", normal((1, k), (k, n)), O.matmul, torch.matmul)
    for m, k, n in (
        (1, 768, 50257), (1, 768, 3072), (1, 4096, 4096), (4, 768, 3072), (16, 768, 3072), (128, 768, 768),
        (512, 768, 3072), (512, 3072, 768), (2048, 768, 768), (512, 768, 50257),
    ):
        add = both if m >= 16 and n < 50000 else forward
        add(f"linear {m}x{k}->{n}", normal((m, k), (n, k), (n,)), O.linear, F.linear)
    forward("matmul 4096x4096x1", normal((4096, 4096), (4096, 1)), O.matmul, torch.matmul)
    for t in (128, 512):
        keys = normal((12, t, 64), (12, t, 64))
        both(f"matmul batched 12x{t}x64 QK^T", keys, lambda a, b: O.matmul(a, b, transpose_b=True), lambda a, b: a @ b.mT)
        both(f"matmul batched 12x{t}x{t} AV", normal((12, t, t), (12, t, 64)), O.matmul, torch.matmul)
    both("matmul batched 96x64x64", normal((96, 64, 64), (96, 64, 64)), O.matmul, torch.matmul)
    both("linear_gelu 512x768->3072", normal(mid, (3072, 768), (3072,)), O.linear_gelu,
         lambda x, w, b: F.gelu(F.linear(x, w, b)))
    for m, k, n in ((1, 4096, 4096), (128, 768, 3072)):
        forward(f"linear bf16 weight {m}x{k}->{n}", lambda m=m, k=k, n=n: [torch.randn(m, k), torch.randn(n, k).bfloat16()],
                O.linear_bf16, lambda x, w: F.linear(x.bfloat16(), w))


def packed_attention(x, heads, causal):
    batch, length, width = x.shape
    q, k, v = x.view(batch, length, 3, heads, -1).permute(2, 0, 3, 1, 4)
    y = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    return y.transpose(1, 2).reshape(batch, length, width // 3)


def attention():
    ours, theirs = O.scaled_dot_product_attention, F.scaled_dot_product_attention
    for heads, lengths in ((8, (512,)), (12, (128, 512, 1024, 2048))):
        for t in lengths:
            one = (1, heads, t, 64)
            both(f"sdpa H={heads} T={t}", normal(one, one, one), ours, theirs)
            both(f"sdpa H={heads} T={t} causal", normal(one, one, one), lambda q, k, v: ours(q, k, v, causal=True),
                 lambda q, k, v: theirs(q, k, v, is_causal=True))
    four, long = (4, 12, 512, 64), (1, 12, 1024, 64)
    both("sdpa B=4 H=12 T=512 mask", lambda: [*normal(four, four, four)(), torch.zeros(4, 1, 1, 512)], ours, theirs, (0, 1, 2))
    both("sdpa H=12 T=1024 mask TxT", normal(long, long, long, square), ours, theirs, (0, 1, 2))
    forward("sdpa decode 12x1x64 keys 1024", normal((1, 12, 1, 64), long, long), ours, theirs)
    both("attention_qkv B=8 T=197 H=12 (ViT)", normal((8, 197, 2304)), lambda x: O.attention_qkv(x, heads=12),
         lambda x: packed_attention(x, 12, False))
    both("attention_qkv B=2 T=512 H=12 causal", normal((2, 512, 2304)),
         lambda x: O.attention_qkv(x, heads=12, causal=True), lambda x: packed_attention(x, 12, True))


def normalisation():
    words = (256, 50257)
    for name, shape, axis in (
        ("softmax 12x512x512", (12, 512, 512), -1), ("softmax 256x50257", words, -1),
        ("softmax axis 1 of 64x1000x128", (64, 1000, 128), 1), ("softmax 4096x10", (4096, 10), -1),
        ("softmax axis 0 of 1000x1000", (1000, 1000), 0),
    ):
        both(name, normal(shape), lambda x, a=axis: O.softmax(x, a), lambda x, a=axis: F.softmax(x, a))
    both("log_softmax 256x50257", normal(words), lambda x: O.log_softmax(x, -1), lambda x: F.log_softmax(x, -1))
    both("logsumexp 256x50257", normal(words), lambda x: O.logsumexp(x, -1), lambda x: torch.logsumexp(x, -1))
    for rows, n in ((4096, 768), (512, 4096), (64, 768)):
        both(f"layer_norm {rows}x{n}", normal((rows, n), (n,), (n,)), O.layer_norm, lambda x, g, b: F.layer_norm(x, x.shape[-1:], g, b))
        both(f"rms_norm {rows}x{n}", normal((rows, n), (n,)), O.rms_norm, lambda x, g: F.rms_norm(x, x.shape[-1:], g, 1e-6))


def elementwise():
    for name, theirs in (
        ("gelu", F.gelu), ("gelu_tanh", lambda x: F.gelu(x, approximate="tanh")), ("silu", F.silu), ("relu", F.relu),
        ("sigmoid", torch.sigmoid), ("tanh", torch.tanh), ("exp", torch.exp), ("mish", F.mish), ("softplus", F.softplus),
        ("elu", F.elu), ("leaky_relu", F.leaky_relu), ("erf", torch.erf), ("sin", torch.sin), ("cos", torch.cos),
        ("square", torch.square), ("abs", torch.abs), ("hardswish", F.hardswish), ("expm1", torch.expm1),
        ("log_sigmoid", F.logsigmoid), ("tan", torch.tan), ("atan", torch.atan), ("round", torch.round),
        ("neg", torch.neg), ("sign", torch.sign), ("reciprocal", torch.reciprocal),
    ):
        both(f"{name} 2048x3072", normal(big), getattr(O, name), theirs)
    for name in ("log", "sqrt", "rsqrt", "log1p", "log2"):
        both(f"{name} 2048x3072", positive(*big), getattr(O, name), getattr(torch, name))
    for p in (3, 2.5):
        both(f"pow {p} 2048x3072", positive(*big), lambda x, p=p: O.pow_scalar(x, float(p)), lambda x, p=p: x**p)
    both("exp2 2048x3072", positive(*big), O.exp2, torch.exp2)
    for name, theirs in (("gelu", F.gelu), ("exp", torch.exp), ("tanh", torch.tanh), ("relu", F.relu)):
        both(f"{name} 512x768", normal(mid), getattr(O, name), theirs)
    both("swiglu 512x11008", normal((512, 11008), (512, 11008)), O.swiglu, lambda g, u: F.silu(g) * u)
    both("geglu 512x3072", normal((512, 3072), (512, 3072)), O.geglu, lambda g, u: F.gelu(g) * u)
    both("dropout 4096x768", normal((4096, 768)), lambda x: O.dropout(x, p=0.1, seed=3), lambda x: F.dropout(x, 0.1, True))


def losses():
    words = lambda: [torch.randn(512, 50257), below(50257, 512)]
    both("cross_entropy 512x50257", words, O.cross_entropy, F.cross_entropy)
    both("cross_entropy smoothing 512x50257", words, lambda x, l: O.cross_entropy(x, l, 0.1),
         lambda x, l: F.cross_entropy(x, l, label_smoothing=0.1))
    both("cross_entropy 256x10", lambda: [torch.randn(256, 10), below(10, 256)], O.cross_entropy, F.cross_entropy)
    pair = normal(square, square)
    both("mse_loss 1M", pair, O.mse_loss, F.mse_loss, (0,))
    both("l1_loss 1M", pair, O.l1_loss, F.l1_loss, (0,))
    both("bce_with_logits 1M", lambda: [torch.randn(square), torch.rand(square)], O.bce_with_logits,
         F.binary_cross_entropy_with_logits, (0,))
    both("kl_div 512x1000", lambda: [F.log_softmax(torch.randn(512, 1000), -1), F.softmax(torch.randn(512, 1000), -1)],
         lambda x, t: O.kl_div(x, t, "batchmean"), lambda x, t: F.kl_div(x, t, reduction="batchmean"), (0,))
    both("smooth_l1 1M", pair, O.smooth_l1_loss, F.smooth_l1_loss, (0,))
    both("huber 1M", pair, O.huber_loss, F.huber_loss, (0,))
    both("cosine_similarity 512x768", normal(mid, mid), O.cosine_similarity, lambda a, b: F.cosine_similarity(a, b, -1))
    both("soft_cross_entropy 256x1000", lambda: [torch.randn(256, 1000), F.softmax(torch.randn(256, 1000), -1)],
         O.soft_cross_entropy, F.cross_entropy, (0,))


def indices():
    both("embedding 50257x768, 4096 ids", lambda: [torch.randn(50257, 768), below(50257, 8, 512)], O.embedding,
         lambda w, i: F.embedding(i, w))
    both("index_select rows 4096 of 10000x768", lambda: [torch.randn(10000, 768), below(10000, 4096)],
         lambda x, i: O.index_select(x, i, 0), lambda x, i: x.index_select(0, i))
    both("index_select columns 512 of 4096x768", lambda: [torch.randn(4096, 768), below(768, 512)],
         lambda x, i: O.index_select(x, i, 1), lambda x, i: x.index_select(1, i))
    for name, shape, extent, index, axis in (
        ("gather 4096x64 of 4096x768", (4096, 768), 768, (4096, 64), 1),
        ("gather labels 512x1 of 512x50257", (512, 50257), 50257, (512, 1), 1),
        ("gather axis 0 1000x768 of 4096x768", (4096, 768), 4096, (1000, 768), 0),
    ):
        both(name, lambda s=shape, n=extent, i=index: [torch.randn(s), below(n, *i)],
             lambda x, i, a=axis: O.gather(x, i, a), lambda x, i, a=axis: x.gather(a, i))
    for name, shape, extent, index, axis in (
        ("scatter_add 4096x64 into 4096x768", (4096, 768), 768, (4096, 64), 1),
        ("scatter_add axis 0 4096x768 into 1000x768", (1000, 768), 1000, (4096, 768), 0),
    ):
        both(name, lambda s=shape, n=extent, i=index: [torch.randn(s), below(n, *i), torch.randn(i)],
             lambda x, i, v, a=axis: O.scatter_add(x, i, v, a), lambda x, i, v, a=axis: x.scatter_add(a, i, v))
    forward("one_hot 4096 of 1000", lambda: below(1000, 4096), lambda x: O.one_hot(x, 1000), lambda x: F.one_hot(x, 1000))
    forward("bincount 1M of 1000", lambda: below(1000, 1000000), O.bincount, torch.bincount)


def broadcasting():
    for name in ("add", "mul", "div", "maximum"):
        ours, theirs = getattr(O, name), getattr(torch, name)
        both(f"{name} 2048x3072 same", normal(big, big), ours, theirs)
        if name in ("div", "maximum"):
            continue
        for words, a, b in (
            ("512x768 same", mid, mid), ("2048x3072 row", big, (3072,)), ("2048x3072 column", big, (2048, 1)),
            ("8x12x256x256 + 8x1x1x256", (8, 12, 256, 256), (8, 1, 1, 256)), ("NCHW + C11", (8, 64, 56, 56), (64, 1, 1)),
            ("outer 2048x1 + 1x3072", (2048, 1), (1, 3072)),
        ):
            both(f"{name} {words}", normal(a, b), ours, theirs)
    both("scalar x*2+1 2048x3072", normal(big), lambda x: O.affine(x, 2.0, 1.0), lambda x: x * 2 + 1)
    both("add transposed 1024x1024 + T", lambda: [torch.randn(square), torch.randn(square).t()], O.add, torch.add)
    both("pow tensor 1M", lambda: [torch.randn(square).abs() + 0.1, torch.randn(square)], O.pow, torch.pow)
    forward("fmod 1M", normal(square, square), O.fmod, torch.fmod)
    forward("remainder 1M", normal(square, square), O.remainder, torch.remainder)
    both("where 2048x3072", lambda: [torch.randn(big) > 0, torch.randn(big), torch.randn(big)], O.where, torch.where)
    both("masked_fill 12x512x512", lambda: [torch.randn(12, 512, 512), torch.randn(512, 512) > 0],
         lambda x, m: O.masked_fill(x, m, -1e9), lambda x, m: x.masked_fill(m, -1e9))
    both("clamp 2048x3072", normal(big), lambda x: O.clamp(x, -1.0, 1.0), lambda x: x.clamp(-1, 1))
    both("lerp 1M", normal(square, square), lambda a, b: O.lerp_scalar(a, b, 0.1), lambda a, b: torch.lerp(a, b, 0.1))
    both("addcmul 1M", normal(square, square, square), lambda a, b, c: O.addcmul(a, b, c, 0.5),
         lambda a, b, c: torch.addcmul(a, b, c, value=0.5))
    forward("gt 2048x3072", normal(big, big), O.gt, torch.gt)
    forward("eq i64 1M", lambda: [below(9, 1 << 20), below(9, 1 << 20)], O.eq, torch.eq)
    forward("eq u8 16M scalar", lambda: below(9, 1 << 24).to(torch.uint8), lambda x: O.eq(x, 7), lambda x: x == 7)
    forward("gt f32 scalar 6M", normal(big), lambda x: O.gt(x, 0.0), lambda x: x > 0)
    forward("logical_and 6M", lambda: [torch.randn(big) > 0, torch.randn(big) > 0], O.logical_and, torch.logical_and)
    forward("isnan 6M", normal(big), O.isnan, torch.isnan)
    for name, make, dtype, theirs in (
        ("f32->bf16", normal(big), "bf16", torch.bfloat16), ("bf16->f32", lambda: torch.randn(big).bfloat16(), "f32", torch.float),
        ("f32->f64", normal(big), "f64", torch.double), ("f32->i64", normal(big), "i64", torch.long),
        ("bool->f32", lambda: torch.randn(big) > 0, "f32", torch.float),
        ("u8->f32", lambda: below(255, 2048 * 3072).to(torch.uint8), "f32", torch.float),
    ):
        forward(f"cast {name} 6M", make, lambda x, t=dtype: O.cast(x, t), lambda x, t=theirs: x.to(t))


def reductions():
    cube, images = (64, 128, 768), (8, 64, 56, 56)
    for name in ("sum", "mean"):
        ours, theirs = getattr(O, name), getattr(torch, name)
        both(f"{name} 2048x3072 axis ()", normal(big), lambda x, f=ours: f(x, ()), theirs)
        for shape, words, axes in ((big, "2048x3072", (0, 1)), (cube, "64x128x768", (0, 1, 2))):
            for a in axes:
                both(f"{name} {words} axis {a}", normal(shape), lambda x, f=ours, a=a: f(x, a), lambda x, f=theirs, a=a: f(x, a))
        both(f"{name} NCHW (0,2,3)", normal(images), lambda x, f=ours: f(x, (0, 2, 3)), lambda x, f=theirs: f(x, (0, 2, 3)))
    turned = lambda: torch.randn(2048, 2048).t()
    forward("sum of transposed 2048x2048", turned, O.sum, torch.sum)
    forward("sum axis 0 of transposed", turned, lambda x: O.sum(x, 0), lambda x: x.sum(0))
    forward("sum of slice [:, ::2]", lambda: torch.randn(2048, 4096)[:, ::2], O.sum, torch.sum)
    forward("sum of expanded 1x2048 -> 2048x2048", lambda: torch.randn(1, 2048).expand(2048, 2048), O.sum, torch.sum)
    for name in ("amax", "var", "std", "prod", "norm", "logsumexp"):
        for a in (0, 1):
            ours = (lambda x, a=a: O.norm(x, 2.0, a)) if name == "norm" else (lambda x, a=a, f=getattr(O, name): f(x, a))
            theirs = (
                (lambda x, a=a: torch.linalg.vector_norm(x, 2, a)) if name == "norm"
                else (lambda x, a=a, f=getattr(torch, name): f(x, a))
            )
            both(f"{name} 2048x3072 axis {a}", normal(big), ours, theirs)
    for a in (0, 1):
        forward(f"argmax 2048x3072 axis {a}", normal(big), lambda x, a=a: O.argmax(x, a), lambda x, a=a: x.argmax(a))
        both(f"max_with_index axis {a}", normal(big), lambda x, a=a: O.max_with_index(x, a), lambda x, a=a: x.max(a))
    forward("argmax 512x50257", normal((512, 50257)), O.argmax, lambda x: x.argmax(-1))
    forward("all 6M bool", lambda: torch.ones(big, dtype=torch.bool), O.all, torch.all)
    forward("any axis 1 6M bool", lambda: torch.zeros(big, dtype=torch.bool), lambda x: O.any(x, 1), lambda x: x.any(1))
    forward("count_nonzero 6M", normal(big), O.count_nonzero, torch.count_nonzero)
    for a in (0, 1):
        both(f"cumsum 2048x3072 axis {a}", normal(big), lambda x, a=a: O.cumsum(x, a), lambda x, a=a: x.cumsum(a))
        both(f"cumprod 1024x1024 axis {a}", normal(square), lambda x, a=a: O.cumprod(x, a), lambda x, a=a: x.cumprod(a))
    both("cumsum 1M", normal((1 << 20,)), lambda x: O.cumsum(x, 0), lambda x: x.cumsum(0))


def orders():
    for a in (0, 1):
        both(f"sort 1000x1000 axis {a}", normal((1000, 1000)), lambda x, a=a: O.sort(x, a), lambda x, a=a: x.sort(a))
    both("sort 1M", normal((1 << 20,)), O.sort, torch.sort)
    forward("sort 1M stable", normal((1 << 20,)), O.sort, lambda x: x.sort(stable=True))
    forward("argsort i64 1M", lambda: below(1 << 40, 1 << 20), O.argsort, torch.argsort)
    for words, k, shape in (("50 of 64x50257", 50, (64, 50257)), ("2 of 4096x8 (MoE)", 2, (4096, 8)), ("5 of 512x1000", 5, (512, 1000))):
        both(f"topk {words}", normal(shape), lambda x, k=k: O.topk(x, k), lambda x, k=k: x.topk(k))
    forward("sort 64x50257", normal((64, 50257)), lambda x: O.sort(x, -1, True), lambda x: x.sort(-1, True))


def copies():
    both("transpose copy 2048x3072", normal(big), lambda x: O.contiguous(x.T), lambda x: x.mT.contiguous())
    for words, shape, order in (
        ("8x512x12x64 -> 8x12x512x64", (8, 512, 12, 64), (0, 2, 1, 3)), ("NHWC -> NCHW", (8, 56, 56, 64), (0, 3, 1, 2)),
    ):
        both(f"permute copy {words}", normal(shape), lambda x, p=order: O.contiguous(O.permute(x, p)),
             lambda x, p=order: x.permute(p).contiguous())
    forward("contiguous of [:, ::2]", lambda: torch.randn(2048, 4096)[:, ::2], O.contiguous, lambda x: x.contiguous())
    forward("clone 2048x3072", normal(big), lambda x: x.clone(), lambda x: x.clone())
    for words, shapes, axis in (("axis 0", [(1024, 768)] * 4, 0), ("axis 1", [(2048, 768)] * 3, 1)):
        both(f"concat {words}", normal(*shapes), lambda *x, a=axis: O.concat(list(x), a), lambda *x, a=axis: torch.cat(x, a))
    forward("concat kv cache 12x1023x64 + 12x1x64", normal((1, 12, 1023, 64), (1, 12, 1, 64)),
            lambda *x: O.concat(list(x), 2), lambda *x: torch.cat(x, 2))
    both("split 3 of 2048x2304 + contiguous", normal((2048, 2304)), lambda x: [O.contiguous(v) for v in O.split(x, 768, 1)],
         lambda x: [v.contiguous() for v in x.split(768, 1)])
    both("stack 8 of 512x768", normal(*[mid] * 8), lambda *x: O.stack(list(x), 0), lambda *x: torch.stack(x, 0))
    both("flip 2048x3072 axis 1", normal(big), lambda x: O.flip(x, 1), lambda x: x.flip(1))
    both("roll 2048x3072", normal(big), lambda x: O.roll(x, (5, 7), (0, 1)), lambda x: x.roll((5, 7), (0, 1)))
    both("tril 2048x2048", normal((2048, 2048)), O.tril, torch.tril)
    both("pad 8x64x56x56 by 1", normal((8, 64, 56, 56)), lambda x: O.pad(O.pad(x, 2, 1, 1), 3, 1, 1), lambda x: F.pad(x, (1, 1, 1, 1)))
    both("repeat 512x768 (4,2)", normal(mid), lambda x: O.repeat(x, (4, 2)), lambda x: x.repeat(4, 2))
    both("repeat_interleave 512x768 x4", normal(mid), lambda x: O.repeat_interleave(x, 4, 0), lambda x: x.repeat_interleave(4, 0))
    both("expand+contiguous", normal((1, 768)), lambda x: O.contiguous(O.expand(x, (4096, 768))),
         lambda x: x.expand(4096, 768).contiguous())
    both("patchify 8x3x224x224 p16", normal((8, 3, 224, 224)), lambda x: O.patchify(x, 16),
         lambda x: F.unfold(x, 16, stride=16).transpose(1, 2))
    both("slice [:, 1:] contiguous", normal((64, 197, 768)), lambda x: O.contiguous(x[:, 1:]), lambda x: x[:, 1:].contiguous())


def convolution(name, shapes, stride=1, padding=0, groups=1, diff=None):
    def ours(x, w, b=None):
        return O.conv2d(x, w, b, stride, padding, 1, groups)

    def theirs(x, w, b=None):
        return F.conv2d(x, w, b, stride, padding, 1, groups)

    both(f"conv2d {name}", normal(*shapes), ours, theirs, diff)


def images():
    plane = (8, 64, 56, 56)
    convolution("3x3 8x64x56x56 -> 64", (plane, (64, 64, 3, 3), (64,)), padding=1)
    convolution("3x3 s2 8x128x28x28 -> 256", ((8, 128, 28, 28), (256, 128, 3, 3), (256,)), 2, 1)
    convolution("3x3 8x512x7x7 -> 512", ((8, 512, 7, 7), (512, 512, 3, 3)), padding=1)
    convolution("1x1 8x64x56x56 -> 256", (plane, (256, 64, 1, 1), (256,)))
    convolution("depthwise 3x3 8x64x56x56", (plane, (64, 1, 3, 3), (64,)), padding=1, groups=64)
    convolution("depthwise 7x7 8x96x56x56", ((8, 96, 56, 56), (96, 1, 7, 7), (96,)), padding=3, groups=96)
    convolution("patch 16 8x3x224x224 -> 768", ((8, 3, 224, 224), (768, 3, 16, 16), (768,)), 16)
    convolution("7x7 s2 4x3x224x224 -> 64", ((4, 3, 224, 224), (64, 3, 7, 7)), 2, 3, diff=(1,))
    convolution("3x3 32x1x28x28 -> 32 (MNIST)", ((32, 1, 28, 28), (32, 1, 3, 3), (32,)), diff=(1, 2))
    convolution("groups 32 8x256x28x28", ((8, 256, 28, 28), (256, 8, 3, 3)), 1, 1, 32)
    both("conv transpose 2x2 s2 8x64x28x28 -> 32", normal((8, 64, 28, 28), (64, 32, 2, 2)),
         lambda x, w: O.conv2d_input_backward(w, x, (56, 56), 2), lambda x, w: F.conv_transpose2d(x, w, None, 2))
    affine = normal(plane, (64,), (64,))
    both("batch_norm 8x64x56x56", affine, O.batch_norm, lambda x, g, b: F.batch_norm(x, None, None, g, b, True))
    forward("batch_norm inference 8x64x56x56",
            lambda: [torch.randn(plane), torch.randn(64), torch.rand(64) + 0.5, torch.randn(64), torch.randn(64)],
            O.batch_norm_inference, F.batch_norm)
    both("group_norm 32 8x64x56x56", affine, lambda x, g, b: O.group_norm(x, g, b, groups=32), lambda x, g, b: F.group_norm(x, 32, g, b))
    both("instance_norm 8x64x56x56", affine, O.instance_norm, lambda x, g, b: F.instance_norm(x, None, None, g, b))
    both("max_pool 3x3 s2 8x64x112x112", normal((8, 64, 112, 112)), lambda x: O.max_pool2d(x, 3, 2, 1), lambda x: F.max_pool2d(x, 3, 2, 1))
    both("max_pool 2x2 8x64x56x56", normal(plane), lambda x: O.max_pool2d(x, 2), lambda x: F.max_pool2d(x, 2))
    both("avg_pool 2x2 8x64x56x56", normal(plane), lambda x: O.avg_pool2d(x, 2), lambda x: F.avg_pool2d(x, 2))
    for words, shape, to in (("1x1 8x512x7x7", (8, 512, 7, 7), (1, 1)), ("7x7 8x64x56x56", plane, (7, 7))):
        both(f"adaptive_avg_pool {words}", normal(shape), lambda x, s=to: O.adaptive_avg_pool2d(x, s),
             lambda x, s=to: F.adaptive_avg_pool2d(x, s))
    small = (8, 64, 28, 28)
    for mode in ("nearest", "bilinear", "bicubic"):
        both(f"interpolate {mode} x2 8x64x28x28", normal(small), lambda x, m=mode: O.interpolate(x, (56, 56), m),
             lambda x, m=mode: F.interpolate(x, (56, 56), mode=m))
    forward("interpolate bilinear antialias 500x375 -> 224", normal((1, 3, 500, 375)),
            lambda x: O.interpolate(x, (224, 224), "bilinear", antialias=True),
            lambda x: F.interpolate(x, (224, 224), mode="bilinear", antialias=True))
    both("unfold 3x3 8x64x28x28", normal(small), lambda x: O.unfold(x, 3, 1, 1), lambda x: F.unfold(x, 3, 1, 1, 1))
    both("fold 3x3", normal((8, 576, 784)), lambda x: O.fold(x, (28, 28), 3, 1, 1), lambda x: F.fold(x, (28, 28), 3, 1, 1, 1))


def rotated(x, positions):
    d = x.shape[-1]
    angle = positions[:, None].float() * 10000.0 ** (-torch.arange(0, d, 2).float() / d)
    cos, sin = (torch.cat([t, t], -1)[:, None] for t in (torch.cos(angle), torch.sin(angle)))
    return x * cos + torch.cat([-x[..., d // 2 :], x[..., : d // 2]], -1) * sin


def others():
    for equation, shapes in (
        ("bhqd,bhkd->bhqk", ((2, 12, 256, 64), (2, 12, 256, 64))), ("bqhd,bkhd->bhqk", ((2, 256, 12, 64), (2, 256, 12, 64))),
        ("bhqk,bkhd->bqhd", ((2, 12, 256, 256), (2, 256, 12, 64))), ("bsd,de->bse", ((4, 256, 768), (768, 768))),
        ("nchw,oc->nohw", ((8, 64, 28, 28), (128, 64))), ("i,j->ij", ((2000,), (2000,))),
        ("bij,bij->b", ((64, 128, 128), (64, 128, 128))), ("ij,jk,kl->il", ((256, 256),) * 3), ("bii->bi", ((64, 256, 256),)),
        ("edf,bed->bef", ((8, 256, 512), (32, 8, 256))),
    ):
        both(f"einsum {equation}", normal(*shapes), lambda *x, e=equation: O.einsum(list(x), e), lambda *x, e=equation: torch.einsum(e, *x))
    both("rotary 2x512x12x64", lambda: [torch.randn(2, 512, 12, 64), torch.arange(512)], O.rotary, rotated)
    doubles = lambda *shapes: lambda: [torch.randn(*s).double() for s in shapes]
    forward("matmul f64 512", doubles((512, 512), (512, 512)), O.matmul, torch.matmul)
    forward("exp f64 1M", doubles((1 << 20,)), O.exp, torch.exp)
    both("gelu f64 1M", doubles((1 << 20,)), O.gelu, F.gelu)
    both("softmax f64 12x256x256", doubles((12, 256, 256)), O.softmax, lambda x: F.softmax(x, -1))
    both("sdpa f64 12x256x64", doubles(*[(1, 12, 256, 64)] * 3), O.scaled_dot_product_attention, F.scaled_dot_product_attention)


def further():
    """Calls at other sizes, written down before they were measured; no change was made because of them."""
    wide, cube, images = (300, 5000), (24, 200, 300), (4, 96, 40, 40)
    both("matmul 700x900x500", normal((700, 900), (900, 500)), O.matmul, torch.matmul)
    both("linear 197x384->1536", normal((197, 384), (1536, 384), (1536,)), O.linear, F.linear)
    both("gelu 300x5000", normal(wide), O.gelu, F.gelu)
    both("sinh 300x5000", normal(wide), O.sinh, torch.sinh)
    both("asinh 300x5000", normal(wide), O.asinh, torch.asinh)
    both("softmax axis 1 of 24x200x300", normal(cube), lambda x: O.softmax(x, 1), lambda x: F.softmax(x, 1))
    both("log_softmax 2000x500", normal((2000, 500)), lambda x: O.log_softmax(x, -1), lambda x: F.log_softmax(x, -1))
    both("sum 24x200x300 axis 1", normal(cube), lambda x: O.sum(x, 1), lambda x: x.sum(1))
    both("var 24x200x300 axis 2", normal(cube), lambda x: O.var(x, 2), lambda x: x.var(2))
    both("amin 300x5000 axis 0", normal(wide), lambda x: O.amin(x, 0), lambda x: x.amin(0))
    both("prod 24x200x300 axis 1", normal(cube), lambda x: O.prod(x, 1), lambda x: x.prod(1))
    both("cumsum 24x200x300 axis 1", normal(cube), lambda x: O.cumsum(x, 1), lambda x: x.cumsum(1))
    both("minimum 300x5000", normal(wide, wide), O.minimum, torch.minimum)
    both("div 300x5000 by column", normal(wide, (300, 1)), O.div, torch.div)
    both("flip 24x200x300 axis 1", normal(cube), lambda x: O.flip(x, 1), lambda x: x.flip(1))
    both("concat axis 2 of 24x200x300", normal(cube, cube), lambda *x: O.concat(list(x), 2), lambda *x: torch.cat(x, 2))
    convolution("5x5 4x96x40x40 depthwise", (images, (96, 1, 5, 5)), padding=2, groups=96)
    convolution("3x3 4x96x40x40 -> 48", (images, (48, 96, 3, 3), (48,)), padding=1)
    both("avg_pool 3x3 s2 4x96x40x40", normal(images), lambda x: O.avg_pool2d(x, 3, 2), lambda x: F.avg_pool2d(x, 3, 2))
    both("layer_norm 1000x1200", normal((1000, 1200), (1200,), (1200,)), O.layer_norm,
         lambda x, g, b: F.layer_norm(x, x.shape[-1:], g, b))


def vit_weights(depth, width, tokens):
    """The image, then patch embedding, class token and positions, 12 tensors a block, the last norm and the head."""
    scaled = lambda *shape: 0.02 * torch.randn(*shape)
    made = [torch.randn(1, 3, 224, 224), scaled(width, 3, 16, 16), scaled(width), scaled(1, 1, width), scaled(1, tokens, width)]
    for _ in range(depth):
        for shape in ((3 * width, width), (width, width), (4 * width, width), (width, 4 * width)):
            made += [scaled(*shape), scaled(shape[0])]
        made += [torch.rand(width) + 0.5, scaled(width), torch.rand(width) + 0.5, scaled(width)]
    return made + [torch.rand(width) + 0.5, scaled(width), scaled(1000, width), scaled(1000)]


def vit(x, conv2d, concat, norm, linear, attend, feed_forward):
    """Logits [1, 1000] of a pre-norm ViT with patches of 16 (Dosovitskiy et al., 2021) by the given functions."""
    image, patch, patch_bias, cls, positions, *blocks = x
    width = patch.shape[0]
    tokens = conv2d(image, patch, patch_bias, stride=16).reshape(1, width, -1).transpose(1, 2)
    y = concat([cls, tokens], 1) + positions
    while len(blocks) > 4:
        qkv, qkv_bias, out, out_bias, up, up_bias, down, down_bias, g1, b1, g2, b2, *blocks = blocks
        y = y + linear(attend(linear(norm(y, g1, b1), qkv, qkv_bias)), out, out_bias)
        y = y + linear(feed_forward(norm(y, g2, b2), up, up_bias), down, down_bias)
    gamma, beta, head, head_bias = blocks
    return linear(norm(y, gamma, beta)[:, 0], head, head_bias)


def larger():
    """Long contexts, and a ViT-B/16 on one image."""
    for causal in (False, True):
        for t in (1024, 2048, 4096, 8192):
            both(f"sdpa H=12 T={t}{' causal' * causal}", normal(*[(1, 12, t, 64)] * 3),
                 lambda *x, causal=causal: O.scaled_dot_product_attention(*x, causal=causal),
                 lambda *x, causal=causal: F.scaled_dot_product_attention(*x, is_causal=causal))
    forward("ViT-B/16, one image of 224x224", lambda: vit_weights(12, 768, 197),
            lambda *x: vit(x, O.conv2d, O.concat, O.layer_norm, O.linear, lambda qkv: O.attention_qkv(qkv, heads=12), O.linear_gelu),
            lambda *x: vit(x, F.conv2d, torch.cat, lambda y, g, b: F.layer_norm(y, y.shape[-1:], g, b), F.linear,
                           lambda qkv: packed_attention(qkv, 12, False), lambda y, w, b: F.gelu(F.linear(y, w, b))))


# --- measuring ---


def seconds(call, repeats):
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


def measure(case, rounds, slice_s, budget_s):
    """Seconds a call of both, one number a round."""
    calls = case.calls()
    repeats = []
    for call in calls:
        call()
        repeats.append(max(1, min(2000, int(slice_s / max(min(seconds(call, 1) for _ in range(3)), 1e-7)))))
    times = ([], [])
    began = time.perf_counter()
    for r in range(rounds):
        if r >= 3 and time.perf_counter() - began > budget_s:
            break
        for which in (0, 1) if r % 2 == 0 else (1, 0):
            time.sleep(0.02)  # PyTorch's OpenMP threads spin for up to 11 ms after a call, on the processors ours need
            calls[which]()
            times[which].append(seconds(calls[which], repeats[which]))
    return times


def record(case, threads, options):
    line = {"name": case.name, "threads": threads}
    try:
        ours, theirs = measure(case, options.rounds, options.slice, options.budget)
    except Exception as error:  # a call that one of the two refuses is part of the result
        return {**line, "error": f"{type(error).__name__}: {error}"[:300]}
    return {
        **line, "rounds": len(ours), "ours": min(ours), "theirs": min(theirs), "ratio": min(ours) / min(theirs),
        "median": statistics.median(ours) / statistics.median(theirs),
    }


# --- the tables ---

edges = [0, 0.25, 0.5, 0.75, 1, 1.2, 2, 5, float("inf")]


def table(lines):
    """Markdown: how many ratios lie where, their geometric mean, and the calls above 1.2."""
    out = []
    counts = sorted({line["threads"] for line in lines})
    measured = {n: [l for l in lines if l["threads"] == n and "ratio" in l] for n in counts}
    out += ["| ratio | " + " | ".join(f"{n} thread{'s' * (n > 1)}" for n in counts) + " |", "|---|" + "--:|" * len(counts)]
    for low, high in zip(edges, edges[1:]):
        words = f"above {low:g}" if high == float("inf") else f"{low:g} to {high:g}"
        inside = [sum(low < l["ratio"] <= high for l in measured[n]) for n in counts]
        out.append(f"| {words} | " + " | ".join(map(str, inside)) + " |")
    means = [statistics.geometric_mean(l["ratio"] for l in measured[n]) for n in counts]
    out += ["| geometric mean | " + " | ".join(f"{m:.2f}" for m in means) + " |", ""]
    for n in counts:
        slow = sorted((l for l in measured[n] if l["ratio"] > 1.2), key=lambda l: -l["ratio"])
        out += [f"{len(slow)} of {len(measured[n])} calls above 1.2 with {n} thread{'s' * (n > 1)}:", ""]
        out += ["| call | equigrad ms | PyTorch ms | ratio | of medians |", "|---|--:|--:|--:|--:|"]
        out += [f"| {l['name']} | {l['ours'] * 1e3:.3g} | {l['theirs'] * 1e3:.3g} | {l['ratio']:.2f} | {l['median']:.2f} |" for l in slow]
        out.append("")
    out += [f"Refused: {l['name']}: {l['error']}" for l in lines if "error" in l]
    return "\n".join(out)


def saved(path):
    try:
        with open(path) as file:
            return [json.loads(line) for line in file]
    except FileNotFoundError:
        return []


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="turns of each library (default 5)")
    parser.add_argument("--threads", default="2", help="numbers of threads, with commas (default 2)")
    parser.add_argument("--only", default="", metavar="REGEX", help="the cases whose name it is found in")
    parser.add_argument("--further", action="store_true", help="40 other calls instead of the 486")
    parser.add_argument("--larger", action="store_true", help="long contexts and a ViT-B/16 instead of the 486")
    parser.add_argument("--slice", type=float, default=0.02, metavar="S", help="seconds of one turn (default 0.02)")
    parser.add_argument("--budget", type=float, default=1.0, metavar="S", help="after so long three turns do (default 1)")
    parser.add_argument("--json", metavar="OUT", help="file that gets a line a case; cases that it has are not run again")
    parser.add_argument("--table", action="store_true", help="print Markdown of all lines")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    sections = [products, attention, normalisation, elementwise, losses, indices, broadcasting, reductions, orders, copies, images, others]
    for section in [further] if options.further else [larger] if options.larger else sections:
        section()
    lines = saved(options.json) if options.json else []
    done = {(l["name"], l["threads"]) for l in lines}
    for threads in map(int, options.threads.split(",")):
        torch.set_num_threads(threads)
        eg.set_threads(threads)
        for case in cases:
            if not re.search(options.only, case.name) or (case.name, threads) in done:
                continue
            line = record(case, threads, options)
            lines.append(line)
            if options.json:
                with open(options.json, "a") as file:
                    file.write(json.dumps(line) + "\n")
            shown = line.get("error") or f"{line['ours'] * 1e3:9.3f} ms  PyTorch {line['theirs'] * 1e3:9.3f} ms  ratio {line['ratio']:5.2f}  of medians {line['median']:5.2f}"
            print(f"{case.name:55s} {threads}  {shown}", file=sys.stderr if options.table else sys.stdout, flush=True)
            gc.collect()
    if options.table:
        print(table(lines))


if __name__ == "__main__":
    main()
