"""Starts trainings in one process or through the launchers of the MPIs that this machine has."""

import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import uuid

SKIPPED = 77  # CTest's SKIP_RETURN_CODE
MARK = "EQUIGRAD_TEST_MARK"


class Launcher:
    def __init__(self, name, words):
        self.name, self.words = name, words

    def command(self, processes, more=()):
        return [*self.words, *more, "-n", str(processes)]


def module_of(program, name):
    """The module of an MPI that the program would open; None where it was not built."""
    folder = pathlib.Path(program).resolve().parent
    for place in (".", "mpi", "../mpi", "../../mpi", "../lib/equigrad"):
        file = folder / place / f"libequigrad_{name}.so"
        if file.is_file():
            return file
    return None


def launchers(program):
    """Of the MPIs that have both a launcher here and a module beside the program."""
    found = []
    for name, words in (("openmpi", ["--oversubscribe"]), ("mpich", [])):
        path = shutil.which(f"mpirun.{name}")
        if path and module_of(program, name):
            found.append(Launcher(name, [path, *words]))
    return found


def environment(**more):
    # Open MPI refuses to be started by root, as in a container of CI.
    new = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", EQUIGRAD_THREADS="1")
    new.update(more)
    return new


class Training:
    """`equigrad train` on some processes: in its own folder, its words in files."""

    def __init__(self, program, arguments, folder, launcher=None, processes=1, env=None, prefix=(), before=()):
        self.mark = uuid.uuid4().hex
        self.program = str(pathlib.Path(program).resolve())
        self.words = tempfile.TemporaryDirectory(prefix="words-")
        self.begin = time.monotonic()
        command = [*before, *(launcher.command(processes) if launcher else []), *prefix, self.program, *arguments]
        with open(self.path("out"), "wb") as out, open(self.path("err"), "wb") as err:
            self.process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                            env=environment(**{MARK: self.mark}, **(env or {})),
                                            start_new_session=True)

    def path(self, name):
        return os.path.join(self.words.name, name)

    def text(self, name):
        return pathlib.Path(self.path(name)).read_text(errors="replace")

    def members(self, program_alone=True):
        """{pid: environment} of this training's processes that run."""
        found = {}
        for entry in os.listdir("/proc"):
            if not entry.isdigit():
                continue
            try:
                raw = pathlib.Path(f"/proc/{entry}/environ").read_bytes()
                if self.mark.encode() not in raw:
                    continue
                exe = os.readlink(f"/proc/{entry}/exe")
                if pathlib.Path(f"/proc/{entry}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                    continue
            except OSError:
                continue
            if not program_alone or exe == self.program:
                words = (w.partition("=") for w in raw.decode(errors="replace").split("\0"))
                found[int(entry)] = {key: value for key, _, value in words}
        return found

    def ranks(self):
        """{rank: pid}"""
        return {int(env.get("OMPI_COMM_WORLD_RANK", env.get("PMI_RANK", 0))): pid
                for pid, env in self.members().items()}

    def wait_for(self, what, seconds=60.0):
        """Until what() is true; False where it did not become true while the training ran."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.process.poll() is None:
            if what():
                return True
            time.sleep(0.005)
        return what()

    def wait(self, seconds=300.0):
        """Waits for the launcher and for all processes: (exit code, stdout, stderr). A training that hangs is an
        error."""
        end = time.monotonic() + seconds
        try:
            code = self.process.wait(seconds)
            while self.members():
                if time.monotonic() > end:
                    raise subprocess.TimeoutExpired("equigrad", seconds)
                time.sleep(0.02)
        except subprocess.TimeoutExpired:
            self.stop()
            raise AssertionError(f"hangs after {seconds:.0f} s: {self.text('err')}") from None
        self.seconds = time.monotonic() - self.begin
        out, err = self.text("out"), self.text("err")
        self.words.cleanup()
        return code, out, err

    def stop(self):
        for pid in self.members(program_alone=False):
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        self.process.kill()
        self.process.wait()


def train(program, arguments, folder, launcher=None, processes=1, **more):
    """Trains to the end, which must be a good one."""
    training = Training(program, arguments, folder, launcher, processes, **more)
    code, out, err = training.wait()
    where = f"{processes} processes of {launcher.name}" if launcher else "one process"
    assert code == 0, f"{where}: exit code {code}: {' '.join(arguments)}\n{err}{out}"
    return out


# Options that record how a run was made and not what it computes.
BESIDE = ("shard_optimizer", "overlap")


def untimed(records):
    """Lines of metrics.jsonl without what a clock says."""
    for line in records.splitlines():
        record = {key: value for key, value in json.loads(line).items() if key != "seconds" and not key.endswith("_per_s")}
        yield json.dumps(record)


def hashes(run):
    """{file: SHA-256} of what a run leaves: all checkpoints, the result, and metrics but for times."""
    run, found = pathlib.Path(run), {}
    files = [f for f in run.rglob("*") if f.is_file() and (f.suffix == ".safetensors" or "checkpoints" in f.parts)]
    assert files, f"{run} holds nothing"
    for file in sorted(files):
        data = file.read_bytes()
        if file.name == "state.json":
            state = json.loads(data)
            for key in BESIDE:
                state["options"].pop(key, None)
            data = json.dumps(state).encode()
        found[str(file.relative_to(run))] = hashlib.sha256(data).hexdigest()
    metrics = "\n".join(untimed((run / "metrics.jsonl").read_text()))
    found["metrics.jsonl"] = hashlib.sha256(metrics.encode()).hexdigest()
    return found


def difference(a, b):
    """Names of files that differ, "" where none does."""
    return ", ".join(sorted(name for name in a.keys() | b.keys() if a.get(name) != b.get(name)))


def whole_checkpoint(run):
    """Step of the newest checkpoint whose files have the sizes and checksums that its state.json records."""
    for folder in sorted(pathlib.Path(run).glob("checkpoints/step-*"), reverse=True):
        state = json.loads((folder / "state.json").read_text())
        for name, record in state["files"].items():
            data = (folder / name).read_bytes()
            assert len(data) == record["bytes"], f"{folder / name} has {len(data)} bytes"
            digest = hashlib.blake2b(data, digest_size=len(record["blake2b"]) // 2).hexdigest()
            assert digest == record["blake2b"], f"{folder / name} is damaged"
        return state["step"]
    return 0
