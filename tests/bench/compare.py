#!/usr/bin/env python3
"""Runs `equigrad bench step` and peer_tuned.sh in turn, several rounds, and prints the medians, their ratio and the
peak memory of each. On an idle machine only: see README.md beside this file.

    tests/bench/compare.py build/release/bin/equigrad --rounds 3 --core SKYLAKEX --core HASWELL
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("equigrad")
    parser.add_argument("--case", action="append", help="default: the three ViT cases")
    parser.add_argument("--core", action="append", help="OpenBLAS kernels for the peer; the best one counts")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    print(f"load average {os.getloadavg()[0]:.1f}")
    print(f"{'case':<16}{'equigrad ms':>12}{'MB':>7}{'peer ms':>10}{'MB':>7}{'ratio':>7}  peer")
    for case in args.case or ["vit-cifar", "vit-cifar-wide", "vit-tiny"]:
        own, peers = [], {core: [] for core in args.core or [""]}
        for _ in range(args.rounds):
            own.append(one([args.equigrad, "bench", "step", "--case", case, "--json", "-"]))
            for core, results in peers.items():
                results.append(one([HERE / "peer_tuned.sh", "--case", case], {"CORE": core} if core else None))
        ms = {core: statistics.median(r["ms"] for r in results) for core, results in peers.items()}
        best = min(ms, key=ms.get)
        mine = statistics.median(r["ms"] for r in own)
        print(
            f"{case:<16}{mine:>12.1f}{max(r['rss_mb'] for r in own):>7.0f}{ms[best]:>10.1f}"
            f"{min(r['rss_mb'] for r in peers[best]):>7.0f}{ms[best] / mine:>7.2f}"
            f"  {peers[best][0]['engine']} {best}",
            flush=True,
        )


if __name__ == "__main__":
    main()
