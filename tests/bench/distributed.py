#!/usr/bin/env python3
"""Measures training over MPI's processes on this machine, and predicts other machines from what was measured.

    tests/bench/distributed.py step build/release/bin/equigrad --rounds 5    # 2 processes of 1 thread beside 1 of 2
    tests/bench/distributed.py memory build/release/bin/equigrad             # gpt2-small on 4 processes
    mpirun -n 2 build/release/bin/distributed_ping                           # latency, cost of a message, bandwidth
    tests/bench/distributed.py predict --latency ... --message ... --case vit-cifar:SECONDS:MEGABYTES

`step` and `memory` train the models of `bench step` by `equigrad train`, with data loading, optimiser and logging. They
need EQUIGRAD_DATA with CIFAR-10, IMDB, tinyshakespeare and the tokenizers of BERT and GPT-2.
"""

import argparse
import concurrent.futures
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

MPIRUN = ["mpirun.openmpi", "--oversubscribe", "--bind-to", "none"]
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def cases():
    """Of each case: arguments of `train`, samples of a batch, units a sample has in metrics."""
    tokens = pathlib.Path(os.environ.get("EQUIGRAD_DATA", "data"), "tokenizers")
    vit = "vit --data cifar10 --dim 512 --layers 6 --heads 1 --mlp 512 --patch 4 --optimizer adam --train-limit 2000"
    bert = "bert --data imdb --dim 256 --layers 2 --heads 4 --mlp 512 --context 128 --optimizer adam --warmup 0"
    gpt2 = "gpt2 --data tinyshakespeare --held-out 0.001 --dim 768 --layers 12 --heads 12 --context 64 --tied --warmup 0"
    return {
        "vit-cifar": (f"{vit} --test-limit 10", 64, 1),
        "bert-small": (f"{bert} --test-limit 10 --tokenizer {tokens / 'bert-base-uncased'}", 32, 1),
        "gpt2-small": (f"{gpt2} --optimizer adamw --tokenizer {tokens / 'gpt2'}", 4, 64),
    }


def train(args, case, processes, threads, more=(), batch=None):
    """The JSON of one training, with `step_seconds`, `waited_share` (of all waits, with those at the start) and the peak memory of each process, in MB."""
    arguments, default_batch, units = cases()[case]
    batch = batch or default_batch
    with tempfile.TemporaryDirectory() as scratch:
        wrap = [sys.executable, __file__, "wrap", scratch]
        program = [args.equigrad, "train", *arguments.split(), "--batch", str(batch), "--steps", str(args.steps)]
        program += ["--out", f"{scratch}/run", "--json", f"{scratch}/json", "--quiet", "--threads", str(threads), *more]
        launcher = [*MPIRUN, "-n", str(processes)] if processes > 1 else []
        environment = {**os.environ, **AS_ROOT}
        done = subprocess.run(launcher + wrap + program, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{' '.join(map(str, program))}: {done.stderr.strip()}")
        result = json.loads(pathlib.Path(scratch, "json").read_text())
        lines = [json.loads(line) for line in pathlib.Path(scratch, "run/metrics.jsonl").read_text().splitlines()]
        rates = [v for line in lines if line["split"] == "train" for k, v in line.items() if k.endswith("_per_s")]
        result["steps"] = [batch * units / rate for rate in rates[1:]]
        result["step_seconds"] = statistics.median(result["steps"])
        result["waited_share"] = result.get("waited_seconds", 0.0) / (result["step_seconds"] * args.steps)
        result["peaks"] = [int(p.read_text()) / 1024 for p in sorted(pathlib.Path(scratch).glob("peak.*"))]
        return result


def wrap(scratch, command):
    """Runs a command, and leaves its peak resident memory (KiB) in a file named by its rank."""
    rank = os.environ.get("OMPI_COMM_WORLD_RANK", "0")
    pid = os.spawnvp(os.P_NOWAIT, command[0], command)
    _, status, usage = os.wait4(pid, 0)
    pathlib.Path(scratch, f"peak.{rank}").write_text(str(usage.ru_maxrss))
    return os.waitstatus_to_exitcode(status)


def apart(args, case, processes, batch):
    """Processes that share nothing, each with its part of the batch: what is lost to the slower one of each step."""
    with concurrent.futures.ThreadPoolExecutor(processes) as pool:
        trained = list(pool.map(lambda _: train(args, case, 1, 1, (), batch // processes), range(processes)))
    slowest = [max(seconds) for seconds in zip(*(r["steps"] for r in trained))]
    return {"step_seconds": statistics.median(slowest)}


def step(args):
    """2 processes of 1 thread beside 1 process of 2 threads, in turn, and beside 2 that share nothing."""
    kinds = {
        "1x2": (1, 2, ()),
        "2x1 apart": None,
        "2x1": (2, 1, ("--shards", "2")),
        "2x1 overlap off": (2, 1, ("--shards", "2", "--overlap", "off")),
        "2x1 --shards 8": (2, 1, ("--shards", "8")),
        "2x1 --shard-optimizer": (2, 1, ("--shards", "2", "--shard-optimizer")),
    }
    if not args.all:
        kinds = {name: kinds[name] for name in ("1x2", "2x1 apart", "2x1")}
    print("| case | run | seconds a step | efficiency (medians) | best | waited, at most |")
    print("|---|---|--:|--:|--:|--:|")
    for case in args.case or cases():
        results = {name: [] for name in kinds}
        for _ in range(args.rounds):
            for name, how in kinds.items():
                results[name].append(train(args, case, *how) if how else apart(args, case, 2, cases()[case][1]))
        seconds = {name: [r["step_seconds"] for r in found] for name, found in results.items()}
        for name, found in results.items():
            ratio = statistics.median(seconds["1x2"]) / statistics.median(seconds[name])
            best = min(seconds["1x2"]) / min(seconds[name])
            waited = statistics.median(r.get("waited_share", 0.0) for r in found)
            middle = statistics.median(seconds[name])
            print(f"| {case} | {name} | {middle:.3f} | {ratio:.2f} | {best:.2f} | {waited:.1%} |", flush=True)


def memory(args):
    """The peak memory of gpt2-small in one process, and in 4 with and without a divided optimiser."""
    print("| run | peak of each process, MB |")
    print("|---|---|")
    for name, processes, more in (
        ("one process, whole batch", 1, ()),
        ("one process, --shards 4", 1, ("--shards", "4")),
        ("4 processes, --shards 4", 4, ("--shards", "4")),
        ("4 processes, --shards 4 --shard-optimizer", 4, ("--shards", "4", "--shard-optimizer")),
    ):
        result = train(args, "gpt2-small", processes, 1, more)
        print(f"| {name} | {', '.join(f'{p:.0f}' for p in result['peaks'])} |", flush=True)


def predicted(n, step_seconds, backward_share, gradient_bytes, bits, latency, message, bucket=4 << 20):
    """Efficiency of n machines that each compute a batch of their own: compute / (compute + what stays visible)."""
    bandwidth = bits / 8
    buckets = math.ceil(gradient_bytes / bucket)
    unit = min(131072, max(8192, bucket / n))  # bytes that one process owns together (distributed/gradient_sum.cpp)

    def seconds(count):  # of `count` buckets: shard sums and flags to owners, sums back; the busiest process counts
        owned = max(unit, min(gradient_bytes, count * bucket) / n)
        return count * (2 * latency + 3 * (n - 1) * message) + 2 * (n - 1) * owned / bandwidth

    hidden = step_seconds * backward_share * (1 - 1 / buckets)  # the first bucket must be full, the last one is late
    visible = max(seconds(buckets) - hidden, seconds(1))
    return step_seconds / (step_seconds + visible)


def predict(args):
    """The table of predicted efficiencies."""
    machines = [2, 4, 8, 16, 64, 256, 1024]
    print("| case, seconds a step, gradients | link | " + " | ".join(f"{n:,}" for n in machines) + " |")
    print("|---|---|" + "--:|" * len(machines))
    for case in args.case:
        name, seconds, megabytes = case.split(":")
        for gigabits in (1, 10, 100):
            row = [
                predicted(n, float(seconds), args.backward, float(megabytes) * 1e6, gigabits * 1e9, args.latency, args.message)
                for n in machines
            ]
            print(f"| {name}, {seconds} s, {megabytes} MB | {gigabits} Gbit/s | " + " | ".join(f"{e:.2f}" for e in row) + " |")


def main():
    if sys.argv[1:2] == ["wrap"]:
        raise SystemExit(wrap(sys.argv[2], sys.argv[3:]))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    verbs = parser.add_subparsers(required=True)
    for name, function in (("step", step), ("memory", memory)):
        verb = verbs.add_parser(name, help=function.__doc__)
        verb.set_defaults(run=function)
        verb.add_argument("equigrad")
        verb.add_argument("--steps", type=int, default=8)
    verbs.choices["step"].add_argument("--case", action="append", choices=list(cases()))
    verbs.choices["step"].add_argument("--rounds", type=int, default=5)
    verbs.choices["step"].add_argument("--all", action="store_true", help="also without overlap, in 8 shards, divided")
    verb = verbs.add_parser("predict", help=predict.__doc__)
    verb.set_defaults(run=predict)
    verb.add_argument("--case", action="append", required=True, help="NAME:SECONDS:MEGABYTES, of one machine's step")
    verb.add_argument("--backward", type=float, default=0.6, help="share of a step that the backward pass is")
    verb.add_argument("--latency", type=float, required=True, help="seconds until a message's first byte is there")
    verb.add_argument("--message", type=float, required=True, help="seconds that a process spends on a message")
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
