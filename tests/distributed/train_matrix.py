#!/usr/bin/env python3
"""Trains every model on several numbers of processes, and asks for the same bytes.

    train_matrix.py PROGRAM [--long] [--only WORD]

Every checkpoint and result must have the SHA-256 of the run of one process, which no launcher started. Another seed and
another number of shards must have another. --long asks it of all optimisers, 1 to 8 processes, both MPIs, and of the
divided optimiser each time, and of exact sums; without it in a few of these.
"""

import argparse
import pathlib
import sys
import tempfile
import time

from train_launch import SKIPPED, difference, hashes, launchers, train
from train_models import MODELS, arguments, write_data

OPTIMIZERS = ("sgd", "momentum", "nesterov", "adam", "rmsprop", "lion", "adafactor", "muon")


class Matrix:
    def __init__(self, program, folder, found):
        self.program, self.folder, self.found = program, folder, found
        self.runs = self.compared = 0
        self.failures = []

    def hashes_of(self, words, launcher=None, processes=1):
        place = self.folder / f"run-{self.runs}"
        place.mkdir()
        write_data(place)
        self.runs += 1
        train(self.program, [*words, "--out", "run"], place, launcher, processes)
        return hashes(place / "run")

    def compare(self, name, words, ways):
        """`ways`: (launcher, processes, more options)."""
        whole = self.hashes_of(words)
        for launcher, processes, more in ways:
            what = f"{name}: {processes} processes of {launcher.name} {' '.join(more)}"
            try:
                differs = difference(whole, self.hashes_of([*words, *more], launcher, processes))
            except AssertionError as error:
                differs = str(error)
            self.compared += 1
            if differs:
                self.failures.append(f"{what}: {differs}")
                print(self.failures[-1], flush=True)
        return whole

    def small(self, only):
        divided, behind = ["--shard-optimizer"], ["--overlap", "off"]
        first, last = self.found[0], self.found[-1]
        for k, name in enumerate(n for n in MODELS if only in n):
            one, other = (first, last) if k % 2 == 0 else (last, first)
            self.compare(name, arguments(name), [(one, 2, []), (other, 4, behind), (one, 3, divided)])
        for more in (["--exact"], ["--dtype", "f64"]):
            name = f"vit-all {more[-1].strip('-')}"
            if only in name:
                self.compare(name, arguments("vit-all", *more), [(first, 3, []), (last, 2, [*divided, "--threads", "2"])])
        for optimizer in ("muon", "adafactor"):
            name = f"gpt2 {optimizer}"
            if only in name:
                words = arguments("gpt2", "--optimizer", optimizer)
                self.compare(name, words, [(first, 4, divided), (last, 2, [])])

    def long(self, only):
        for name in (n for n in MODELS if only in n):
            for optimizer in ("adamw", *OPTIMIZERS):
                numbers = (1, 2, 3, 4, 5, 8) if optimizer == "adamw" else (2, 4) if optimizer in ("muon", "adafactor") else (3,)
                ways = [(launcher, n, more) for launcher in self.found for n in numbers
                        for more in ([], ["--shard-optimizer"])
                        if optimizer == "adamw" or (n + len(more)) % 2 == self.found.index(launcher)]
                self.compare(f"{name} {optimizer}", arguments(name, "--optimizer", optimizer, steps=6), ways)
            ways = [(self.found[n % len(self.found)], n, more) for n in (1, 2, 3, 5) for more in ([], ["--shard-optimizer"])]
            self.compare(f"{name} exact", arguments(name, "--exact"), ways)

    def controls(self):
        """Negative controls: what may change the bits does."""
        launcher = self.found[0]
        whole = self.hashes_of(arguments("vit-all"))
        for what, words in (("another number of shards", arguments("vit-all", shards=4)),
                            ("exact sums", arguments("vit-all", "--exact")),
                            ("another seed", arguments("vit-all", seed=1))):
            if not difference(whole, self.hashes_of(words, launcher, 2)):
                self.failures.append(f"negative control: {what} gives the same bytes")
            other = self.hashes_of(words)
            weights = "checkpoints/step-00000004/model.safetensors"
            if whole[weights] == other[weights]:
                self.failures.append(f"negative control: {what} gives the same weights")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--only", default="", help="models whose names hold this word")
    args = parser.parse_args()
    found = launchers(args.program)
    if not found:
        print("skipped: there is no mpirun.openmpi or mpirun.mpich with a module beside the program")
        sys.exit(SKIPPED)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="train-matrix-") as folder:
        matrix = Matrix(args.program, pathlib.Path(folder), found)
        (matrix.long if args.long else matrix.small)(args.only)
        matrix.controls()
    print(f"{matrix.runs} runs, {matrix.compared} compared with one process, {len(matrix.failures)} differ; "
          f"{time.monotonic() - begin:.0f} s; {' and '.join(l.name for l in found)}")
    for failure in matrix.failures:
        print(failure)
    sys.exit(1 if matrix.failures else 0)


if __name__ == "__main__":
    main()
