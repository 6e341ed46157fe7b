#!/usr/bin/env python3
"""Kills training runs with SIGKILL at random moments until they are done all the same.

    kill_runs.py PROGRAM [--kills 200] [--seed 0] [--models vit,gpt2] [--folder DIR]

Every run goes on, in a process with 1, 2 or 3 threads and 0 to 3 loader workers, from what the killed one left. It must
end in the weights, byte for byte, of a run that was left alone, with every step and test once in its metrics.
"""

import argparse
import collections
import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

VIT = ["vit", "--data", "shapes", "--size", "16", "--train-limit", "96", "--test-limit", "32", "--dim", "16",
       "--layers", "2", "--heads", "2", "--mlp", "32", "--patch", "4", "--batch", "16", "--augment", "--dropout", "0.1",
       "--steps", "150"]
GPT2 = ["gpt2", "--dim", "16", "--layers", "2", "--heads", "2", "--context", "32", "--batch", "4", "--warmup", "5",
        "--dropout", "0.1", "--spike-guard", "1.5", "--steps", "250"]
WEIGHTS = {"vit": "model.safetensors", "gpt2": "model/model.safetensors"}


class Model:
    def __init__(self, name, folder, program):
        self.name, self.folder, self.program = name, folder, program
        self.options = list(VIT)
        if name == "gpt2":
            text = folder / "story.txt"
            text.write_text("".join(f"{i * i} sheep went to the fair, and {i} came home.\n" for i in range(80)))
            self.options = GPT2 + ["--data", str(text)]
        self.options += ["--evaluate-every", "20", "--checkpoint-every", "7"]
        begin = time.monotonic()
        self.whole = self.result(self.start(self.new("whole"), threads=1, workers=1, wait=True))
        self.seconds = time.monotonic() - begin

    def new(self, name):
        return self.folder / f"{self.name}-{name}"

    def start(self, run, threads, workers, wait=False):
        going_on = (run / "checkpoints").is_dir() and any((run / "checkpoints").glob("step-*/state.json"))
        arguments = [self.name, "--resume", str(run)] if going_on else self.options + ["--out", str(run)]
        if self.name == "vit":
            arguments += ["--workers", str(workers)]
        process = subprocess.Popen([self.program, "train", *arguments, "--threads", str(threads), "--quiet"],
                                   stderr=subprocess.PIPE, text=True)
        if not wait:
            return process
        error = process.communicate()[1]
        if process.returncode != 0:
            sys.exit(f"{run}: exit code {process.returncode}: {error}")
        return run

    def result(self, run):
        records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        losses = {(r["split"], r["step"]): r["loss"] for r in records}
        if len(losses) != len(records):
            sys.exit(f"{run}: metrics.jsonl holds a step twice")
        rows = (run / "metrics.csv").read_text().count("\n")
        if rows != 1 + len(records):
            sys.exit(f"{run}: metrics.csv has {rows} lines for {len(records)} records")
        return (run / WEIGHTS[self.name]).read_bytes(), losses

    def kill_until_done(self, run, random_, kills):
        """Kills at most `kills` processes; returns how many, by threads."""
        found = collections.Counter()
        while sum(found.values()) < kills:
            threads, workers = random_.choice([1, 2, 3]), random_.choice([0, 1, 2, 3])
            process = self.start(run, threads, workers)
            try:
                error = process.communicate(timeout=random_.uniform(0.0, self.seconds * 0.7))[1]
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                found[threads] += 1
                continue
            if process.returncode != 0:
                sys.exit(f"{run}: exit code {process.returncode}: {error}")
            return found
        self.start(run, random_.choice([1, 2, 3]), random_.choice([0, 1, 2, 3]), wait=True)
        return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--models", default="vit,gpt2")
    parser.add_argument("--folder", type=pathlib.Path, help="where runs are made (default: a temporary folder)")
    args = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="kill-runs-", dir=args.folder))
    models = [Model(name, folder, args.program) for name in args.models.split(",")]
    random_ = random.Random(args.seed)
    kills, runs = collections.Counter(), 0
    while sum(kills.values()) < args.kills:
        model = models[runs % len(models)]
        run = model.new(f"run-{runs}")
        kills += model.kill_until_done(run, random_, args.kills - sum(kills.values()))
        weights, losses = model.result(run)
        if weights != model.whole[0]:
            sys.exit(f"{run}: other weights than the run that was left alone ({model.name})")
        if losses != model.whole[1]:
            sys.exit(f"{run}: other losses than the run that was left alone ({model.name})")
        shutil.rmtree(run)
        runs += 1
        if sys.stderr.isatty():
            print(f"\r{sum(kills.values())}/{args.kills} kills, {runs} runs", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    by_threads = ", ".join(f"{kills[n]} with {n} threads" for n in sorted(kills))
    print(f"{sum(kills.values())} processes killed ({by_threads}) in {runs} runs; every run ended in the same bytes")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
