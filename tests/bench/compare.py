#!/usr/bin/env python3
"""Runs `equigrad bench step` and peer_tuned.sh in turn, several rounds, and prints the medians, their ratio and the
peak memory of each. On an idle machine only: see README.md beside this file.

    tests/bench/compare.py build/release/bin/equigrad --rounds 3 --core SKYLAKEX --core HASWELL
    tests/bench/compare.py build/release/bin/equigrad --case gpt2-decode --python ~/venv/bin/python
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess

HERE = pathlib.Path(__file__).resolve().parent


def one(command, environment=None):
    """The JSON line that a benchmark prints last."""
    done = subprocess.run(command, env={**os.environ, **(environment or {})}, capture_output=True, text=True, check=True)
    text = done.stdout.strip()
    result = json.loads(text if text.count("\n{") == 0 else text.splitlines()[-1])
    return result[-1] if isinstance(result, list) else result


VITS = ["vit-cifar", "vit-cifar-wide", "vit-tiny"]
TEXTS = ["bert-small", "bert-small-mlm", "gpt2-small", "bert-base-infer", "gpt2-decode"]


def peers_of(args):
    """Name -> environment of every PyTorch asked for."""
    peers = {f"Debian {core}".strip(): {"CORE": core} if core else {} for core in args.core or ([] if args.python else [""])}
    for python in args.python or []:  # they bring a BLAS of their own
        peers[python] = {"PYTHON": python, "OPENBLAS_DIR": "/nonexistent"}
    return peers


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("equigrad")
    parser.add_argument("--case", action="append", help="default: the three ViT cases and those of BERT and GPT-2")
    parser.add_argument("--core", action="append", help="OpenBLAS kernels for Debian's PyTorch; the best one counts")
    parser.add_argument("--python", action="append", help="a Python with another PyTorch, which competes as well")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cpu", action="store_true", help="processor time instead of time: for one thread on a busy machine")
    parser.add_argument("--steps", type=int, default=10, help="of the peer, each round")
    args = parser.parse_args()
    peers, field = peers_of(args), "cpu_ms" if args.cpu else "ms"
    os.environ["OMP_NUM_THREADS"] = str(args.threads)
    print(f"load average {os.getloadavg()[0]:.1f}")
    print(f"{'case':<16}{'equigrad ms':>12}{'MB':>7}{'peer ms':>10}{'MB':>7}{'ratio':>7}  peer")
    for case in args.case or VITS + TEXTS:
        own, theirs = [], {name: [] for name in peers}
        for _ in range(args.rounds):
            own.append(one([args.equigrad, "bench", "step", "--case", case, "--threads", str(args.threads), "--json", "-"]))
            for name, environment in peers.items():
                command = [HERE / "peer_tuned.sh", "--case", case, "--threads", str(args.threads), "--steps", str(args.steps)]
                theirs[name].append(one(command, environment))
        mine = statistics.median(r[field] for r in own)
        ms = {name: statistics.median(r[field] for r in results) for name, results in theirs.items()}
        for name in sorted(ms, key=ms.get):
            print(
                f"{case:<16}{mine:>12.1f}{max(r['rss_mb'] for r in own):>7.0f}{ms[name]:>10.1f}"
                f"{min(r['rss_mb'] for r in theirs[name]):>7.0f}{ms[name] / mine:>7.2f}"
                f"  {theirs[name][0]['engine']} ({name})",
                flush=True,
            )
    print(f"load average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
