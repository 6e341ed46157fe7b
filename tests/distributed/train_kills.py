#!/usr/bin/env python3
"""Kills processes of a training on several with SIGKILL, at random moments.

    train_kills.py PROGRAM [--resumes 2] [--ends 3] [--seed 0]

--resumes: one of four processes is killed; what it left is gone on with by two, or by four of another MPI, until the
run is done. It must end in the bytes of a run of one process that was left alone.
--ends: one of four processes is killed, or (each third time) stopped, as one that hangs; all must end within 15 s, a
message must name the process, its host and why (why alone where it was stopped before MPI had started), and the newest
checkpoint must be whole. What a launcher says of one
that was killed is the launcher's: MPICH's names the host and the signal, but no rank.
"""

import argparse
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import sys
import tempfile
import time

from train_launch import SKIPPED, Training, difference, hashes, launchers, train, whole_checkpoint
from train_models import arguments, write_data

NOT_STARTED = "MPI has not started within"
LIMIT = 15.0  # seconds in which all processes end after one of them was killed


def words_of(model, steps, *more):
    return arguments(model, *more, steps=steps, checkpoint_every=5, evaluate_every=20)


class Kills:
    def __init__(self, program, folder, found, random_):
        self.program, self.folder, self.found, self.random = program, folder, found, random_
        self.slowest = {}  # seconds, by signal

    def place(self, name):
        place = self.folder / name
        place.mkdir()
        write_data(place)
        return place

    def seconds_of(self, words, place, launcher, processes):
        begin = time.monotonic()
        train(self.program, [*words, "--out", "run"], place, launcher, processes)
        seconds = time.monotonic() - begin
        shutil.rmtree(place / "run")
        return seconds

    def kill_one(self, training, seconds, number=signal.SIGKILL):
        """Kills a random process at a random moment: (rank, pid, host); nothing where the run was done before."""
        training.wait_for(lambda: len(training.ranks()) == 4)
        time.sleep(self.random.uniform(0.0, seconds))
        ranks = training.ranks()
        if len(ranks) < 4:
            return None
        rank = self.random.choice(sorted(ranks))
        os.kill(ranks[rank], number)
        return rank, ranks[rank], socket.gethostname()

    def resumes(self, kills):
        done = runs = 0
        while done < kills:
            model = ("vit-all", "gpt2", "llama", "difm")[runs % 4]
            more = ("--shard-optimizer",) if runs % 2 else ()
            place = self.place(f"resumes-{runs}")
            words = words_of(model, 120, *more)
            train(self.program, [*words, "--out", "run"], place)
            whole = hashes(place / "run")
            shutil.rmtree(place / "run")
            seconds = self.seconds_of(words, place, self.found[0], 4)
            runs += 1
            for attempt in range(1, 100):
                launcher = self.found[attempt % len(self.found)]
                # Four that may be killed, then two, and so on; `auto` begins where there is no checkpoint yet.
                processes = 4 if attempt % 2 or done < kills and attempt < 4 else 2
                training = Training(self.program, [*words, "--out", "run", "--resume", "auto"], place, launcher, processes)
                if processes == 4 and done < kills and self.kill_one(training, 0.7 * seconds):
                    done += 1
                    training.wait(60)
                    whole_checkpoint(place / "run")
                    if done % 2:  # and at once by two processes
                        train(self.program, [*words, "--out", "run", "--resume", "auto"], place, launcher, 2)
                        break
                    continue
                code, _, err = training.wait()
                assert code == 0, f"exit code {code}: {err}"
                break
            found = hashes(place / "run")
            differs = difference(whole, found)
            assert not differs, f"{place}: {model}: after kills these files are not those of one process: {differs}"
            shutil.rmtree(place)
        return done, runs

    def ends(self, kills):
        done = attempts = 0
        place = self.place("ends")
        words = words_of("gpt2", 150)
        seconds = {}
        while done < kills:
            launcher = self.found[attempts % len(self.found)]
            attempts += 1
            shutil.rmtree(place / "run", ignore_errors=True)
            if launcher.name not in seconds:
                seconds[launcher.name] = self.seconds_of(words, place, launcher, 4)
            number = signal.SIGSTOP if done % 3 == 2 else signal.SIGKILL
            training = Training(self.program, [*words, "--out", "run"], place, launcher, 4,
                                env={"EQUIGRAD_MPI_TIMEOUT": "4"})
            killed = self.kill_one(training, 0.8 * seconds[launcher.name], number)
            begin = time.monotonic()
            try:
                code, out, err = training.wait(LIMIT)
            except AssertionError as hangs:
                wrote = (place / "run").is_dir()
                raise AssertionError(f"{launcher.name}, end {done}, {number.name} of {killed}, run folder: {wrote}: {hangs}") from None
            if code == 0 and (number == signal.SIGSTOP or not killed):
                continue  # it was done before
            self.slowest[number] = max(self.slowest.get(number, 0.0), time.monotonic() - begin)
            done += 1
            if (place / "run/checkpoints").is_dir():
                whole_checkpoint(place / "run")
                assert NOT_STARTED not in out + err, f"a run that wrote a checkpoint had not started MPI: {err}"
            assert killed, f"exit code {code} before any process was killed: {err}"
            self.check_message(launcher.name, number, out + err, code, *killed)
        return done

    def check_message(self, mpi, number, text, code, rank, pid, host):
        assert code != 0, f"{mpi}: exit code 0 although process {rank} was killed"
        if number == signal.SIGSTOP and NOT_STARTED in text:  # the others waited for it in MPI_Init
            return
        assert re.search(rf"\b{re.escape(host)}\b", text), f"{mpi}: no message names the host {host}: {text}"
        if number == signal.SIGSTOP:
            line = f"process {rank} (pid {pid} on {host}) has not answered for"
            assert line in text, f"{mpi}: no message has '{line}': {text}"
            return
        # MPICH's words for the same end differ by which of its processes notices first.
        causes = ["signal 9"] if mpi == "openmpi" else ["Killed (signal 9)", "EXIT CODE: 9"]
        assert any(cause in text for cause in causes), f"{mpi}: no message says why: {text}"
        named = f"process rank {rank} " in text or mpi == "mpich"
        assert named, f"{mpi}: no message names process {rank}: {text}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--resumes", type=int, default=2)
    parser.add_argument("--ends", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    found = launchers(args.program)
    if not found:
        print("skipped: there is no mpirun.openmpi or mpirun.mpich with a module beside the program")
        sys.exit(SKIPPED)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="train-kills-") as folder:
        kills = Kills(args.program, pathlib.Path(folder), found, random.Random(args.seed))
        resumed, runs = kills.resumes(args.resumes)
        ended = kills.ends(args.ends)
    words = ", ".join(f"{seconds:.1f} ({number.name})" for number, seconds in kills.slowest.items())
    print(f"{resumed} kills in {runs} runs that ended in the bytes of one process; {ended} kills after which all processes "
          f"ended, the slowest within {words} s; {time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
