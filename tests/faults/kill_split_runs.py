#!/usr/bin/env python3
"""Kills edges and clouds of split learning with SIGKILL at random moments until the training is complete all the same.

    kill_split_runs.py PROGRAM [--kills 100] [--seed 0] [--folder DIR]

A killed cloud is started again with its folder, an edge is resumed, with 1, 2 or 3 threads. The training must end in the
weights, byte for byte, of one that was left alone, with every step and test once in its metrics.
"""

import argparse
import collections
import json
import pathlib
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time

EDGE = ["--data", "shapes", "--size", "16", "--train-limit", "96", "--test-limit", "32", "--dim", "16", "--layers", "2",
        "--heads", "2", "--mlp", "32", "--patch", "4", "--batch", "16", "--augment", "--dropout", "0.1", "--seed", "3",
        "--steps", "80", "--evaluate-every", "20", "--checkpoint-every", "5", "--permute", "both", "--finish", "encrypted"]
GIVES_UP = 60  # seconds without any progress


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Training:
    """One edge, one cloud, their folders, and the port they meet at."""

    def __init__(self, program, folder, certs, key):
        self.program, self.folder, self.certs, self.key = program, folder, certs, key
        self.run = folder / "edge"
        self.port = free_port()
        folder.mkdir()

    def start_cloud(self, threads):
        self.cloud = subprocess.Popen(
            [self.program, "cloud", "--listen", f"127.0.0.1:{self.port}", "--model", "any", "--certs", self.certs, "--out",
             self.folder / "cloud", "--seed", "3", "--threads", str(threads), "--quiet"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        until = time.monotonic() + GIVES_UP
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                if self.cloud.poll() is not None or time.monotonic() > until:
                    sys.exit(f"{self.folder}: the cloud does not listen: {self.cloud.stderr.read()}")
                time.sleep(0.01)

    def start_edge(self, threads):
        resumable = any(self.run.glob("checkpoints/step-*/state.json"))
        options = ["--resume", self.run] if resumable else [*EDGE, "--key", self.key, "--out", self.run]
        self.edge = subprocess.Popen(
            [self.program, "edge", "vit", *options, "--connect", f"127.0.0.1:{self.port}", "--certs", self.certs,
             "--attempts", "3", "--threads", str(threads), "--quiet"], stderr=subprocess.PIPE, text=True)

    def end_cloud(self):
        self.cloud.kill()
        self.cloud.communicate()

    def result(self):
        records = [json.loads(line) for line in (self.run / "metrics.jsonl").read_text().splitlines()]
        losses = {(r["split"], r["step"]): r["loss"] for r in records}
        if len(losses) != len(records):
            sys.exit(f"{self.run}: metrics.jsonl holds a step twice")
        return (self.run / "model.safetensors").read_bytes(), losses


def train(training, random_, kills, seconds):
    """Kills at most `kills` processes; returns how many of each."""
    found = collections.Counter()
    training.start_cloud(random_.choice([1, 2, 3]))
    while True:
        training.start_edge(random_.choice([1, 2, 3]))
        try:
            wait = random_.uniform(0.0, seconds * 0.7) if sum(found.values()) < kills else GIVES_UP + 10 * seconds
            error = training.edge.communicate(timeout=wait)[1]
            if training.edge.returncode == 0:
                break
            sys.exit(f"{training.run}: exit code {training.edge.returncode}: {error}")
        except subprocess.TimeoutExpired:
            pass
        victim = random_.choice(["edge", "cloud", "both"])
        if victim != "edge":
            training.end_cloud()
            found["cloud"] += 1
        if victim != "cloud":
            training.edge.kill()
            found["edge"] += 1
            training.edge.communicate()
        else:
            error = training.edge.communicate(timeout=GIVES_UP)[1]
            if training.edge.returncode == 0:  # it was complete
                training.start_cloud(1)
                break
            if training.edge.returncode != 2 or not ("net: " in error or "cloud" in error):
                sys.exit(f"{training.run}: without its cloud: exit code {training.edge.returncode}: {error}")
        if victim != "edge":
            training.start_cloud(random_.choice([1, 2, 3]))
    training.end_cloud()
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=pathlib.Path, help="where runs are made (default: a temporary folder)")
    args = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="kill-split-runs-", dir=args.folder))
    certs, key = folder / "certs", folder / "secret.key"
    subprocess.run([args.program, "certs", "--out", certs, "--quiet"], check=True)
    subprocess.run([args.program, "keygen", "--out", key, "--quiet"], check=True)
    random_ = random.Random(args.seed)
    whole = Training(args.program, folder / "whole", certs, key)
    begin = time.monotonic()
    train(whole, random_, 0, 60)
    seconds = time.monotonic() - begin
    weights, losses = whole.result()
    kills, runs = collections.Counter(), 0
    while sum(kills.values()) < args.kills:
        training = Training(args.program, folder / f"run-{runs}", certs, key)
        kills += train(training, random_, args.kills - sum(kills.values()), seconds)
        its_weights, its_losses = training.result()
        if its_weights != weights:
            sys.exit(f"{training.run}: other weights than the training that was left alone")
        if its_losses != losses:
            sys.exit(f"{training.run}: other losses than the training that was left alone")
        shutil.rmtree(training.folder)
        runs += 1
        if sys.stderr.isatty():
            print(f"\r{sum(kills.values())}/{args.kills} kills, {runs} runs", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    print(f"{kills['edge']} edges and {kills['cloud']} clouds killed in {runs} trainings; every one ended in the same bytes")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
