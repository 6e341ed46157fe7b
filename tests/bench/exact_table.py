#!/usr/bin/env python3
"""Writes docs/numerics/exact.md: what exact reductions cost, from `bench ops --exact` and `bench step`.

usage: exact_table.py EQUIGRAD [--seconds S] [--processor TEXT]   (run it on an idle machine; a few minutes)
"""
import argparse
import json
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "numerics" / "exact.md"

HEAD = """# What exact reductions cost

Written by `tests/bench/exact_table.py` from `equigrad bench ops --exact` and `equigrad bench step [--exact] --batch 8`, release build, {threads} threads,
{processor}. Medians in ms, the exact kernel in turn with the ordinary one, f32; inputs are those of `bench ops` (a ViT of 64 images
with 65 tokens of 512 features, images [16, 64, 56, 56], a vocabulary of 30522). Rows that are missing sum nothing, or are made of these.

How exact sums work, and what was tried and did not do: [core/README.md](../../core/README.md). Products of floats cost one of
float64 and the widening of both operands; attention and norms leave their fused kernels; `scatter_add` sorts by target first.

| row | ordinary | exact | ratio |
|---|---|---|---|
"""


def lines_of(program, *words):
    out = subprocess.run([program, "bench", *words, "--json", "-"], check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in out.splitlines()]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--seconds", default="0.6")
    parser.add_argument("--processor", default="an x86-64 machine")
    args = parser.parse_args()
    rows = lines_of(args.program, "ops", "--exact", "--seconds", args.seconds)
    text = HEAD.format(threads=rows[0]["threads"], processor=args.processor)
    for row in rows:
        text += f"| `{row['case']}` | {row['ordinary_ms']:.3g} | {row['ms']:.3g} | {row['ratio']:.1f} |\n"
    text += "\nA training step (forward, backward, AdamW), 8 images:\n\n| case | ordinary | exact | ratio | peak memory MB |\n|---|---|---|---|---|\n"
    for case in ("vit-cifar", "vit-tiny"):
        step = ["step", "--case", case, "--batch", "8", "--seconds", "10"]
        fast, exact = lines_of(args.program, *step)[0], lines_of(args.program, *step, "--exact")[0]
        text += (f"| `{case}` | {fast['ms']:.3g} | {exact['ms']:.4g} | {exact['ms'] / fast['ms']:.1f} "
                 f"| {fast['rss_mb']:.0f}, {exact['rss_mb']:.0f} |\n")
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
