#!/usr/bin/env python3
"""Compares `equigrad tokenize` with Hugging Face's `tokenizers`, text by text: ids, tokens, offsets, type ids, masks, and
the text that ids give back.

    python3 -m pip install tokenizers==0.22.2
    tests/golden/tokenizer_compare.py build/release/bin/equigrad --data DATA             # all of it
    tests/golden/tokenizer_compare.py build/release/bin/equigrad --data DATA --only bert --strings 5000 --no-code-points

DATA holds tokenizers/bert-base-uncased/vocab.txt and tokenizers/gpt2/{vocab.json,merges.txt}; real texts are taken from
it, too (tokenizer_texts.py). Prints what was compared and how many texts differ; exit code 1 when any does, which
`--break` shows by changing a tokenizer on one side.
"""
import argparse
import itertools
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "true"

import tokenizer_texts
import tokenizers
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors)

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CHUNK = 50_000  # texts at a time: memory


def bert(data, **normalizer):
    """What transformers makes of a vocab.txt."""
    vocab = {line: i for i, line in
             enumerate((data / "tokenizers/bert-base-uncased/vocab.txt").read_text(encoding="utf-8").splitlines())}
    tok = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    tok.normalizer = normalizers.BertNormalizer(**normalizer)
    tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tok.decoder = decoders.WordPiece(prefix="##")
    tok.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    tok.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 101), ("[SEP]", 102)])
    return tok


def gpt2(data, prefix=False, trim=False, **model):
    folder = data / "tokenizers/gpt2"
    vocab, merges = models.BPE.read_file(str(folder / "vocab.json"), str(folder / "merges.txt"))
    tok = Tokenizer(models.BPE(vocab, merges, **model))
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    tok.decoder = decoders.ByteLevel()
    tok.post_processor = processors.ByteLevel(trim_offsets=trim)
    tok.add_special_tokens(["<|endoftext|>"])
    return tok


def split(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def added(tok):
    """Tokens of every sort, found in the text as it is or as it is normalised."""
    tok.add_tokens([AddedToken("yesterday", normalized=True), AddedToken("<tool>", lstrip=True, normalized=True),
                    AddedToken("été", normalized=True, single_word=True), AddedToken("  ", normalized=False),
                    AddedToken("half-way", single_word=True, normalized=False)])
    tok.add_special_tokens([AddedToken("<mask>", lstrip=True, rstrip=True, special=True),
                            AddedToken("<|end|>", special=True), AddedToken("<|endof", special=True, single_word=True)])
    return tok


def llama(data):
    tok = added(gpt2(data, ignore_merges=True))
    tok.pre_tokenizer = split(LLAMA3)
    tok.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|end|> $A", pair="<|end|> $A <|end|>:1 $B:1",
                                      special_tokens=[("<|end|>", tok.token_to_id("<|end|>"))])])
    return tok


def qwen(data):
    tok = added(gpt2(data))
    tok.normalizer = normalizers.NFC()
    tok.pre_tokenizer = split(QWEN2)
    return tok


def roberta(data):
    tok = added(gpt2(data, prefix=True))
    end = ("<|endoftext|>", tok.token_to_id("<|endoftext|>"))
    tok.post_processor = processors.RobertaProcessing(end, ("<mask>", tok.token_to_id("<mask>")), trim_offsets=True)
    return tok


def no_pattern(data):
    tok = gpt2(data, trim=True)
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=False)
    return tok


def bert_processing(data):
    tok = added(bert(data, lowercase=True))
    tok.post_processor = processors.BertProcessing(("[SEP]", 102), ("[CLS]", 101))
    tok.decoder = decoders.WordPiece(prefix="##", cleanup=False)
    return tok


def split_gpt2(data):
    tok = gpt2(data)
    tok.pre_tokenizer = split(GPT2)
    return tok


# name: (how to make it, the older files that the program opens instead of a tokenizer.json)
TOKENIZERS = {
    "bert": (bert, "tokenizers/bert-base-uncased"),
    "gpt2": (gpt2, "tokenizers/gpt2"),
    "bert, tokenizer.json": (bert, None),
    "gpt2, tokenizer.json": (gpt2, None),
    "bert, cased": (lambda data: bert(data, lowercase=False), None),
    "bert, cased without accents": (lambda data: bert(data, lowercase=False, strip_accents=True), None),
    "bert, lower case with accents": (lambda data: bert(data, lowercase=True, strip_accents=False), None),
    "bert, neither cleaned nor spaced": (lambda data: bert(data, clean_text=False, handle_chinese_chars=False), None),
    "bert, added tokens": (lambda data: added(bert(data)), None),
    "bert, BertProcessing": (bert_processing, None),
    "gpt2, added tokens": (lambda data: added(gpt2(data)), None),
    "gpt2, prefix and trimmed": (lambda data: added(gpt2(data, prefix=True, trim=True)), None),
    "gpt2, Split": (split_gpt2, None),
    "gpt2, no pattern": (no_pattern, None),
    "llama 3's pattern": (llama, None),
    "qwen 2's pattern": (qwen, None),
    "roberta": (roberta, None),
}


class Comparison:
    def __init__(self, program, data, scratch):
        self.program, self.data, self.scratch = program, data, pathlib.Path(scratch)
        self.texts = self.differences = 0
        self.seconds = {"equigrad": 0.0, "tokenizers": 0.0}

    def ask(self, path, options, lines):
        """The program's answers to lines of JSON."""
        file = self.scratch / "in.jsonl"
        file.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
        start = time.monotonic()
        run = subprocess.run([self.program, "tokenize", "--tokenizer", path, "--file", file, "--lines", *options],
                             stdout=subprocess.PIPE, check=False)
        self.seconds["equigrad"] += time.monotonic() - start
        if run.returncode != 0:
            sys.exit(f"equigrad ended with {run.returncode}")
        return [json.loads(line) for line in run.stdout.decode("utf-8").split("\n")[:-1]]

    def judge(self, what, lines, ours, theirs):
        wrong = [(line, a, b) for line, a, b in zip(lines, ours, theirs, strict=True) if a != b]
        self.texts += len(lines)
        self.differences += len(wrong)
        print(f"{what}: {len(lines)} compared, {len(wrong)} differ", flush=True)
        for line, a, b in wrong[:3]:
            line = line if len(str(line)) < 300 else "(long)"
            print(f"  {line!r}\n    equigrad   {str(a)[:1500]}\n    tokenizers {str(b)[:1500]}")

    def encode(self, what, tok, path, lines, options=(), add_special=True):
        keys = ("ids", "tokens", "offsets", "type_ids", "attention_mask", "special_tokens_mask")
        lines = iter(lines)
        while part := list(itertools.islice(lines, CHUNK)):
            ours = [tuple(answer[k] for k in keys) for answer in self.ask(path, options, part)]
            start = time.monotonic()
            inputs = [tuple(line) if isinstance(line, list) else line for line in part]
            encodings = tok.encode_batch(inputs, add_special_tokens=add_special)
            self.seconds["tokenizers"] += time.monotonic() - start
            theirs = [(e.ids, e.tokens, [list(o) for o in e.offsets], e.type_ids, e.attention_mask,
                       e.special_tokens_mask) for e in encodings]
            self.judge(what, part, ours, theirs)

    def decode(self, what, tok, path, lists, skip):
        ours = self.ask(path, ["--no-special-tokens"] if skip else [], [{"ids": ids} for ids in lists])
        theirs = [{"text": tok.decode(ids, skip_special_tokens=skip)} for ids in lists]
        self.judge(what, lists, ours, theirs)


def pairs_of(texts):
    return [[a, b] for a, b in zip(texts[::2], texts[1::2])]


def compare_one(run, name, tok, path, args, main):
    """All that is compared for one tokenizer; `main`: the code points and the real texts as well."""
    texts = tokenizer_texts.drawn(args.strings if main else max(args.strings // 10, 100), args.seed)
    for special in (False, True):
        tok.encode_special_tokens = not special
        options = ["--recognise-special"] if special else []
        how = "recognised" if special else "ordinary"
        run.encode(f"{name}: random strings, special tokens {how}", tok, path, texts, options)
    tok.encode_special_tokens = True
    few = pairs_of(texts[:max(len(texts) // 10, 200)])
    run.encode(f"{name}: pairs", tok, path, few)
    run.encode(f"{name}: pairs, none added", tok, path, few, ["--no-special-tokens"], add_special=False)
    for strategy, side, pad_side, length in (("longest_first", "right", "right", 9), ("longest_first", "left", "left", 12)):
        tok.enable_truncation(length, strategy=strategy, direction=side)
        options = ["--max-length", str(length), "--truncation", strategy, "--truncation-side", side]
        pad = next(token for token in ("[PAD]", "<|endoftext|>") if tok.token_to_id(token) is not None)
        tok.enable_padding(direction=pad_side, pad_id=tok.token_to_id(pad), pad_token=pad, length=length + 3)
        options += ["--pad-to", str(length + 3), "--padding-side", pad_side, "--pad-token", pad]
        run.encode(f"{name}: {strategy}, {side} cut to {length}", tok, path, few + texts[:500], options)
        tok.no_truncation()
        tok.no_padding()
    source = random.Random(args.seed)
    known = [i for i in range(tok.get_vocab_size()) if tok.id_to_token(i) is not None]
    lists = [source.choices(known, k=source.randint(0, 12)) for _ in range(2000)]
    lists += [tok.encode(text).ids for text in texts[:2000]]
    for skip in (False, True):
        run.decode(f"{name}: decode, special tokens {'left out' if skip else 'kept'}", tok, path, lists, skip)
    if not main:
        return
    if args.code_points:
        run.encode(f"{name}: code points", tok, path, tokenizer_texts.code_points())
    for what, real in tokenizer_texts.real(args.data) if args.real else ():
        run.encode(f"{name}: {what}", tok, path, real)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--only", help="tokenizers whose name holds this")
    parser.add_argument("--strings", type=int, default=100_000, help="random strings for each of the two main tokenizers")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-code-points", dest="code_points", action="store_false")
    parser.add_argument("--no-real", dest="real", action="store_false")
    parser.add_argument("--break", dest="broken", action="store_true", help="negative control: the sides must differ")
    args = parser.parse_args()
    print(f"tokenizers {tokenizers.__version__}")
    with tempfile.TemporaryDirectory() as scratch:
        run = Comparison(args.program, args.data, scratch)
        for name, (make, folder) in TOKENIZERS.items():
            if args.only and args.only not in name:
                continue
            tok = make(args.data)
            path = args.data / folder if folder else pathlib.Path(scratch) / "tokenizer.json"
            if not folder:
                tok.save(str(path))
            if args.broken:
                tok.normalizer = normalizers.Replace("e", "f")
            compare_one(run, name, tok, path, args, main=folder is not None)
        print(f"{run.texts} texts compared, {run.differences} differ")
        print("seconds: " + ", ".join(f"{side} {spent:.1f}" for side, spent in run.seconds.items())
              + " (equigrad's with JSON in and out)")
    sys.exit(1 if run.differences else 0)


if __name__ == "__main__":
    main()
