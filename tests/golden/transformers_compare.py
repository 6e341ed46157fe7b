#!/usr/bin/env python3
"""Compares `equigrad infer` with Hugging Face's transformers on randomly initialised models.

    pip install torch transformers timm safetensors
    tests/golden/transformers_compare.py build/release/bin/equigrad            # the table, exit code 1 when a bound is broken
    tests/golden/transformers_compare.py build/release/bin/equigrad bert vit   # cases whose name holds one of these
    REWRITE=build/release/examples/06_model_folder tests/golden/transformers_compare.py ...   # also: equigrad reads and writes
                                                                 # each folder, transformers reads that; the same weights
    tests/golden/transformers_compare.py --write tests/golden/transformers.json   # the fixture of transformers_test.cpp

Every case makes a model with weights far from their initial values (gains not 1, biases not 0), saves it with
save_pretrained, runs forward and backward in float64 and float32 in both programs and compares every output and every
parameter's gradient: largest difference over the reference's largest entry. transformers computes RMSNorm and rotary angles in
float32 whatever the model's type; for the reference both are replaced by the same formulas in float64.
"""
import json
import math
import os
import subprocess
import sys
import tempfile

import numpy as np
import torch
import timm
import transformers as tf
from safetensors.torch import load_file, save_file

REWRITE = os.environ.get("REWRITE")
BOUND = {"f64": 1e-10, "f32": 2e-5}


def exact_rms_norm(self, x):
    return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon))


def exact_rotary(original):
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    def forward(self, x, position_ids):
        if x.dtype != torch.float64:
            return original(self, x, position_ids)
        with float64_arange():
            parameters = ROPE_INIT_FUNCTIONS.get(self.rope_type) if self.rope_type != "default" else None
            if parameters is None:
                head_dim = getattr(self.config, "head_dim", None) or self.config.hidden_size // self.config.num_attention_heads
                inverse = 1.0 / self.config.rope_theta ** (torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
                scale = 1.0
            else:
                inverse, scale = parameters(self.config, x.device, seq_len=int(position_ids.max()) + 1)
        angle = position_ids[:, :, None].double() * inverse[None, None, :].double()
        both = torch.cat([angle, angle], -1)
        return both.cos() * scale, both.sin() * scale

    return forward


class float64_arange:
    """While it lives, the frequencies of transformers are computed in float64."""

    def __enter__(self):
        self.arange, self.to, self.float = torch.arange, torch.Tensor.to, torch.float
        def arange(*args, **options):
            if options.get("dtype") in (torch.float32, torch.int64):
                options["dtype"] = torch.float64
            return self.arange(*args, **options)
        def to(tensor, *args, **options):
            if options.get("dtype") is torch.float32:
                options["dtype"] = torch.float64
            return self.to(tensor, *args, **options)
        torch.arange, torch.Tensor.to, torch.float = arange, to, torch.float64

    def __exit__(self, *_):
        torch.arange, torch.Tensor.to, torch.float = self.arange, self.to, self.float


def drawn(name, shape):
    """Numbers in [-1, 1) that depend on (name, index) alone and are exact in float32: FNV-1a of the name, SplitMix64."""
    h = 0xCBF29CE484222325
    for byte in name.encode():
        h = (h ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    with np.errstate(over="ignore"):
        x = np.uint64(h) + np.arange(1, int(np.prod(shape)) + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x ^= x >> np.uint64(31)
    return torch.from_numpy((x >> np.uint64(40)).astype(np.float64) / 2.0**23 - 1).reshape(shape)


def weight(name, shape):
    """Far from initial values: gains 1 +- 1/4, biases +- 1/4, matrices +- a power of two near 1/sqrt(elements a row)."""
    u = drawn(name, shape)
    if len(shape) == 1:
        return (1.0 if name.endswith("weight") else 0.0) + u / 4
    return u * 2.0 ** -math.floor(math.log2(math.sqrt(math.prod(shape[1:]))))


def roughened(model):
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(weight(name, p.shape))
    return model.eval()


def ids(batch, tokens, vocabulary, seed=1):
    return torch.randint(0, vocabulary, (batch, tokens), generator=torch.Generator().manual_seed(seed))


def padding(batch, tokens):
    mask = torch.ones(batch, tokens, dtype=torch.long)
    for b in range(1, batch):
        mask[b, tokens - 2 * b :] = 0
    return mask


def text(batch=3, tokens=9, vocabulary=50, mask=True, **more):
    inputs = {"input_ids": ids(batch, tokens, vocabulary)}
    if mask:
        inputs["attention_mask"] = padding(batch, tokens)
    return {**inputs, **more}


def images(batch, height, width, channels=3):
    return {"pixel_values": drawn("input.pixel_values", (batch, channels, height, width))}


def bert(**more):
    return tf.BertConfig(**{**dict(vocab_size=50, hidden_size=36, num_hidden_layers=2, num_attention_heads=3, intermediate_size=44, max_position_embeddings=20), **more})


def gpt2(**more):
    return tf.GPT2Config(**{**dict(vocab_size=50, n_embd=30, n_layer=2, n_head=3, n_positions=20, bos_token_id=0, eos_token_id=0), **more})


def llama(**more):
    return tf.LlamaConfig(**{**dict(vocab_size=50, hidden_size=48, intermediate_size=40, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2, max_position_embeddings=32), **more})


def vit(config=tf.ViTConfig, **more):
    return config(**{**dict(hidden_size=30, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40, image_size=[12, 20], patch_size=4), **more})


class Timm:
    """A model of timm with the little of transformers' interface that is used here."""

    def __init__(self, architecture, **arguments):
        self.architecture, self.arguments = architecture, arguments

    def __call__(self, _):
        outer = self

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = timm.create_model(outer.architecture, **outer.arguments)

            def forward(self, pixel_values):
                return {"logits": self.inner(pixel_values)}

            def named_parameters(self, *_, **__):
                return self.inner.named_parameters()

            def save_pretrained(self, folder, **_):
                timm.models.save_for_hf(self.inner, folder, model_args=outer.arguments, safe_serialization=True)

        return Model()

    def told(self):
        return {"architecture": self.architecture, "num_classes": self.arguments["num_classes"], "model_args": {k: list(v) if isinstance(v, tuple) else v for k, v in self.arguments.items()}}


POSITIONS = "position_embeddings"
TYPES = {"token_type_ids": torch.tensor([[0] * 4 + [1] * 5] * 3)}
SHIFTED = {"position_ids": torch.arange(2, 11).expand(3, 9).contiguous()}
RESAMPLED = {"interpolate_pos_encoding": True}  # images of another size than the config's
SCALING = {
    "linear": {"rope_type": "linear", "factor": 3.0},
    "dynamic": {"rope_type": "dynamic", "factor": 2.0},
    "llama3": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 16},
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
    "yarn, factor not the ratio": {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 16},
    "yarn with scales": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 8, "beta_slow": 2, "mscale": 0.7, "mscale_all_dim": 0.9, "truncate": False},
}

CASES = {
    "bert": (tf.BertModel, bert(), text(**TYPES)),
    "bert, relu, one head, positions": (tf.BertModel, bert(hidden_act="relu", num_attention_heads=1), text(**SHIFTED)),
    "bert, no padding, gelu_new": (tf.BertModel, bert(hidden_act="gelu_new", type_vocab_size=3), text(mask=False)),
    "bert masked LM, tied": (tf.BertForMaskedLM, bert(), text(**TYPES)),
    "bert masked LM, untied": (tf.BertForMaskedLM, bert(tie_word_embeddings=False, hidden_act="silu"), text()),
    "bert pretraining": (tf.BertForPreTraining, bert(), text(**TYPES)),
    "bert next sentence": (tf.BertForNextSentencePrediction, bert(), text(**TYPES)),
    "bert sequence classification": (tf.BertForSequenceClassification, bert(num_labels=5), text(**TYPES)),
    "bert token classification": (tf.BertForTokenClassification, bert(num_labels=4), text()),
    "bert question answering": (tf.BertForQuestionAnswering, bert(), text(**TYPES)),
    "gpt2": (tf.GPT2Model, gpt2(), text()),
    "gpt2 LM, tied": (tf.GPT2LMHeadModel, gpt2(), text(**SHIFTED)),
    "gpt2 LM, untied, n_inner, relu": (tf.GPT2LMHeadModel, gpt2(tie_word_embeddings=False, n_inner=50, activation_function="relu"), text()),
    "gpt2 LM, scale by layer, token types": (tf.GPT2LMHeadModel, gpt2(scale_attn_by_inverse_layer_idx=True), text(**TYPES)),
    "gpt2 LM, no scale, one head": (tf.GPT2LMHeadModel, gpt2(scale_attn_weights=False, n_head=1), text(mask=False)),
    "gpt2 sequence classification": (tf.GPT2ForSequenceClassification, gpt2(num_labels=3, pad_token_id=7), text()),
    "gpt2 token classification": (tf.GPT2ForTokenClassification, gpt2(num_labels=4), text()),
    "gpt2 question answering": (tf.GPT2ForQuestionAnswering, gpt2(), text()),
    "llama": (tf.LlamaModel, llama(), text()),
    "llama LM, 6 heads on 2": (tf.LlamaForCausalLM, llama(), text()),
    "llama LM, 6 heads on 1, tied": (tf.LlamaForCausalLM, llama(num_key_value_heads=1, tie_word_embeddings=True), text(**SHIFTED)),
    "llama LM, heads not shared, biases": (tf.LlamaForCausalLM, llama(num_key_value_heads=6, attention_bias=True, mlp_bias=True), text()),
    "llama LM, wide heads, gelu, theta": (tf.LlamaForCausalLM, llama(head_dim=10, hidden_act="gelu", rope_theta=500.0), text()),
    **{f"llama LM, rope {k}": (tf.LlamaForCausalLM, llama(rope_scaling=v, max_position_embeddings=8 if k == "dynamic" else 64), text(tokens=19)) for k, v in SCALING.items()},
    "llama sequence classification": (tf.LlamaForSequenceClassification, llama(num_labels=3, pad_token_id=7), text()),
    "llama token classification": (tf.LlamaForTokenClassification, llama(num_labels=4), text()),
    "llama question answering": (tf.LlamaForQuestionAnswering, llama(), text()),
    "vit": (tf.ViTModel, vit(), images(2, 12, 20)),
    "vit, positions of 12 x 12 resampled to 20 x 16": (tf.ViTModel, vit(image_size=12), images(2, 20, 16), RESAMPLED),
    "deit, positions of 16 x 16 resampled to 8 x 24": (tf.DeiTModel, vit(tf.DeiTConfig, image_size=16), images(2, 8, 24), RESAMPLED),
    "vit, pooler of 7, sigmoid": (tf.ViTModel, vit(pooler_output_size=7, pooler_act="sigmoid", qkv_bias=False), images(2, 12, 20)),
    "vit classification, 1 channel": (tf.ViTForImageClassification, vit(num_channels=1, num_labels=6, hidden_act="gelu_new", image_size=12), images(2, 12, 12, 1)),
    "deit": (tf.DeiTModel, vit(tf.DeiTConfig), images(2, 12, 20)),
    "deit classification": (tf.DeiTForImageClassification, vit(tf.DeiTConfig, num_labels=6), images(2, 12, 20)),
    "timm vit": (Timm("vit_tiny_patch16_224", img_size=(16, 24), patch_size=8, embed_dim=24, depth=2, num_heads=3, num_classes=5), None, images(2, 16, 24)),
    "timm deit, distilled": (Timm("deit_small_distilled_patch16_224", img_size=32, embed_dim=20, depth=1, num_heads=2, num_classes=4, mlp_ratio=3.0), None, images(2, 32, 32)),
    "deit with teacher": (tf.DeiTForImageClassificationWithTeacher, vit(tf.DeiTConfig, num_labels=6, num_attention_heads=5), images(2, 12, 20)),
}


def reference(model, inputs, dtype, settings={}):
    """Outputs, cotangents, gradients by parameter and by floating input. The gradient of resampled position embeddings is left
    out: there it is that of the embeddings before."""
    if hasattr(model, "config"):
        model.config.use_cache = False
    inputs = {k: v.to(dtype).detach().clone().requires_grad_() if v.is_floating_point() else v for k, v in inputs.items()}
    model = model.to(dtype)
    model.zero_grad()
    found = model(**inputs, **settings)
    outputs = {k: v for k, v in found.items() if torch.is_tensor(v)}
    cotangents = {k: drawn("cotangent." + k, v.shape).to(dtype) for k, v in outputs.items()}
    mask = inputs.get("attention_mask")
    if mask is not None:  # what padding tokens say is nobody's business
        for k, v in cotangents.items():
            if v.dim() >= 2 and v.shape[:2] == mask.shape:
                v *= mask.to(dtype).reshape(*mask.shape, *[1] * (v.dim() - 2))
    sum((outputs[k] * c).sum() for k, c in cotangents.items()).backward()
    gradients = {k: p.grad if p.grad is not None else torch.zeros_like(p) for k, p in model.named_parameters()}
    if settings == RESAMPLED:
        gradients = {k: v for k, v in gradients.items() if not k.endswith(POSITIONS)}
    gradients.update({f"input.{k}": v.grad for k, v in inputs.items() if v.is_floating_point()})
    return inputs, {k: v.detach() for k, v in outputs.items()}, cotangents, gradients


def error(ours, theirs, mask=None):
    if ours.shape != theirs.shape:
        return float("inf")
    if mask is not None and theirs.dim() >= 2 and theirs.shape[:2] == mask.shape:
        ours, theirs = ours[mask.bool()], theirs[mask.bool()]
    return float((ours.double() - theirs.double()).abs().max() / theirs.double().abs().max().clamp(min=1e-30))


def run(program, folder, inputs, dtype, *more):
    call = [program, "infer", "--quiet", "--model", folder, "--inputs", inputs, "--dtype", dtype, *more]
    done = subprocess.run(call, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(call)}\n{done.stderr}")


def made(kind, config):
    if isinstance(kind, Timm):
        return roughened(kind(config))
    # Eager softmax is float32 in Llama and ViT; GPT-2's fused attention forgets scale_attn_weights.
    config._attn_implementation = "eager" if config.model_type in ("bert", "gpt2") else "sdpa"
    return roughened(kind(config))


def compare(program, kind, config, inputs, settings, shards):
    model = made(kind, config)
    errors = {}
    exact = inputs
    with tempfile.TemporaryDirectory() as scratch:
        folder = os.path.join(scratch, "model")
        model.float().save_pretrained(folder, max_shard_size="20KB" if shards else "5GB")
        for name, dtype in (("f64", torch.float64), ("f32", torch.float32)):
            given, outputs, cotangents, gradients = reference(model, exact, torch.float64, settings)
            path, out, grads = (os.path.join(scratch, f) for f in ("in.safetensors", "out.safetensors", "grads.safetensors"))
            save_file({**{k: v.detach().to(dtype).contiguous() if v.is_floating_point() else v.contiguous() for k, v in given.items()},
                       **{f"cotangent.{k}": v.to(dtype).contiguous() for k, v in cotangents.items()}}, path)
            size = ["--image-size", "x".join(str(n) for n in inputs["pixel_values"].shape[2:])] if settings == RESAMPLED else []
            run(program, folder, path, name, "--outputs", out, "--gradients", grads, *size)
            ours, ours_grads = load_file(out), load_file(grads)
            if settings == RESAMPLED:
                ours_grads = {k: v for k, v in ours_grads.items() if not k.endswith(POSITIONS)}
            if set(ours) != set(outputs) or set(ours_grads) != set(gradients):
                raise SystemExit(f"names differ: {sorted(set(ours) ^ set(outputs))} {sorted(set(ours_grads) ^ set(gradients))}")
            largest = max(float(g.abs().max()) for g in gradients.values())
            errors[name] = (
                max(error(ours[k], outputs[k], exact.get("attention_mask")) for k in outputs),
                # A true gradient of 0 (the key's bias) is compared with the largest of all.
                max(min(error(ours_grads[k], gradients[k]), float((ours_grads[k].double() - gradients[k].double()).abs().max()) / largest) if k.endswith("key.bias") or float(gradients[k].abs().max()) < 1e-12 * largest else error(ours_grads[k], gradients[k]) for k in gradients),
            )
        if REWRITE and not isinstance(kind, Timm):
            again = os.path.join(scratch, "again")
            subprocess.run([REWRITE, folder, again], check=True, capture_output=True)
            kept, read = kind.from_pretrained(folder).state_dict(), kind.from_pretrained(again).state_dict()
            if kept.keys() != read.keys() or any(not torch.equal(kept[k], read[k]) for k in kept):
                raise SystemExit(f"{again}: transformers reads other weights than it wrote")
    return errors


def numbers(name, t):
    """What a fixture keeps of a tensor: shape, largest entry, three projections."""
    t = t.double()
    return [list(t.shape), float(t.abs().max()), *(float((t * drawn(f"{k}.{name}", t.shape)).sum()) for k in range(3))]


def write(path):
    """The fixture of tests/golden/transformers_test.cpp."""
    cases = []
    for name, (kind, config, inputs, *more) in CASES.items():
        model = made(kind, config).double()
        given, outputs, _, gradients = reference(model, inputs, torch.float64, *more)
        told = kind.told() if isinstance(kind, Timm) else {**config.to_diff_dict(), "architectures": [kind.__name__], "model_type": config.model_type}
        if "id2label" in told:
            told["num_labels"] = len(told.pop("id2label"))
        for junk in ("transformers_version", "label2id", "use_cache", "dtype", "torch_dtype"):
            told.pop(junk, None)
        mask = inputs.get("attention_mask")
        masked = {k: v * mask.reshape(*mask.shape, *[1] * (v.dim() - 2)) if mask is not None and v.shape[:2] == mask.shape else v for k, v in outputs.items()}
        cases.append({"name": name, "config": told,
                      "inputs": {k: [list(v.shape), [] if v.is_floating_point() else v.flatten().tolist()] for k, v in given.items()},
                      **({"image_size": list(inputs["pixel_values"].shape[2:])} if more else {}),
                      "outputs": {k: numbers(k, v) for k, v in masked.items()},
                      "gradients": {k: numbers(k, v) for k, v in gradients.items()}})
    with open(path, "w") as file:
        lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
        file.write(f'{{"transformers": "{tf.__version__}", "torch": "{torch.__version__.split("+")[0]}", "cases": [\n{lines}\n]}}\n')


def main():
    program, words = sys.argv[1], sys.argv[2:]
    norm, rotary = tf.models.llama.modeling_llama.LlamaRMSNorm, tf.models.llama.modeling_llama.LlamaRotaryEmbedding
    norm.forward, rotary.forward = exact_rms_norm, exact_rotary(rotary.forward)
    if program == "--write":
        return write(words[0])
    print(f"transformers {tf.__version__}, torch {torch.__version__}\n")
    print("| model | outputs f64 | gradients f64 | outputs f32 | gradients f32 |\n|---|---|---|---|---|")
    broken = 0
    for i, (name, (kind, config, inputs, *more)) in enumerate(CASES.items()):
        if words and not any(w in name for w in words):
            continue
        errors = compare(program, kind, config, inputs, more[0] if more else {}, shards=i % 3 == 0)
        bad = any(e > BOUND[t] or e != e for t, both in errors.items() for e in both)
        broken += bad
        print(f"| {name} | " + " | ".join(f"{e:.1e}" for t in ("f64", "f32") for e in errors[t]) + f" |{' BROKEN' if bad else ''}", flush=True)
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
