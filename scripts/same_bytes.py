#!/usr/bin/env python3
"""Runs the same commands with two programs and compares every file, and what is printed, byte by byte.

    same_bytes.py PROGRAM OTHER [--only GLOB] [--folder DIR] [--list]

Compared: weights and every tensor of checkpoints, metrics, JSON results, keys, pages, help texts. Left out: times, rates
and ports. Secrets come from a generator with a fixed seed that stands in for libsodium's, so that keys
and what is made with them can be compared as well. At the end one bit of one file is turned, and must be found.
Exit codes: 0 the same, 1 a difference, 2 a job failed.
"""

import argparse
import fnmatch
import json
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

# Stands in for libsodium's generator: the same bytes in the same order, in every process anew.
SHIM = """
#include <stddef.h>
#include <stdint.h>
static uint64_t state = 0x9e3779b97f4a7c15u;
void randombytes_buf(void *to, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    state ^= state << 13; state ^= state >> 7; state ^= state << 17;
    ((unsigned char *)to)[i] = (unsigned char)(state >> 32);
  }
}
"""

# Fields and columns that hold times and rates. Nothing else is left out.
MEASURED = {"seconds", "ms", "ms_per_step", "ms_per_token", "prompt_ms", "slowest_step_ms", "images_per_s", "rows_per_s",
            "texts_per_s", "tokens_per_s"}
# Curves over seconds, and curves of rates.
CURVES = re.compile(r"<svg(?:(?!</svg>).)*(>seconds<|a second<)(?:(?!</svg>).)*</svg>", re.S)
# The same in text: a number with its unit.
UNITS = re.compile(r"\b[0-9][0-9.]*(e[-+]?[0-9]+)? (ms|s|min|(images|rows|texts|tokens)(/s| a second))\b")
PORT = re.compile(r"127\.0\.0\.1:[0-9]+")


class Failed(Exception):
    pass


def with_options(args, *options):
    """The arguments with other values of options that they have, and further options."""
    result = list(args)
    for flag, value in zip(options[::2], options[1::2]):
        if flag in result:
            result[result.index(flag) + 1] = value
        else:
            result += [flag, value]
    return result


class Jobs:
    """The commands, run with one program in one folder; every method named job_* is a job."""

    def __init__(self, program, folder, given, environment):
        self.program, self.folder, self.given, self.environment = program, folder, given, environment
        self.data = os.environ.get("EQUIGRAD_DATA", "")

    def start(self, *args):
        return subprocess.Popen([self.program, *map(str, args)], cwd=self.folder, env=self.environment, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run(self, name, *args, code=0):
        """Runs a command; keeps what it prints as NAME.out and NAME.err."""
        process = self.start(*args)
        out, err = process.communicate()
        (self.folder / f"{name}.out").write_text(out)
        (self.folder / f"{name}.err").write_text(err)
        if process.returncode != code:
            raise Failed(f"equigrad {' '.join(map(str, args))}: exit code {process.returncode}, expected {code}: {err}")

    def need(self, *names):
        missing = [name for name in names if not (self.data and pathlib.Path(self.data, name).exists())]
        if missing:
            raise Failed(f"EQUIGRAD_DATA has no {', '.join(missing)}")
        return [pathlib.Path(self.data, name) for name in names]

    # --- what is printed and computed without training

    def job_help(self):
        self.run("help", "--help")
        self.run("help-json", "help", "--json")
        verbs = re.findall(r"^  ([a-z]+) ", (self.folder / "help.out").read_text().split("Subcommands:")[1], re.M)
        for verb in verbs:
            self.run(f"help-{verb}", verb, "--help")
        for verb, parts in {"train": "vit deit bert gpt2 llama difm", "edge": "vit deit bert",
                            "stip": "transform serve query demonstrate", "bench": "step gemm ops"}.items():
            for part in parts.split():
                self.run(f"help-{verb}-{part}", verb, part, "--help")

    def job_verify(self):
        self.run("verify", "verify", "--json", "verify.json", "--report", "verify.html")

    def job_verify_exact(self):
        self.run("exact", "verify", "--exact", "--json", "exact.json")

    def models(self):
        return sorted((self.given / "models").iterdir())

    def job_symmetries(self):
        for model in self.models():
            self.run(model.name, "symmetries", "--model", model, "--axes", "--json", f"{model.name}.json")

    def job_permute(self):
        for model in self.models():
            name = model.name
            self.run(f"{name}-keygen", "keygen", "--model", model, "--out", f"{name}.key")
            self.run(f"{name}-there", "permute", "--model", model, "--key", f"{name}.key", "--out", f"{name}-permuted", "--json",
                     f"{name}.json")
            self.run(f"{name}-back", "permute", "--model", f"{name}-permuted", "--key", f"{name}.key", "--inverse", "--out",
                     f"{name}-undone")
            self.run(f"{name}-model", "verify", "--model", model, "--json", f"{name}-verify.json")

    def job_infer(self):
        for model in self.models():
            name = model.name
            self.run(f"{name}-infer", "infer", "--model", model, "--inputs", self.given / f"{name}.safetensors", "--outputs",
                     f"{name}-out.safetensors", "--json", f"{name}.json")
            inputs = read_safetensors(self.given / f"{name}.safetensors")
            inputs |= {f"cotangent.{output}": value
                       for output, value in read_safetensors(self.folder / f"{name}-out.safetensors").items()}
            write_safetensors(self.folder / f"{name}-cotangents.safetensors", inputs)
            self.run(f"{name}-gradients", "infer", "--model", model, "--inputs", f"{name}-cotangents.safetensors",
                     "--outputs", f"{name}-again.safetensors", "--gradients", f"{name}-gradients.safetensors")
            self.run(f"{name}-inspect", "inspect", model, "--stats", "--json", f"{name}-inspect.json")

    def job_attack(self):
        self.run("attack", "attack", "all", "--json", "attack.json", "--markdown", "attack.md", "--out", "attack.html")

    # --- training

    def job_main(self):
        self.run("main", "run", "--json", "main.json", "--out", "main", "--steps", "60")

    VIT = ["--data", "shapes", "--size", "16", "--train-limit", "96", "--test-limit", "32", "--dim", "16", "--layers", "2",
           "--heads", "2", "--mlp", "32", "--patch", "4", "--batch", "16", "--augment", "--dropout", "0.1", "--seed", "3",
           "--steps", "24", "--evaluate-every", "8", "--checkpoint-every", "6", "--keep", "9", "--csv"]

    def train(self, name, *args):
        self.run(name, "train", *args, "--out", name, "--json", f"{name}.json")

    def job_vit(self):
        self.train("plain", "vit", *self.VIT)
        for mode in ("rows", "columns", "both"):
            self.train(mode, "vit", *self.VIT, "--permute", mode)
        for form in ("paper", "tied", "decoupled", "residual"):
            self.train(f"key-{form}", "vit", *self.VIT, "--permute", "both", "--key-form", form, "--key", self.given / "key")
        twins = with_options(self.VIT, "--dropout", "0", "--permute", "both", "--drift-every", "4") + ["--twin"]
        self.train("twins", "vit", *twins, "--dtype", "f64")
        self.train("options", "vit", *twins, "--optimizer", "adam", "--clip", "1",
                   "--accumulate", "2", "--ema", "0.9", "--label-smoothing", "0.1", "--mixup", "0.2", "--cutmix", "1",
                   "--layer-decay", "0.75", "--weight-decay", "0.1", "--decay-on", "matrices", "--pooling", "mean", "--checkpoint-blocks", "--pre-norm=false", "--freeze", "blocks.0.*")
        self.train("guarded", "vit", *self.VIT, "--permute", "both", "--spike-guard", "4", "--on-divergence", "skip", "--clip", "1")
        sizes = ["--dim", "--layers", "--heads", "--mlp", "--patch", "--size"]
        tuned = [x for i, x in enumerate(self.VIT) if x not in sizes and (i == 0 or self.VIT[i - 1] not in sizes)]
        self.train("tuned", "vit", *tuned, "--size", "16", "--from", "both", "--permute", "both", "--lr", "0.0005")
        self.run("report", "report", "plain", "both", "twins", "--out", "report.html", "--samples", "16")

    def job_deit(self):
        self.train("deit", "deit", *self.VIT)
        self.train("twins", "deit", *with_options(self.VIT, "--dropout", "0"), "--permute", "both", "--twin")

    def bert(self):
        self.need("glue-small")
        return ["bert", "--data", "mrpc", "--train-limit", "200", "--test-limit", "50", "--context", "32", "--dim", "16",
                "--layers", "2", "--heads", "2", "--batch", "8", "--steps", "20", "--evaluate-every", "10", "--warmup", "4",
                "--checkpoint-every", "5", "--keep", "9", "--vocabulary", "500", "--seed", "5"]

    def job_bert(self):
        bert = self.bert()
        self.train("plain", *bert)
        for mode in ("rows", "columns", "both"):
            self.train(mode, *bert, "--permute", mode, "--key", self.given / "key")
        self.train("frozen", *bert, "--freeze", "*embedding*", "--clip", "0", "--accumulate", "2", "--ema", "0.9")
        self.run("report", "report", "plain", "both", "--out", "report.html", "--samples", "16")

    def job_mlm(self):
        self.need("tinyshakespeare")
        text = next(p for p in sorted(pathlib.Path(self.data, "tinyshakespeare").iterdir()) if p.name != "SOURCE.md")
        mlm = ["bert", "--task", "mlm", "--data", text, "--context", "32", "--dim", "16", "--layers", "2", "--heads", "2",
               "--batch", "8", "--steps", "20", "--evaluate-every", "10", "--checkpoint-every", "5", "--keep", "9",
               "--vocabulary", "500"]
        self.train("plain", *mlm)
        self.train("both", *mlm, "--permute", "both")

    LM = ["--context", "32", "--dim", "16", "--layers", "2", "--heads", "2", "--batch", "8", "--steps", "20",
          "--evaluate-every", "10", "--checkpoint-every", "5", "--keep", "9"]

    def job_gpt2(self):
        self.need("tinyshakespeare")
        self.train("plain", "gpt2", *self.LM, "--dropout", "0.1", "--tensorboard")
        self.train("options", "gpt2", *self.LM, "--tied=false", "--accumulate", "2", "--clip", "0", "--optimizer", "muon")
        self.run("text", "generate", "--model", "plain/model", "--prompt", "KING", "--max-new-tokens", "20",
                 "--temperature", "1", "--seed", "4", "--quiet")
        self.run("report", "report", "plain", "options", "--out", "report.html", "--samples", "16")

    def job_llama(self):
        self.need("tinyshakespeare")
        self.train("plain", "llama", *self.LM, "--kv-heads", "1")
        self.train("no-clip", "llama", *self.LM, "--clip", "0", "--dtype", "f64")

    def job_difm(self):
        self.need("criteo")
        difm = ["difm", "--train-limit", "150", "--test-limit", "40", "--steps", "20", "--batch", "8", "--hidden", "8,8",
                "--evaluate-every", "10", "--checkpoint-every", "5", "--keep", "9", "--dropout", "0.1"]
        self.train("plain", *difm)
        self.train("rows", *difm, "--permute", "rows", "--key", self.given / "key")

    def job_resumed(self):
        """Trainings that are killed after a checkpoint and resumed end as those that were left alone."""
        vit = ["vit", *with_options(self.VIT, "--dropout", "0"), "--permute", "both", "--twin"]
        whole = {"vit": vit, "bert": [*self.bert(), "--permute", "both"],
                 "gpt2": ["gpt2", *self.LM], "difm": ["difm", "--steps", "20", "--batch", "8", "--checkpoint-every", "5"]}
        for name, args in whole.items():
            args = with_options(args, "--steps", "400", "--keep", "2")
            self.run(name, "train", *args, "--out", name)
            (self.folder / name).rename(self.folder / f"{name}-whole")
            killed = self.start("train", *args, "--out", name)
            checkpoints = self.folder / name / "checkpoints"
            until = time.monotonic() + 60
            while not list(checkpoints.glob("step-*/state.json")) and killed.poll() is None and time.monotonic() < until:
                time.sleep(0.005)
            killed.kill()
            killed.communicate()
            if killed.returncode != -signal.SIGKILL:
                raise Failed(f"{name} ended before it could be killed")
            self.run(f"{name}-resumed", "train", args[0], "--resume", name)
            (self.folder / f"{name}-resumed.out").unlink()  # from where it was resumed is chance
            (self.folder / f"{name}-resumed.err").unlink()
            differing = [line for line in compare(self.folder / f"{name}-whole", self.folder / name)
                         if not line.startswith("events.out")]
            if differing:
                raise Failed(f"{name}: a resumed training differs from one left alone: {differing[0]}")
            shutil.rmtree(self.folder / name)

    # --- over TCP

    def serve(self, *args):
        process = self.start(*args)
        line = ""
        while "listening on" not in line:
            line = process.stderr.readline()
            if not line:
                raise Failed(f"equigrad {' '.join(map(str, args))} does not listen: {process.communicate()[1]}")
        return process, PORT.search(line).group()

    def stop(self, process, name):
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
        (self.folder / f"{name}.out").write_text(out)
        (self.folder / f"{name}.err").write_text("\n".join(sorted(err.splitlines())))

    def job_split(self):
        vit = ["vit", *self.VIT, "--permute", "both", "--key", self.given / "key"]
        bert = [*self.bert(), "--permute", "both", "--key", self.given / "key"]
        for name, args, more in (("vit", vit, ["--finish", "encrypted"]), ("decrypted", vit, []), ("bert", bert, []),
                                 ("drawn", vit, ["--init", "cloud", "--finish", self.given / "other-key"])):
            cloud, place = self.serve("cloud", "--listen", "127.0.0.1:0", "--model", "any", "--certs",
                                      self.given / "certs", "--out", f"cloud-{name}", "--seed", "3")
            self.run(name, "edge", *args, *more, "--connect", place, "--certs", self.given / "certs", "--out", name,
                     "--json", f"{name}.json")
            self.stop(cloud, f"cloud-{name}")

    def job_stip(self):
        self.need("tinyshakespeare")
        self.train("gpt2", "gpt2", *self.LM)
        self.train("bert", *self.bert())
        for name in ("gpt2", "bert"):
            for scheme in ("stip1", "stip2"):
                out = f"{name}-{scheme}"
                self.run(f"{out}-transform", "stip", "transform", "--model", f"{name}/model", "--scheme", scheme, "--out", out)
                cloud, place = self.serve("stip", "serve", "--model", f"{out}/cloud", "--listen", "127.0.0.1:0",
                                          "--insecure-loopback")
                asked = ["--prompt", "KING", "--max-new-tokens", "12"] if name == "gpt2" else [
                    "--inputs", self.given / "ids.safetensors", "--outputs", f"{out}.safetensors"]
                self.run(f"{out}-query", "stip", "query", "--model", f"{out}/user", "--connect", place, "--insecure-loopback",
                         *asked, "--json", f"{out}.json")
                self.stop(cloud, f"{out}-cloud")


def write_safetensors(path, tensors):
    """Tensors as {name: (dtype, shape, bytes)}."""
    header, at = {}, 0
    for name, (dtype, shape, values) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(values)]}
        at += len(values)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(values for _, _, values in tensors.values()))


def read_safetensors(path):
    data = path.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    return {name: (entry["dtype"], entry["shape"], data[end + entry["data_offsets"][0]:end + entry["data_offsets"][1]])
            for name, entry in header.items() if name != "__metadata__"}


def make_inputs(program, given, environment):
    """What both programs are given alike: keys, certificates, small trained models and their inputs."""

    def run(*args):
        subprocess.run([program, *map(str, args)], check=True, env=environment, stdout=subprocess.DEVNULL)

    run("keygen", "--out", given / "key", "--quiet")
    other = dict(environment)
    other.pop("LD_PRELOAD")
    subprocess.run([program, "keygen", "--out", given / "other-key", "--quiet"], check=True, env=other)
    run("certs", "--out", given / "certs", "--quiet")
    pixels = [((i * 7919) % 255) / 127.5 - 1 for i in range(2 * 3 * 16 * 16)]
    write_safetensors(given / "vit.safetensors", {"pixel_values": ("F32", [2, 3, 16, 16], struct.pack("<1536f", *pixels))})
    ids = struct.pack("<6q", 2, 23, 20, 13, 31, 3)
    for name in ("ids", "bert", "gpt2", "llama"):
        write_safetensors(given / f"{name}.safetensors", {"input_ids": ("I64", [1, 6], ids)})
    jobs = Jobs(program, given, given, environment)
    for name, args in (("vit", ["vit", *Jobs.VIT]), ("bert", jobs.bert()), ("gpt2", ["gpt2", *Jobs.LM]),
                       ("llama", ["llama", *Jobs.LM])):
        jobs.run(name, "train", *args, "--out", f"run-{name}")
        (given / "models").mkdir(exist_ok=True)
        (given / f"run-{name}" / "model").rename(given / "models" / name)


def without_measured(value):
    if isinstance(value, dict):
        return {k: without_measured(v) for k, v in value.items() if k not in MEASURED}
    if isinstance(value, list):
        return [without_measured(v) for v in value]
    if isinstance(value, str):
        return PORT.sub("PORT", value)
    return value


def csv_rows(text):
    rows = [line.split(",") for line in text.splitlines()]
    kept = [i for i, name in enumerate(rows[0]) if name not in MEASURED]
    return [[row[i] for i in kept if i < len(row)] for row in rows]


def contents(path):
    """What of a file is compared: its bytes, but for what is measured."""
    kind = path.suffix
    if kind == ".json":
        return without_measured(json.loads(path.read_text()))
    if kind == ".jsonl":
        return [without_measured(json.loads(line)) for line in path.read_text().splitlines()]
    if kind == ".csv":
        return csv_rows(path.read_text())
    if kind in (".out", ".err", ".html", ".md", ".txt", ".log"):
        return PORT.sub("PORT", UNITS.sub("MEASURED", CURVES.sub("CURVES", path.read_text())))
    if path.name.startswith("events.out.tfevents"):
        return len(path.read_bytes())  # wall times and the date are in it
    return path.read_bytes()


def first_difference(a, b, at=""):
    if isinstance(a, dict) and isinstance(b, dict):
        for key in [*a, *b]:
            if (key in a) != (key in b):
                return f"{at}.{key} is in one alone"
            if a[key] != b[key]:
                return first_difference(a[key], b[key], f"{at}.{key}")
        if list(a) != list(b):
            return f"{at}: another order of fields"
    if isinstance(a, (list, str, bytes)) and type(a) is type(b):
        for i, (x, y) in enumerate(zip(a, b)):
            if x != y:
                if isinstance(a, list):
                    return first_difference(x, y, f"{at}[{i}]")
                return f"{at} from {i}: {a[max(0, i - 60):i + 60]!r} and {b[max(0, i - 60):i + 60]!r}"
        if len(a) != len(b):
            return f"{at}: lengths {len(a)} and {len(b)}"
    return f"{at}: {a!r} and {b!r}"


def files_of(folder):
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            name = str(path.relative_to(folder))
            found[re.sub(r"events\.out\.tfevents\..*", "events.out.tfevents", name)] = path
    return found


def compare(one, other):
    """Differences between two folders, as lines."""
    a, b = files_of(one), files_of(other)
    differences = [f"{name}: one of the two has it" for name in sorted(a.keys() ^ b.keys())]
    for name in sorted(a.keys() & b.keys()):
        x, y = contents(a[name]), contents(b[name])
        if x != y or (isinstance(x, (dict, list)) and json.dumps(x) != json.dumps(y)):
            differences.append(f"{name}{first_difference(x, y)}")
        if a[name].stat().st_mode != b[name].stat().st_mode:
            differences.append(f"{name}: other permissions")
    return differences


def finds_one_bit(folder):
    """Turns one bit of one weight (or, where there are none, of one letter printed) and sees that this is a difference."""
    turned_name = next(name for ending in (".safetensors", ".out") for name in files_of(folder) if name.endswith(ending))
    copy = folder.parent / "turned"
    shutil.copytree(folder, copy)
    turned = copy / turned_name
    mode = turned.stat().st_mode
    data = bytearray(turned.read_bytes())
    letter = re.search(rb"[a-z]{3}", data)
    data[-1 if turned_name.endswith(".safetensors") else letter.start()] ^= 1
    turned.chmod(0o600)
    turned.write_bytes(data)
    turned.chmod(mode)
    found = compare(folder, copy)
    shutil.rmtree(copy)
    return len(found) == 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("other", type=pathlib.Path)
    parser.add_argument("--only", default="*", help="jobs whose names match this pattern")
    parser.add_argument("--folder", type=pathlib.Path, help="keep what was written in this new folder")
    parser.add_argument("--list", action="store_true", help="name the jobs and stop")
    args = parser.parse_args()
    names = [name[4:] for name in vars(Jobs) if name.startswith("job_")]
    if args.list:
        print("\n".join(names))
        return 0
    names = [name for name in names if fnmatch.fnmatch(name, args.only)]
    if not names:
        sys.exit(f"no job matches '{args.only}'")
    if args.folder:
        args.folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="same_bytes") as scratch:
        root = (args.folder or pathlib.Path(scratch)).resolve()
        (root / "shim.c").write_text(SHIM)
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", root / "shim.so", root / "shim.c"], check=True)
        environment = {k: v for k, v in os.environ.items() if k != "COLUMNS"}
        environment |= {"LD_PRELOAD": str(root / "shim.so"), "TERM": "dumb"}
        given = root / "given"
        given.mkdir()
        make_inputs(args.program.resolve(), given, environment)
        differing = failed = files = 0
        for name in names:
            kept = []
            try:
                for label, program in (("one", args.program), ("other", args.other)):
                    folder = root / "run"  # the same path for both, so that paths in results are alike
                    folder.mkdir()
                    begun = time.monotonic()
                    getattr(Jobs(program.resolve(), folder, given, environment), f"job_{name}")()
                    kept.append(folder.rename(root / f"{name}-{label}"))
                    print(f"{name}: {label}, {time.monotonic() - begun:.1f} s", file=sys.stderr)
            except Failed as error:
                print(f"{name}: FAILED: {error}")
                failed += 1
                if (root / "run").exists():
                    (root / "run").rename(root / f"{name}-failed")
                continue
            differences = compare(*kept)
            differing += bool(differences)
            files += len(files_of(kept[0]))
            print(f"{name}: {'the same' if not differences else 'DIFFERENT'}, {len(files_of(kept[0]))} files")
            for line in differences[:20]:
                print(f"  {line}")
            if len(differences) > 20:
                print(f"  and {len(differences) - 20} more")
            if not finds_one_bit(kept[0]):
                print(f"{name}: one bit was turned and not found")
                failed += 1
            if not args.folder:
                for folder in kept:
                    shutil.rmtree(folder)
        print(f"{len(names)} jobs, {files} files: {differing} differ, {failed} failed")
        return 2 if failed else 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
