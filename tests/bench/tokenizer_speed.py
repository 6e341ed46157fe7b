#!/usr/bin/env python3
"""Speed of `equigrad tokenize` and of Hugging Face's `tokenizers` on one file of text, one thread each, in turn, by
processor time, which other work on the machine changes little.

    python3 -m pip install tokenizers==0.22.2
    tests/bench/tokenizer_speed.py build/release/bin/equigrad --data DATA [--mebibytes 16] [--rounds 3]

The text is IMDB's reviews, one a line, from DATA. The program's seconds are those of its process less those of a process
that tokenizes one word. For `tokenizers` the better of two ways counts: the whole text in one call, and one call for
each review (encode_batch without its threads).
"""
import argparse
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "golden"))
import tokenizer_compare
import tokenizer_texts


def seconds(work):
    """The processor's, of this process and of those that it waited for."""
    def spent():
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.process_time() + children.ru_utime + children.ru_stime
    start = spent()
    work()
    return spent() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--mebibytes", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    reviews = next(texts for name, texts in tokenizer_texts.real(args.data) if name.startswith("imdb"))
    text = "\n".join(reviews).encode("utf-8")[:args.mebibytes << 20].decode("utf-8", "ignore")
    lines = text.split("\n")
    megabytes = len(text.encode("utf-8")) / 1e6
    with tempfile.NamedTemporaryFile(suffix=".txt") as file:
        file.write(text.encode("utf-8"))
        file.flush()
        for name in ("bert", "gpt2"):
            make, folder = tokenizer_compare.TOKENIZERS[name]
            command = [args.program, "tokenize", "--tokenizer", args.data / folder, "--quiet", "--threads", "1"]
            tok = make(args.data)
            ours, whole, batch = [], [], []
            for _ in range(args.rounds):
                start = seconds(lambda: subprocess.run([*command, "word"], check=True))
                ours.append(seconds(lambda: subprocess.run([*command, "--file", file.name], check=True)) - start)
                whole.append(seconds(lambda: tok.encode(text)))
                batch.append(seconds(lambda: tok.encode_batch(lines)))
            rate = [megabytes / statistics.median(x) for x in (ours, whole, batch)]
            print(f"{name}: equigrad {rate[0]:.1f} MB/s; tokenizers {rate[1]:.1f} MB/s in one call, {rate[2]:.1f} MB/s by "
                  f"reviews; {rate[0] / max(rate[1:]):.1f} times", flush=True)


if __name__ == "__main__":
    main()
