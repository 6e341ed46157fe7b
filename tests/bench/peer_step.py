#!/usr/bin/env python3
"""The training steps of `equigrad bench step` in PyTorch, for comparison.

One JSON line a case, with the fields of `equigrad bench`: forward, cross-entropy, backward and optimiser step of a
pre-norm ViT (class token, learned positions, erf GELU, biases), and the BERT and GPT-2 cases (peer_text.py); medians
after warm-up. See README.md beside this file for how to run it at its best.
"""

import argparse
import contextlib
import json
import resource
import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F

import peer_text

CIFAR = dict(image=32, patch=4, classes=10)
CASES = {
    "vit-cifar": dict(CIFAR, dim=512, layers=6, heads=1, mlp=512),
    "vit-cifar-wide": dict(CIFAR, dim=512, layers=6, heads=8, mlp=2048),
    "vit-tiny": dict(CIFAR, dim=192, layers=12, heads=3, mlp=768),
    "vit-base": dict(image=224, patch=16, classes=1000, dim=768, layers=12, heads=12, mlp=3072),
}
VIT_BATCH = {"vit-base": 4}
CHANNELS = 3


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        batch, tokens, dim = x.shape
        head_dim = dim // self.heads
        q, k, v = self.qkv(x).reshape(batch, tokens, 3, self.heads, head_dim).permute(2, 0, 3, 1, 4)
        if hasattr(F, "scaled_dot_product_attention"):
            a = F.scaled_dot_product_attention(q, k, v)
        else:
            a = ((q * head_dim**-0.5) @ k.transpose(-2, -1)).softmax(-1) @ v
        return self.proj(a.transpose(1, 2).reshape(batch, tokens, dim))


class Block(nn.Module):
    def __init__(self, dim, heads, mlp):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim, eps=1e-6), nn.LayerNorm(dim, eps=1e-6)
        self.attention = Attention(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, mlp), nn.GELU(), nn.Linear(mlp, dim))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Vit(nn.Module):
    def __init__(self, image, patch, classes, dim, layers, heads, mlp):
        super().__init__()
        self.patches = nn.Conv2d(CHANNELS, dim, patch, patch)
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))
        self.position = nn.Parameter(torch.randn(1, (image // patch) ** 2 + 1, dim) * 0.02)
        self.blocks = nn.Sequential(*[Block(dim, heads, mlp) for _ in range(layers)])
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.head = nn.Linear(dim, classes)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.shape[0], -1, -1), x], 1) + self.position
        return self.head(self.norm(self.blocks(x))[:, 0])


def gflop(case, batch):
    """Matrix products of one step: forward, and twice that backward."""
    dim, layers, mlp, patch = case["dim"], case["layers"], case["mlp"], case["patch"]
    tokens = (case["image"] // patch) ** 2 + 1
    per_token = layers * (4 * dim * dim + 2 * dim * mlp + 2 * tokens * dim)
    patches = (tokens - 1) * CHANNELS * patch * patch * dim
    return 3 * 2 * batch * (tokens * per_token + patches + dim * case["classes"]) / 1e9


def make_adam(parameters, kind, make=torch.optim.Adam):
    """The fastest Adam (or AdamW) that this PyTorch has."""
    parameters = list(parameters)
    for options in [{}] if kind == "plain" else [{"fused": True}, {"foreach": True}]:
        try:
            return make(parameters, lr=1e-3, **options), f"{next(iter(options), 'plain')} {make.__name__}"
        except (RuntimeError, TypeError):
            continue
    raise RuntimeError("no Adam")


def prepare(model, args):
    """The model's forward pass as the options want it: compiled, or in bf16 where torch.autocast takes it."""
    forward = torch.compile(model) if args.compile else model
    if args.dtype == "f32":
        return forward
    return torch.autocast(args.device, dtype=torch.bfloat16)(lambda *inputs: forward(*inputs))


def vit_step(name, batch, args):
    """(run, parts, GFLOP, optimiser) of a ViT case, as peer_text.make."""
    case = CASES[name]
    model = Vit(**case)
    forward = prepare(model, args)
    if name == "vit-base":
        optimizer, kind = torch.optim.SGD(model.parameters(), lr=1e-3), "SGD"
    else:
        optimizer, kind = make_adam(model.parameters(), args.adam)
    images = torch.randn(batch, CHANNELS, case["image"], case["image"])
    labels = torch.arange(batch) % case["classes"]

    def run():
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(forward(images).float(), labels).backward()
        optimizer.step()

    return run, 1, gflop(case, batch), kind


def text_step(name, batch, args):
    kind = torch.optim.AdamW if name == "gpt2-small" else torch.optim.Adam
    return peer_text.make(name, batch, lambda parameters: make_adam(parameters, args.adam, kind), lambda model: prepare(model, args))


def wall_ms(run):
    start = time.perf_counter()
    run()
    return (time.perf_counter() - start) * 1e3


def gpu_ms(run):
    """Between two events around the run, on the GPU's clock."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    run()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


def measure(name, args):
    torch.manual_seed(0)
    batch = args.batch or (VIT_BATCH | peer_text.BATCH).get(name, 64)
    # Models and data are made there. A default device instead would slow every later call.
    with torch.device("cuda") if args.device == "cuda" else contextlib.nullcontext():
        run, parts, work, kind = (vit_step if name in CASES else text_step)(name, batch, args)
    for _ in range(args.warmup):
        run()
    clock = gpu_ms if args.device == "cuda" else wall_ms
    times, cpu = [], []
    for _ in range(args.steps):
        cpu_start = time.process_time()
        times.append(clock(run) / parts)
        cpu.append((time.process_time() - cpu_start) * 1e3 / parts)
    ms = statistics.median(times)
    return {
        "bench": "step",
        "engine": f"torch {torch.__version__}{' compiled' if args.compile else ''}{' bf16' if args.dtype == 'bf16' else ''}, {kind}",
        "case": name,
        "device": args.device,
        "threads": torch.get_num_threads(),
        "batch": batch,
        "ms": round(ms, 2),
        "ms_best": round(min(times), 2),
        "cpu_ms": round(statistics.median(cpu), 2),
        "per_s": round(batch / ms * 1e3, 2),
        "gflops": round(work / ms * 1e3, 2),
        "rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6, 1),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", choices=[*CASES, *peer_text.BATCH], help="one case (default: all; then rss_mb is the peak so far)")
    parser.add_argument("--batch", type=int, help="default: the case's own")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--adam", choices=("best", "plain"), default="best", help="best: fused, else foreach")
    parser.add_argument("--compile", action="store_true", help="torch.compile the model (PyTorch 2)")
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="f32", help="bf16: the forward pass within torch.autocast")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="cuda: PyTorch 2, f32 without TF32, timed by events")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if args.device == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False  # as equigrad's products
    for name in [args.case] if args.case else [*CASES, *peer_text.BATCH]:
        print(json.dumps(measure(name, args)), flush=True)


if __name__ == "__main__":
    main()
