#!/usr/bin/env python3
"""Opens model folders that `equigrad train` left in Hugging Face's transformers and compares.

    pip install torch transformers safetensors
    tests/golden/trained_compare.py build/release/bin/equigrad     # the table, exit code 1 when a bound is broken

Trains a small model of every kind for a few steps, opens RUN/model with from_pretrained (no tensor missing, unexpected or of
another shape) and compares logits with `equigrad infer`, tokens with `equigrad tokenize`: largest difference over the largest logit.
"""
import json
import os
import subprocess
import sys
import tempfile

import torch
import transformers as tf
from safetensors.torch import load_file, save_file

BOUND = 2e-5  # f32
PROGRAM = sys.argv[1] if len(sys.argv) > 1 else "build/release/bin/equigrad"
SMALL = ["--dim", "24", "--layers", "2", "--heads", "3", "--batch", "4", "--steps", "6", "--quiet"]
LINE = "The old cat went to the fair, and none came home.\n"


def run(*words):
    subprocess.run([PROGRAM, *words], check=True, stdout=subprocess.DEVNULL)


def opened(kind, folder):
    model, report = kind.from_pretrained(folder, output_loading_info=True)
    wrong = {name: found for name, found in report.items() if found and name != "error_msgs"}
    assert not wrong, f"{folder}: {wrong}"
    return model.eval()


def logits_of(folder, inputs, place):
    for name in ("in", "out"):
        if os.path.exists(f"{place}/{name}.safetensors"):
            os.remove(f"{place}/{name}.safetensors")
    save_file(inputs, f"{place}/in.safetensors")
    run("infer", "--model", folder, "--inputs", f"{place}/in.safetensors", "--outputs", f"{place}/out.safetensors")
    return load_file(f"{place}/out.safetensors")["logits"]


def compare(name, kind, folder, inputs, place):
    with torch.no_grad():
        theirs = opened(kind, folder)(**inputs).logits
    error = ((logits_of(folder, inputs, place) - theirs).abs().max() / theirs.abs().max()).item()
    print(f"{name:24} {error:.1e}")
    return error <= BOUND


def same_tokens(folder):
    ours = json.loads(subprocess.run([PROGRAM, "tokenize", "--tokenizer", folder, LINE.strip(), "--json", "-"],
                                     check=True, capture_output=True).stdout)["ids"]
    return ours == tf.AutoTokenizer.from_pretrained(folder)(LINE.strip())["input_ids"]


def main():
    good = True
    with tempfile.TemporaryDirectory() as place:
        with open(f"{place}/text.txt", "w") as file:
            file.write(LINE * 60)
        with open(f"{place}/rows.csv", "w") as file:
            file.write("label,text\n" + "".join(f"{'ab'[i % 2]},{'fine' if i % 2 else 'dull'} and old\n" for i in range(60)))
        ids = torch.randint(0, 10, (2, 9), generator=torch.Generator().manual_seed(1))
        text = {"input_ids": ids}
        cases = [
            ("gpt2", tf.GPT2LMHeadModel, ["gpt2", "--data", f"{place}/text.txt", "--context", "16"], text),
            ("llama", tf.LlamaForCausalLM, ["llama", "--data", f"{place}/text.txt", "--context", "16"], text),
            ("bert, masked words", tf.BertForMaskedLM, ["bert", "--task", "mlm", "--data", f"{place}/text.txt", "--context", "16"], text),
            ("bert, from that", tf.BertForSequenceClassification, ["bert", "--data", f"{place}/rows.csv", "--context", "16"], text),
        ]
        masked = f"{place}/bert, masked words"
        for name, kind, words, inputs in cases:
            out = f"{place}/{name}"
            sizes = ["--batch", "4", "--steps", "6", "--quiet", "--from", masked] if name.endswith("from that") else SMALL
            run("train", *words[:1], *sizes, *words[1:], "--out", out)
            good &= compare(name, kind, f"{out}/model", inputs, place)
            tokens = same_tokens(f"{out}/model")
            print(f"{'  tokens':24} {'the same' if tokens else 'OTHERS'}")
            good &= tokens
        pixels = {"pixel_values": torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(1))}
        for name, kind in [("vit", tf.ViTForImageClassification), ("deit", tf.DeiTForImageClassificationWithTeacher)]:
            run("train", name, "--data", "shapes", "--size", "16", "--patch", "4", "--mlp", "32", *SMALL, "--out", f"{place}/{name}")
            good &= compare(name, kind, f"{place}/{name}/model", pixels, place)
    return 0 if good else 1


if __name__ == "__main__":
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    sys.exit(main())
