#!/usr/bin/env python3
"""Errors of a training on several processes: its exit code, one message, what is left on the disk.

    train_errors.py PROGRAM [PART]
"""

import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time

from train_launch import SKIPPED, Training, difference, hashes, launchers, module_of, train, whole_checkpoint
from train_models import write_data

MODEL = ["train", "gpt2", "--data", "story.txt", "--context", "16", "--dim", "16", "--heads", "2", "--layers", "2",
         "--warmup", "2", "--shards", "8", "--batch", "12", "--quiet"]
# Does something in process 1 alone, then becomes the program.
IN_ONE = """#!/bin/sh
[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 1 ] && . ./in-one.sh
exec "$@" $MORE
"""


class Errors:
    def __init__(self, program, folder, launcher):
        self.program, self.launcher = program, launcher
        self.place = folder / launcher.name
        self.place.mkdir()
        write_data(self.place)
        (self.place / "one.sh").write_text(IN_ONE)

    def start(self, arguments, in_one=None, processes=3, **more):
        prefix = ()
        if in_one is not None:
            (self.place / "in-one.sh").write_text(in_one + "\n")
            prefix = ("sh", "./one.sh")
        return Training(self.program, arguments, self.place, self.launcher, processes, prefix=prefix, **more)

    def lines(self, text):
        """What the program says, without its launcher's words."""
        return [line for line in text.splitlines() if line.startswith("equigrad: ")]

    def check(self, what, arguments, wanted, in_one=None, code=2, seconds=30):
        """One message, which holds `wanted`, and that exit code, within some seconds."""
        got, _, err = self.start(arguments, in_one).wait(seconds)
        lines = self.lines(err)
        where = f"{self.launcher.name}: {what}"
        assert got == code, f"{where}: exit code {got}: {err}"
        assert len(lines) == 1, f"{where}: {len(lines)} messages: {err}"
        assert wanted in lines[0], f"{where}: no '{wanted}': {lines[0]}"

    def inputs(self):
        steps = [*MODEL, "--steps", "3"]
        (self.place / "bad.tsv").write_text("label\ttext\n1\ta\n2\n")
        self.check("a number", [*steps, "--lr", "x"], "--lr: 'x' is not a number")
        self.check("a flag twice", [*steps, "--lr", "1", "--lr", "2"], "--lr is given twice")
        self.check("a verb of one process", ["inspect", "."], "inspect works in one process")
        self.check("no file", [*steps[:3], "none.txt", *steps[4:]], "none.txt: no such text")
        self.check("bad data", ["train", "bert", "--data", "bad.tsv", "--steps", "3"], "bad.tsv: line 3 has 1 column")
        self.check("a NaN", [*MODEL, "--steps", "9", "--lr", "1e30", "--optimizer", "sgd", "--out", "nan"],
                   "the loss is nan at step 1")
        assert not (self.place / "nan/checkpoints").exists(), "a run of NaN left a checkpoint"

    def one_differs(self):
        steps = [*MODEL, "--steps", "3", "--out", "differs"]
        (self.place / "other").mkdir()
        text = (self.place / "story.txt").read_text()
        (self.place / "other/story.txt").write_text(text.replace("sheep", "goats", 1))
        self.check("another option", steps, "has lr 0.5, and process 0 has 0.002", "MORE='--lr 0.5'")
        self.check("another seed", steps, "has seed 3, and process 0 has 0", "MORE='--seed 3'")
        self.check("other data", steps, "the data is not that of process 0", "cd other")
        self.check("another verb", steps, "the verb is not that of process 0", 'set -- "$1" verify')
        # What one process meets before it has started MPI, where the others wait.
        self.check("usage in one", steps, ": --steps is given twice", "MORE='--steps 4'")
        self.check("no file in one", steps, "story.txt: no such text", "cd /")

    def another_mpi(self):
        """Each process would be alone, and train a run of its own."""
        for name in {"openmpi", "mpich"} - {self.launcher.name}:
            if (module := module_of(self.program, name)) is None:
                continue
            training = self.start([*MODEL, "--steps", "3", "--out", "other-mpi"], env={"EQUIGRAD_MPI_MODULE": str(module)})
            code, _, err = training.wait(60)
            lines = self.lines(err)
            where = f"{self.launcher.name}: the module of {name}"
            assert code != 0, f"{where}: exit code 0: {err}"
            assert lines and all("it is another MPI than the launcher's" in line for line in lines), f"{where}: {err}"
            assert not (self.place / "other-mpi").exists(), f"{where}: trained"

    def memory(self):
        """A process whose memory ends: below a limit that lets MPI start, and not this model."""
        big = ["train", "gpt2", "--data", "story.txt", "--context", "256", "--dim", "512", "--heads", "4", "--layers", "12",
               "--batch", "8", "--shards", "8", "--warmup", "1", "--steps", "1", "--quiet"]
        self.check("no memory", big, "this process may have 512.0 MB (ulimit -v raises it)", "ulimit -v 500000", 2, 120)

    def folder_there(self):
        steps = [*MODEL, "--steps", "3", "--out", "there"]
        train(self.program, steps, self.place, self.launcher, 3)
        before = hashes(self.place / "there")
        self.check("a folder that is there", steps, "there already holds a run (step 3)")
        assert not difference(before, hashes(self.place / "there")), "a refused run changed the folder"

    def another_step(self):
        """One machine's copy of the run lacks the newest checkpoint."""
        command = [*MODEL, "--checkpoint-every", "5", "--out", "behind", "--resume", "auto"]
        train(self.program, [*command, "--steps", "10"], self.place, self.launcher, 3)
        shutil.copytree(self.place / "behind", self.place / "copy/behind")
        shutil.copy(self.place / "story.txt", self.place / "copy")
        before = hashes(self.place / "behind")
        go_on = [*command, "--steps", "15"]
        shutil.rmtree(self.place / "copy/behind/checkpoints/step-00000010")
        self.check("another step", go_on, "the step of the checkpoint that it found is not that of process 0", "cd copy")
        assert not difference(before, hashes(self.place / "behind")), "a refused run changed the folder"
        assert whole_checkpoint(self.place / "behind") == 10
        train(self.program, go_on, self.place, self.launcher, 3)  # the control: all have the same

    def signals(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            for to in ("launcher", 0, 1):
                run = self.place / f"{number.name}-{to}"
                training = self.start([*MODEL, "--steps", "100000", "--out", run.name])
                begun = training.wait_for(lambda: (run / "metrics.jsonl").exists() and
                                          (run / "metrics.jsonl").stat().st_size > 200)
                assert begun, f"does not train: {training.text('err')}"
                os.kill(training.process.pid if to == "launcher" else training.ranks()[to], number)
                code, _, err = training.wait(20)
                where = f"{self.launcher.name}: {number.name} to {to}"
                # A launcher that is signalled itself has an exit code of its own: Open MPI's 1, MPICH's sometimes 0.
                own = {"openmpi": 1, "mpich": 0}[self.launcher.name] if to == "launcher" else 130
                assert code in (own, 130), f"{where}: exit code {code}: {err}"
                lines = self.lines(err)
                assert len(lines) == 1 and "train: interrupted at step" in lines[0], f"{where}: {err}"
                step = whole_checkpoint(run)
                assert step > 0 and f"step {step} of" in lines[0], f"{where}: checkpoint {step}: {lines[0]}"

    def early_signals(self):
        """SIGTERM to one process before the first step, while others are at something else."""
        words = ["train", "vit", "--data", "digits", "--train-limit", "1500", "--test-limit", "32", "--dim", "24", "--layers",
                 "1", "--heads", "2", "--mlp", "48", "--steps", "100000"]
        for rank in (0, 1):
            run = self.place / f"early-{rank}"
            training = self.start([*words, "--out", run.name], processes=2)
            assert training.wait_for((run / "run.lock").exists), f"does not begin: {training.text('err')}"
            os.kill(training.ranks()[rank], signal.SIGTERM)
            code, _, err = training.wait(60)
            lines = self.lines(err)
            where = f"{self.launcher.name}: an early SIGTERM to {rank}"
            assert code == 130, f"{where}: exit code {code}: {err}"
            assert len(lines) <= 1 and all("interrupted" in line for line in lines), f"{where}: {err}"

    def stands_still(self):
        """A process that stops before it has started MPI, in which the others wait for it."""
        training = self.start([*MODEL, "--steps", "3"], in_one="kill -STOP $$", env={"EQUIGRAD_MPI_TIMEOUT": "2"})
        code, _, err = training.wait(30)
        lines = self.lines(err)
        assert code != 0, f"{self.launcher.name}: exit code 0 although a process stands still: {err}"
        assert lines and all("MPI has not started within 4 s" in line for line in lines), f"{self.launcher.name}: {err}"

    def slow_checkpoint(self):
        """After SIGTERM the others wait for process 0, however long it writes."""
        run = self.place / "slow"
        big = {"--dim": "512", "--layers": "4"}
        words = [big.get(MODEL[i - 1], w) for i, w in enumerate(MODEL)]
        training = self.start([*words, "--steps", "100000", "--out", "slow"], processes=2)
        assert training.wait_for((run / "metrics.jsonl").exists, 300), f"does not train: {training.text('err')}"
        ranks = training.ranks()
        os.kill(ranks[1], signal.SIGTERM)
        checkpoints = run / "checkpoints"

        def writes():  # so the others have compared their weights with process 0's, and have nothing more to do
            try:
                return any(file.stat().st_size > 1 << 20 for file in checkpoints.rglob("*.safetensors*"))
            except FileNotFoundError:  # renamed meanwhile
                return False

        assert training.wait_for(writes, 300), "writes no checkpoint"
        os.kill(ranks[0], signal.SIGSTOP)
        assert not (checkpoints / "latest").exists(), "the checkpoint was written before process 0 stood still"
        time.sleep(5)
        assert ranks[0] in training.members(), "process 0 was ended while it wrote"
        os.kill(ranks[0], signal.SIGCONT)
        code, _, err = training.wait(60)
        assert code == 130, f"exit code {code}: {err}"
        assert whole_checkpoint(run) > 0, err

    def resume_auto(self):
        """The same command begins a run, goes on after a kill, and adds nothing at its end."""
        run = self.place / "auto"
        command = [*MODEL, "--checkpoint-every", "5", "--steps", "60", "--out", "auto", "--resume", "auto"]
        train(self.program, [w for w in command[:-2]], self.place)
        whole = hashes(run)
        run.rename(self.place / "alone")

        training = self.start(command)
        latest = run / "checkpoints/latest"
        assert training.wait_for(latest.exists), f"no checkpoint: {training.text('err')}"
        os.kill(training.ranks()[1], signal.SIGKILL)
        code, _, err = training.wait(30)
        assert code != 0 or whole_checkpoint(run) == 60, f"exit code {code} after a kill: {err}"
        assert whole_checkpoint(run) >= 5
        train(self.program, command, self.place, self.launcher, 2)
        differs = difference(whole, hashes(run))
        assert not differs, f"--resume auto after a kill: {differs} differ"
        records = (run / "metrics.jsonl").read_text()
        assert records.count('"split":"train"') == 60, records[:500]

        code, _, err = self.start(command).wait(60)
        assert code == 0 and len(self.lines(err)) == 1, f"after the end: exit code {code}: {err}"
        assert "training is already complete (step 60 of 60)" in err, err
        assert not difference(whole, hashes(run)), "--resume auto after the end changed the run"

        self.check("other options", [*command, "--lr", "0.5"], "was made with other options: lr 0.002 (now 0.5)")
        self.check("no folder", [*MODEL, "--steps", "3", "--resume", "auto"], "--resume auto needs --out")
        assert not difference(whole, hashes(run)), "a refused --resume auto changed the run"
        train(self.program, [*command[:-6], "--steps", "70", *command[-4:]], self.place, self.launcher, 2)
        assert whole_checkpoint(run) == 70, "--resume auto with more steps"


def main():
    program = sys.argv[1]
    only = sys.argv[2] if len(sys.argv) > 2 else ""
    found = launchers(program)
    if not found:
        print("skipped: there is no mpirun.openmpi or mpirun.mpich with a module beside the program")
        sys.exit(SKIPPED)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="train-errors-") as folder:
        for launcher in found:
            errors = Errors(program, pathlib.Path(folder), launcher)
            for part in (errors.inputs, errors.one_differs, errors.another_mpi, errors.memory, errors.folder_there, errors.another_step,
                         errors.signals, errors.early_signals, errors.stands_still, errors.slow_checkpoint, errors.resume_auto):
                if only not in part.__name__:
                    continue
                start = time.monotonic()
                part()
                print(f"{launcher.name}: {part.__name__}: {time.monotonic() - start:.0f} s", flush=True)
    print(f"{time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
