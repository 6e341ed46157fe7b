#!/usr/bin/env python3
"""Runs `equigrad bench step` and the peers (peer_tuned.sh) in turn, several rounds, and prints for each case the medians,
equigrad's time over each peer's and over the floor, and the peak memory. On an idle machine only: see README.md beside
this file.

    tests/bench/compare.py build/release/bin/equigrad --rounds 3 --core SKYLAKEX --core HASWELL
    tests/bench/compare.py build/release/bin/equigrad --case gpt2-decode --python ~/venv/bin/python --compile
    tests/bench/compare.py build/release/bin/equigrad --python ~/venv/bin/python --json out/compare.json
    tests/bench/compare.py build/release/bin/equigrad --python ~/venv/bin/python --dtype bf16   # beside torch.autocast
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
CASES = ["vit-cifar", "vit-cifar-wide", "vit-tiny", "vit-base"]
CASES += ["bert-small", "bert-small-mlm", "gpt2-small", "bert-base-infer", "gpt2-decode"]


def one(command, environment=None):
    """The JSON line that a benchmark prints last; None (and a word on stderr) when it fails."""
    done = subprocess.run(command, env={**os.environ, **(environment or {})}, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        print(f"{' '.join(map(str, command))}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return None
    return json.loads(lines[-1])


def peers_of(args):
    """(arguments, environment) of every PyTorch asked for."""
    peers = [([], {"CORE": core} if core else {}) for core in args.core or ([] if args.python else [""])]
    for python in args.python or []:  # they bring a BLAS of their own
        own_blas = {"PYTHON": python, "OPENBLAS_DIR": "/nonexistent"}
        peers.append(([], own_blas))
        if args.compile:
            peers.append((["--compile"], own_blas))
    return peers


def measure(case, args, peers):
    """Every engine's results of one case, in turn, round after round; ours come first."""
    ours = [args.equigrad, "bench", "step", "--case", case, "--threads", str(args.threads), "--json", "-", "--quiet"]
    ours += ["--seconds", str(args.seconds), "--dtype", args.dtype]
    theirs = [HERE / "peer_tuned.sh", "--case", case, "--threads", str(args.threads), "--steps", str(args.steps), "--dtype", args.dtype]
    results = [[] for _ in range(1 + len(peers))]
    for _ in range(args.rounds):
        results[0].append(one(ours))
        for i, (flags, environment) in enumerate(peers, 1):
            results[i].append(one(theirs + flags, environment))
    return [[r for r in group if r] for group in results]


def summary(results, field):
    """One line of the table for each engine that gave a result."""
    return [
        {"engine": group[0]["engine"], "case": group[0]["case"], "ms": statistics.median(r[field] for r in group),
         "rss_mb": max(r["rss_mb"] for r in group), "floor_ms": group[0].get("floor_ms"), "threads": group[0]["threads"]}
        for group in results
        if group
    ]  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("equigrad")
    parser.add_argument("--case", action="append", help="default: all nine")
    parser.add_argument("--core", action="append", help="OpenBLAS kernels for Debian's PyTorch; the best one counts")
    parser.add_argument("--python", action="append", help="a Python with another PyTorch, which competes as well")
    parser.add_argument("--compile", action="store_true", help="those of --python compete compiled, too (torch.compile)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="f32", help="bf16: products in bf16 beside torch.autocast")
    parser.add_argument("--cpu", action="store_true", help="processor time instead of time: for one thread on a busy machine")
    parser.add_argument("--steps", type=int, default=10, help="of the peer, each round")
    parser.add_argument("--seconds", type=float, default=3.0, help="of equigrad, each round")
    parser.add_argument("--json", help="write all lines to this file")
    args = parser.parse_args()
    peers, field = peers_of(args), "cpu_ms" if args.cpu else "ms"
    os.environ["OMP_NUM_THREADS"] = str(args.threads)
    print(f"load average {os.getloadavg()[0]:.1f}")
    print(f"{'case':<16}{'ms':>9}{'MB':>7}{'of peer':>9}{'memory':>8}{'of floor':>10}  engine")
    table = []
    for case in args.case or CASES:
        lines = summary(measure(case, args, peers), field)
        table += lines
        if not lines or not lines[0]["engine"].startswith("equigrad"):
            continue
        mine = lines[0]
        floor = f"{mine['ms'] / mine['floor_ms']:10.2f}" if mine["floor_ms"] else f"{'':10}"
        print(f"{case:<16}{mine['ms']:>9.1f}{mine['rss_mb']:>7.0f}{'':>17}{floor}  {mine['engine']}")
        for line in sorted(lines[1:], key=lambda line: line["ms"]):
            shares = f"{mine['ms'] / line['ms']:>9.2f}{mine['rss_mb'] / line['rss_mb']:>8.2f}"
            print(f"{'':<16}{line['ms']:>9.1f}{line['rss_mb']:>7.0f}{shares}{'':>10}  {line['engine']}", flush=True)
    print(f"load average {os.getloadavg()[0]:.1f}")
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
