#!/usr/bin/env python3
"""Gives a program hostile model folders, command lines and pictures, and looks at what it says and leaves.

    hostile.py PROGRAM [--cases 5000] [--seed 0] [--only CASE] [--pictures DIR] [--folder DIR]

What must hold for every case: it ends in time with 0, 1 or 2; where it fails, the last line on stderr is its own, and no
library's words or sanitizer's report is in it; its inputs keep their bytes; nothing is left that was not asked for.
"""

import argparse
import collections
import hashlib
import json
import os
import pathlib
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

OUTPUT_OPTIONS = ["--json", "--markdown", "--outputs", "--out", "--profile", "--report"]
PATIENCE = 120  # seconds a case may take
FOREIGN_WORDS = ["Sanitizer", "runtime error:", "terminate called", "json.exception", "basic_string", "bad_alloc",
                 "std::", "vector::", "stoi", "stod", "CLI::"]
VALUES = [None, True, False, 0, 1, -1, 2, 3, 7, 1 << 31, 1 << 63, -(1 << 63), (1 << 64) - 1, 0.5, -0.0, 1e300, -1e300, 1e-300,
          "", "x", "1", "../..", "\x00", "\u202e", [], {}, [[]], [1], ["x"], {"a": 1}, [1e300] * 3, [0, 1, 2]]
WORDS = ["", "-", "--", "-1", "0", "1", "2", "3", "1025", "99999999999999999999", "1e400", "nan", "inf", "-0.5", "0x10", "1,2", ",",
         "x", "../..", "/", "/dev/null", "/dev/full", "/dev/zero", "none", "both", "a=b", "{}", "*", "%s%n", "\u202e", "ä" * 300,
         "f64", "f32", "true", "false", "in.st", "gpt2", "bert", "vit", "key", "d.txt", "new", "pictures", "."]
FIELDS = ["hidden_size", "n_embd", "num_hidden_layers", "n_layer", "num_attention_heads", "n_head", "vocab_size", "n_positions",
          "is_causal", "partial_rotary_factor", "rope_scaling", "rope_parameters", "pad_token_id", "eos_token_id", "id2label",
          "quantization_config", "head_dim", "tie_word_embeddings", "hidden_act", "activation_function", "layer_norm_eps",
          "image_size", "patch_size", "num_channels", "intermediate_size", "n_inner", "architectures", "model_type",
          "image_mean", "image_std", "rescale_factor", "size", "do_resize", "resample", "crop_size", "repetition_penalty",
          "max_new_tokens", "num_beams", "model", "added_tokens", "normalizer", "pre_tokenizer", "decoder", "vocab", "type"]


def png(random_, side=16):
    pixels = b"".join(b"\0" + random_.randbytes(3 * side) for _ in range(side))
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(pixels)) + chunk(b"IEND", b"")


def safetensors(tensors):
    header, data = {}, b""
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


class Material:
    """Sound folders, made once: three small trained models, a key, inputs, pictures; and every verb's options."""

    def __init__(self, program, folder, pictures):
        self.program, self.folder = program, folder
        random_ = random.Random(1)
        (folder / "d.txt").write_text("to be or not to be, that is the question\n" * 40)
        (folder / "t.tsv").write_text("label\ttext\n" + "good\tfine film\nbad\tdull film\n" * 20)
        (folder / "in.st").write_bytes(safetensors({"input_ids": ("I64", [1, 3], struct.pack("<3q", 1, 2, 3))}))
        (folder / "px.st").write_bytes(safetensors({"pixel_values": ("F32", [1, 3, 16, 16], bytes(3 * 16 * 16 * 4))}))
        for kind in ("train", "test"):
            for name in ("a", "b"):
                (folder / "pictures" / kind / name).mkdir(parents=True)
                for i in range(3):
                    (folder / "pictures" / kind / name / f"{i}.png").write_bytes(png(random_))
        self.samples = [png(random_, 9)] + [p.read_bytes() for p in sorted(pictures.rglob("*")) if p.is_file() and
                                            p.suffix in (".png", ".jpg", ".jpeg") and p.stat().st_size < 100_000][:200]
        small = ["--dim", "8", "--heads", "2", "--layers", "1", "--mlp", "8", "--steps", "1", "--batch", "2", "--quiet"]
        self.made("train", "gpt2", "--data", "d.txt", "--context", "8", *small, "--out", "gpt2-run")
        self.made("train", "bert", "--data", "t.tsv", "--context", "8", *small, "--out", "bert-run")
        self.made("train", "vit", "--data", "pictures", "--size", "16", "--patch", "8", *small, "--out", "vit-run")
        for name in ("gpt2", "bert", "vit"):
            shutil.copytree(folder / f"{name}-run" / "model", folder / name)
        self.made("keygen", "--model", "gpt2", "--out", "key", "--groups", "inner", "--quiet")
        self.options = {}
        for verb in re.findall(r"^  ([a-z]+) ", self.made("--help"), re.M):
            self.options[verb] = re.findall(r"^  (?:-\w,)?(--[a-z][a-z0-9-]*)", self.made(verb, "--help"), re.M)
        if len(self.options) < 15:
            sys.exit("the verbs cannot be read from --help")

    def made(self, *words):
        got = subprocess.run([self.program, *words], cwd=self.folder, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if got.returncode != 0:
            sys.exit(f"{words}: {got.stderr}")
        return got.stdout


def damage_bytes(random_, data):
    data = bytearray(data)
    for _ in range(random_.choice([1, 1, 2, 8])):
        at = random_.randrange(len(data) + 1)
        kind = random_.randrange(5)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << random_.randrange(8)
        elif kind == 1 and at < len(data):
            data[at] = random_.choice([0, 255, 127, 10, 34, 123])
        elif kind == 2:
            del data[at:at + random_.choice([1, 4, 100, len(data)])]
        elif kind == 3:
            data[at:at] = random_.randbytes(random_.choice([1, 4, 50]))
        elif len(data) > 8:
            struct.pack_into("<I", data, random_.randrange(len(data) - 4), random_.choice([0, 1, 65535, 2**31, 2**32 - 1]))
    return bytes(data)


def damage_json(random_, value):
    """Changes one place of it, or several."""
    if isinstance(value, dict) and value and random_.random() < 0.9:
        name = random_.choice(list(value))
        kind = random_.randrange(6)
        if kind == 0:
            del value[name]
        elif kind == 1:
            value[random_.choice(FIELDS)] = random_.choice(VALUES)
        elif kind == 2:
            value[name] = random_.choice(VALUES)
        else:
            value[name] = damage_json(random_, value[name])
        return value
    if isinstance(value, list) and value and random_.random() < 0.8:
        value = value[:]
        at = random_.randrange(len(value))
        value[at] = damage_json(random_, value[at])
        return value
    return random_.choice(VALUES)


def damage_file(random_, path):
    kind = random_.randrange(12)
    if kind == 0:
        path.unlink()
    elif kind == 1:
        path.unlink()
        random_.choice([path.mkdir, lambda: path.symlink_to("nowhere"), lambda: os.mkfifo(path),
                        lambda: path.symlink_to("/dev/null"), lambda: path.symlink_to(path.name)])()
    elif path.suffix == ".json" and kind < 10:
        value = json.loads(path.read_text())
        for _ in range(random_.choice([1, 1, 2, 3])):
            value = damage_json(random_, value)
        path.write_text(json.dumps(value))
    else:
        path.write_bytes(damage_bytes(random_, path.read_bytes()))


def hostile_folder(random_, material, scene):
    name = random_.choice(["gpt2", "bert", "vit", "gpt2-run", "bert-run", "vit-run"])
    shutil.copytree(material.folder / name, scene / "m", symlinks=True)
    files = sorted(p for p in (scene / "m").rglob("*") if p.is_file())
    for path in random_.sample(files, min(len(files), random_.choice([1, 1, 1, 2]))):
        damage_file(random_, path)
    inputs = "px.st" if name.startswith("vit") else "in.st"
    kind = name.split("-")[0]
    data = {"gpt2": "d.txt", "bert": "t.tsv", "vit": "pictures"}[kind]
    return random_.choice([
        ["inspect", "m"], ["infer", "--model", "m", "--inputs", inputs, "--outputs", "o"],
        ["infer", "--model", "m", "--inputs", inputs, "--outputs", "o", "--dtype", "f64", "--json", "o2"],
        ["infer", "--model", "m", "--image", "pictures/test/a/0.png", "--json", "o"],
        ["generate", "--model", "m", "--prompt", "to be", "--max-new-tokens", "4"],
        ["generate", "--model", "m", "--ids", "1,2", "--max-new-tokens", "4", "--json", "o"],
        ["tokenize", "--tokenizer", "m", "to be \u202e or"], ["symmetries", "--model", "m", "--json", "o"],
        ["keygen", "--model", "m", "--out", "o"], ["permute", "--model", "m", "--key", "key", "--out", "o"],
        ["permute", "--model", "m", "--key", "key", "--inverse", "--out", "o"], ["stip", "transform", "--model", "m", "--out", "o"],
        ["verify", "--model", "m", "--dtype", "f32"], ["report", "m", "--out", "o"],
        ["train", kind, "--data", data, "--from", "m", "--steps", "1", "--batch", "2", "--out", "o"],
        ["train", kind, "--resume", "m"], ["attack", "weights", "--model", "m", "--json", "o"]])


def hostile_command(random_, material, scene):
    verb = random_.choice(sorted(set(material.options) - {"run", "reproduce", "bench", "cloud", "edge"}))
    words = [verb]
    if verb == "train":
        words += [random_.choice(["gpt2", "bert", "vit", "llama", "difm", "x"]), "--data", random_.choice(["d.txt", "pictures", "x"]),
                  "--steps", "1", "--out", "o"]
    elif verb == "attack":
        words += [random_.choice(["weights", "all", "x"]), "--model", "gpt2"]
    elif verb == "stip":
        words += [random_.choice(["transform", "query", "demonstrate", "x"]), "--model", "gpt2"]
    elif verb == "verify":
        words += ["--filter", "thm4*"]
    elif verb in ("permute", "keygen", "symmetries", "infer", "generate"):
        words += ["--model", random_.choice(["gpt2", "bert", "vit", "x"]), *random_.choice([[], ["--out", "o"], ["--outputs", "o"]])]
    elif verb in ("inspect", "report"):
        words += [random_.choice(["gpt2", "gpt2-run", "in.st", "d.txt", "pictures", "x"])]
    elif verb == "certs":
        words += ["--out", "o"]
    for _ in range(random_.choice([1, 1, 2, 3])):
        option = random_.choice(material.options[verb])
        value = random_.choice(WORDS)
        words += random_.choice([[option], [option, value], [f"{option}={value}"]])
    if verb == "download":
        words += ["--list"]
    return words


def hostile_pictures(random_, material, scene):
    shutil.copytree(material.folder / "pictures", scene / "p")
    files = sorted(p for p in (scene / "p").rglob("*") if p.is_file())
    for path in random_.sample(files, random_.choice([1, 2])):
        path.write_bytes(damage_bytes(random_, random_.choice(material.samples)))
        if random_.random() < 0.1:
            damage_file(random_, path)
    if random_.random() < 0.5:
        return ["infer", "--model", "vit", "--image", "p/test/a/0.png", "p/test/b/1.png", "p/train/a/2.png", "--json", "o"]
    return ["train", "vit", "--data", "p", "--size", "16", "--patch", "8", "--dim", "8", "--heads", "1", "--layers", "1", "--mlp",
            "8", "--steps", "1", "--batch", "2", "--out", "o", "--bad-images", random_.choice(["skip", "refuse"])]


def contents(folder, outputs):
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if name.split("/")[0] in outputs:
            continue
        if path.is_symlink() or not path.is_file():
            found[name] = "a link" if path.is_symlink() else "a folder or pipe"
        else:
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def trouble(material, words, scene, environment):
    """What is wrong with how the program ends on these words; None: nothing. With its exit code."""
    resumes = "--resume" in words
    # What a word names may be made; a run that is resumed is the program's own.
    outputs = {"o", "o2", "out", "core"} | ({"m"} if resumes else set())
    pairs = list(zip(words, words[1:])) + [tuple(word.split("=", 1)) for word in words if "=" in word]
    for option, value in pairs:  # a file that the command does not read may be replaced
        if option in OUTPUT_OPTIONS and words.count(value) <= 1:
            outputs.add(value)
    named = {re.sub(r"^--[a-z-]+=", "", word).split("/")[0] for word in words}
    outputs |= {name for name in named if len(name) < 250 and not os.path.lexists(scene / name)}
    before = contents(scene, outputs)
    try:
        got = subprocess.run([material.program, *words, *(["--quiet"] if "--quiet" not in words else [])], cwd=scene,
                             capture_output=True, timeout=PATIENCE, stdin=subprocess.DEVNULL, env=environment)
    except subprocess.TimeoutExpired:
        return f"does not end in {PATIENCE} s", -1
    error = got.stderr.decode(errors="replace")
    code = got.returncode
    if code not in (0, 1, 2):
        return f"exit code {code}: {error[-3000:]}", code
    for foreign in FOREIGN_WORDS:
        if foreign in error:
            return f"words of another library ({foreign}): {error[-3000:]}", code
    lines = error.rstrip("\n").split("\n")
    if code == 2 and not lines[-1].startswith("equigrad: "):
        return f"exit code 2 without words of its own: {error[-3000:]}", code
    after = contents(scene, outputs)
    if after != before:
        changed = sorted(set(before.items()) ^ set(after.items()))
        return f"other files than before: {changed[:6]}", code
    return None, code


def run_case(material, folder, number, seed, environment, keep):
    random_ = random.Random(f"{seed} {number}")
    scene = folder / f"case-{number}"
    scene.mkdir()
    for name in ("d.txt", "t.tsv", "in.st", "px.st", "key", "pictures", "gpt2", "bert", "vit", "gpt2-run"):
        source = material.folder / name
        shutil.copytree(source, scene / name) if source.is_dir() else shutil.copy(source, scene / name)
    kind = [hostile_folder, hostile_command, hostile_pictures][number % 3]
    words = [word for word in kind(random_, material, scene) if "\x00" not in word]
    wrong, code = trouble(material, words, scene, environment)
    if not (wrong and keep):
        shutil.rmtree(scene)
    return kind.__name__, code, words, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=lambda path: str(pathlib.Path(path).resolve()))
    parser.add_argument("--cases", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="this case alone")
    parser.add_argument("--pictures", type=pathlib.Path, default=pathlib.Path("/nowhere"), help="further pictures to damage")
    parser.add_argument("--keep", action="store_true", help="keep the folder of a case that is wrong")
    parser.add_argument("--folder", type=pathlib.Path, help="where cases are made (default: a temporary folder)")
    args = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="hostile-", dir=args.folder))
    (folder / "material").mkdir()
    material = Material(args.program, folder / "material", args.pictures)
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1", "EQUIGRAD_DATA": "/nowhere",
                   "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"}
    counts, wrongs = collections.Counter(), 0
    cases = range(args.cases) if args.only is None else [args.only]
    for number in cases:
        kind, code, words, wrong = run_case(material, folder, number, args.seed, environment, args.keep)
        counts[kind, code] += 1
        if wrong:
            wrongs += 1
            print(f"case {number}: {words}\n  {wrong}", flush=True)
        if sys.stderr.isatty():
            print(f"\r{number + 1}/{len(cases)} cases, {wrongs} wrong", end="", file=sys.stderr, flush=True)
    print("; ".join(f"{kind}: {n} ended with {code}" for (kind, code), n in sorted(counts.items())))
    if not (wrongs and args.keep):
        shutil.rmtree(folder)
    sys.exit(f"{wrongs} of {len(cases)} cases are wrong" if wrongs else 0)


if __name__ == "__main__":
    main()
