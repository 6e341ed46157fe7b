#!/usr/bin/env python3
"""Compares `equigrad infer` with Hugging Face's transformers on randomly initialised models.

    pip install torch transformers timm safetensors
    tests/golden/transformers_compare.py build/release/bin/equigrad            # the tables, exit code 1 when a bound is broken
    tests/golden/transformers_compare.py build/release/bin/equigrad bert vit   # cases whose name holds one of these
    FRESH=1000:100 tests/golden/transformers_compare.py ... fresh              # random configs, of the seeds from 1000 on
    REWRITE=build/release/examples/06_model_folder tests/golden/transformers_compare.py ...   # also: equigrad reads and writes
                                                                 # each folder, transformers reads that; the same weights
    tests/golden/transformers_compare.py --write tests/golden/transformers.json   # the fixture of transformers_test.cpp

Runs under transformers 4.57 and 5. Three tables: chosen models; models whose config.json is drawn at random; folders that transformers reads
in two ways, or otherwise in version 4 than in 5, of which equigrad must refuse those that it does not compute as transformers does.

Every case makes a model with weights far from their initial values (gains not 1, biases not 0), saves it with
save_pretrained, runs forward and backward in float64 and float32 in both programs and compares every output and every
parameter's gradient: largest difference over the reference's largest entry. transformers computes RMSNorm and rotary angles in
float32 whatever the model's type; for the reference both are replaced by the same formulas in float64.
"""
import json
import math
import os
import random
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
FRESH_BOUND = {"f64": 1e-10, "f32": 2e-4}  # post-norm layers drawn at random cancel more: transformers' own f32 is as far off
NEWER = int(tf.__version__.split(".")[0]) >= 5


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
                theta = self.config.rope_parameters["rope_theta"] if NEWER else self.config.rope_theta
                inverse = 1.0 / theta ** (torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
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


def tensors_of(folder):
    return {k: v for f in sorted(os.listdir(folder)) if f.endswith(".safetensors") for k, v in load_file(os.path.join(folder, f)).items()}


def names_in_files(model):
    """What files call the parameters: version 5 has other names for some modules than for what it writes of them."""
    named = list(model.named_parameters())
    with torch.no_grad():
        for number, (_, p) in enumerate(named):
            p.fill_(number)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        return {named[int(v.flatten()[0])][0]: k for k, v in tensors_of(folder).items() if v.numel() and v.is_floating_point()}


def roughened(model, kept=torch.float32):
    model.float()
    if (getattr(getattr(model, "generation_config", None), "pad_token_id", None) or 0) < 0:
        model.generation_config.pad_token_id = None  # version 4 writes no folder with it
    model.file_names = names_in_files(model)
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(weight(model.file_names.get(name, name), p.shape).to(kept))
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


def fresh(seed):
    """A class, a config and inputs, drawn: sizes that are no powers of two, every activation, rope, head, kind of mask and of padding.
    Heads have three features or more: a norm makes -1 and 1 of any two numbers, so that every gradient is rounding."""
    r = random.Random(seed)
    family = ("bert", "gpt2", "llama", "vit")[seed % 4]
    heads, layers, vocabulary, tokens, batch = r.randint(1, 6), r.randint(1, 3), r.randint(12, 70), r.randint(2, 14), r.randint(1, 3)
    act = r.choice(["gelu", "gelu_new", "gelu_pytorch_tanh", "quick_gelu", "relu", "relu2", "silu", "mish", "sigmoid", "tanh"])
    eps = r.choice([1e-12, 1e-6, 1e-5, 1e-3, 0.02])
    labels = r.randint(1, 7)
    tied = r.random() < 0.5
    pad = r.choice([None, 0, vocabulary // 2, vocabulary - 1])
    drop = dict(hidden_dropout_prob=0.3, attention_probs_dropout_prob=0.2)
    kept = r.choice([torch.float32, torch.float32, torch.bfloat16, torch.float16])
    if family == "vit":
        deit = r.random() < 0.5
        patch, channels = r.randint(2, 6), r.randint(1, 4)
        size = [patch * r.randint(1, 5), patch * r.randint(1, 5)]
        config = (tf.DeiTConfig if deit else tf.ViTConfig)(hidden_size=heads * r.randint(3, 9), num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=r.randint(5, 60), image_size=size, patch_size=patch, num_channels=channels, hidden_act=act, layer_norm_eps=eps, qkv_bias=r.random() < 0.7, num_labels=labels, **drop)
        kind = r.choice([tf.DeiTModel, tf.DeiTForImageClassification, tf.DeiTForImageClassificationWithTeacher] if deit else [tf.ViTModel, tf.ViTForImageClassification])
        return kind, config, images(batch, *size, channels), kept
    inputs = {"input_ids": ids(batch, tokens, vocabulary, seed)}
    shape = r.choice(["none", "right", "left", "holes"])
    if shape != "none":
        mask = torch.ones(batch, tokens, dtype=torch.long)
        for b in range(batch):
            n = r.randint(0, tokens - 1)
            if shape == "right":
                mask[b, tokens - n :] = 0
            elif shape == "left":
                mask[b, :n] = 0
            else:
                mask[b, 1:] = torch.tensor([int(r.random() < 0.7) for _ in range(tokens - 1)])
        inputs["attention_mask"] = mask
    if r.random() < 0.4:  # with a mask any positions, without one those that count on
        start = r.randint(0, 4)
        inputs["position_ids"] = ids(batch, tokens, tokens + 4, seed + 1) if shape != "none" and family != "bert" else torch.arange(start, start + tokens).expand(batch, tokens).contiguous()
    if family == "bert":
        types = r.randint(1, 4)
        if r.random() < 0.6:
            inputs["token_type_ids"] = ids(batch, tokens, types, seed + 2)
        config = tf.BertConfig(vocab_size=vocabulary, hidden_size=heads * r.randint(3, 12), num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=r.randint(5, 60), max_position_embeddings=tokens + 5, type_vocab_size=types, hidden_act=act, layer_norm_eps=eps, pad_token_id=pad, tie_word_embeddings=tied, classifier_dropout=r.choice([None, 0.4]), **drop)
        kind = r.choice([tf.BertModel, tf.BertForMaskedLM, tf.BertForPreTraining, tf.BertForNextSentencePrediction, tf.BertForSequenceClassification, tf.BertForTokenClassification, tf.BertForQuestionAnswering])
    elif family == "gpt2":
        config = tf.GPT2Config(vocab_size=vocabulary, n_embd=heads * r.randint(3, 12), n_layer=layers, n_head=heads, n_inner=r.choice([None, r.randint(5, 60)]), n_positions=tokens + 5, activation_function=act, layer_norm_epsilon=eps, pad_token_id=r.choice([pad, vocabulary, -1]), bos_token_id=0, eos_token_id=0, tie_word_embeddings=tied, scale_attn_weights=r.random() < 0.8, scale_attn_by_inverse_layer_idx=r.random() < 0.3)
        kind = r.choice([tf.GPT2Model, tf.GPT2LMHeadModel, tf.GPT2ForSequenceClassification, tf.GPT2ForTokenClassification, tf.GPT2ForQuestionAnswering])
    else:
        shared = r.choice([d for d in range(1, heads + 1) if heads % d == 0])
        rope = r.choice([None, *SCALING.values()])
        config = tf.LlamaConfig(vocab_size=vocabulary, hidden_size=heads * r.randint(3, 12), num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=shared, head_dim=2 * r.randint(2, 8), intermediate_size=r.randint(5, 60), max_position_embeddings=r.choice([4, 32, 64]) if rope and rope["rope_type"] == "dynamic" else 64, hidden_act=act, rms_norm_eps=eps, pad_token_id=r.choice([pad, -1]), tie_word_embeddings=tied, attention_bias=r.random() < 0.4, mlp_bias=r.random() < 0.4, rope_theta=r.choice([500.0, 10000.0]), rope_scaling=rope and dict(rope), attention_dropout=0.1)
        kind = r.choice([tf.LlamaModel, tf.LlamaForCausalLM, tf.LlamaForSequenceClassification, tf.LlamaForTokenClassification, tf.LlamaForQuestionAnswering])
    if kind.__name__.endswith("SequenceClassification") and family != "bert" and config.pad_token_id is None:
        config.pad_token_id = 1
    if "Classification" in kind.__name__:
        config.num_labels = labels
    return kind, config, inputs, kept


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
    "bert pretraining, untied": (tf.BertForPreTraining, bert(tie_word_embeddings=False), text(**TYPES)),
    "bert, no padding id": (tf.BertModel, bert(pad_token_id=None), text(vocabulary=3)),
    "bert, padding counted from the end": (tf.BertModel, bert(vocab_size=4, pad_token_id=-2), text(vocabulary=4)),
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
    "llama, padding counted from the end": (tf.LlamaModel, llama(vocab_size=4, pad_token_id=-1), text(vocabulary=4)),
    "llama LM, positions that restart, with a mask": (tf.LlamaForCausalLM, llama(), text(position_ids=torch.arange(9).remainder(4).expand(3, 9).contiguous())),
    "gpt2 sequence classification, padding beyond the vocabulary": (tf.GPT2ForSequenceClassification, gpt2(pad_token_id=50), text()),
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
    gradients = {model.file_names.get(k, k): p.grad if p.grad is not None else torch.zeros_like(p) for k, p in model.named_parameters()}
    unread = {model.file_names.get(k, k) for k, p in model.named_parameters() if p.grad is None}
    if settings == RESAMPLED:
        gradients = {k: v for k, v in gradients.items() if not k.endswith(POSITIONS)}
    gradients.update({f"input.{k}": v.grad for k, v in inputs.items() if v.is_floating_point()})
    return inputs, {k: v.detach() for k, v in outputs.items()}, cotangents, gradients, unread


def difference(ours, theirs, scale):
    """Largest difference over `scale`; infinite where shapes differ or a number is not finite, which Python's max() would not see."""
    if ours.shape != theirs.shape:
        return math.inf
    off = float((ours.double() - theirs.double()).abs().max()) / max(scale, 1e-30)
    return off if math.isfinite(off) else math.inf


def error(ours, theirs, mask=None):
    if mask is not None and ours.shape == theirs.shape and theirs.dim() >= 2 and theirs.shape[:2] == mask.shape:
        ours, theirs = ours[mask.bool()], theirs[mask.bool()]
    return difference(ours, theirs, float(theirs.double().abs().max()))


def gradient_error(name, ours, theirs, largest):
    """Of one gradient. A true gradient of 0 (the key's bias) is compared with the largest of all."""
    own = error(ours, theirs)
    zero = name.endswith("key.bias") or float(theirs.abs().max()) < 1e-12 * largest
    return min(own, difference(ours, theirs, largest)) if zero else own


def run(program, folder, inputs, dtype, *more):
    call = [program, "infer", "--quiet", "--model", folder, "--inputs", inputs, "--dtype", dtype, *more]
    done = subprocess.run(call, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(call)}\n{done.stderr}")


def made(kind, config, kept=torch.float32):
    if isinstance(kind, Timm):
        return roughened(kind(config))
    # Eager softmax is float32 in Llama and ViT; GPT-2's fused attention forgets scale_attn_weights.
    config._attn_implementation = "eager" if config.model_type in ("bert", "gpt2") else "sdpa"
    return roughened(kind(config), kept)


def compare(program, kind, config, inputs, settings, shards, kept=torch.float32):
    model = made(kind, config, kept)
    errors = {}
    exact = inputs
    with tempfile.TemporaryDirectory() as scratch:
        folder = os.path.join(scratch, "model")
        model.to(kept).save_pretrained(folder, max_shard_size="20KB" if shards else "5GB")
        for name, dtype in (("f64", torch.float64), ("f32", torch.float32)):
            given, outputs, cotangents, gradients, unread = reference(model, exact, torch.float64, settings)
            path, out, grads = (os.path.join(scratch, f) for f in ("in.safetensors", "out.safetensors", "grads.safetensors"))
            save_file({**{k: v.detach().to(dtype).contiguous() if v.is_floating_point() else v.contiguous() for k, v in given.items()},
                       **{f"cotangent.{k}": v.to(dtype).contiguous() for k, v in cotangents.items()}}, path)
            size = ["--image-size", "x".join(str(n) for n in inputs["pixel_values"].shape[2:])] if settings == RESAMPLED else []
            run(program, folder, path, name, "--outputs", out, "--gradients", grads, *size)
            ours, ours_grads = load_file(out), load_file(grads)
            if settings == RESAMPLED:
                ours_grads = {k: v for k, v in ours_grads.items() if not k.endswith(POSITIONS)}
            for name_in_file in unread - set(ours_grads):  # nothing reads it there either
                del gradients[name_in_file]
            if set(ours) != set(outputs) or set(ours_grads) != set(gradients):
                raise SystemExit(f"names differ: {sorted(set(ours) ^ set(outputs))} {sorted(set(ours_grads) ^ set(gradients))}")
            largest = max(float(g.abs().max()) for g in gradients.values())
            errors[name] = (
                max(error(ours[k], outputs[k], exact.get("attention_mask")) for k in outputs),
                max(gradient_error(k, ours_grads[k], gradients[k], largest) for k in gradients),
            )
        if REWRITE and not isinstance(kind, Timm):
            again = os.path.join(scratch, "again")
            subprocess.run([REWRITE, folder, again], check=True, capture_output=True)
            kept, read = kind.from_pretrained(folder).state_dict(), kind.from_pretrained(again).state_dict()
            if kept.keys() != read.keys() or any(not torch.equal(kept[k], read[k]) for k in kept if model.file_names.get(k, k) not in unread):
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
        given, outputs, _, gradients, _ = reference(model, inputs, torch.float64, *more)
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


def changed(folder, config=lambda c: None, tensors=lambda t: None):
    """Edits config.json and the one file of weights."""
    path = os.path.join(folder, "config.json")
    told = json.load(open(path))
    config(told)
    json.dump(told, open(path, "w"))
    path = os.path.join(folder, "model.safetensors")
    held = load_file(path)
    tensors(held)
    save_file(held, path, {"format": "pt"})


LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
PACKED = {"input_ids": ids(2, 9, 50), "position_ids": torch.arange(9).remainder(4).expand(2, 9).contiguous()}
PLAIN = {"input_ids": ids(2, 9, 50)}


def beside(**more):
    return lambda told: told.update(more)


def beside_default(**more):
    """The same, in a config whose rope is of the default type whatever version wrote it."""
    return lambda told: told.update(rope_parameters=None, rope_scaling=None, rope_theta=1e4, **more)


# name: class, config, inputs, what is changed in the folder, what the refusal says; None: equigrad computes what transformers 5 does.
AMBIGUOUS = {
    "bert masked LM, untied, two biases": (tf.BertForMaskedLM, bert(tie_word_embeddings=False), PLAIN, {"tensors": lambda t: t.update({"cls.predictions.decoder.bias": weight("some.bias", (50,)).float()})}, None),
    "positions that restart, no mask": (tf.LlamaForCausalLM, llama(), PACKED, {}, "position_ids: 3 is followed by 0"),
    "positions that restart, no mask, gpt2": (tf.GPT2LMHeadModel, gpt2(), PACKED, {}, "position_ids: 3 is followed by 0"),
    "is_causal false": (tf.LlamaForCausalLM, llama(), PLAIN, {"config": beside(is_causal=False)}, "field 'is_causal' is false"),
    "tied by the config, another lm_head": (tf.LlamaForCausalLM, llama(tie_word_embeddings=True), PLAIN, {"tensors": lambda t: t.update({"lm_head.weight": torch.randn(50, 48)})}, "field 'tie_word_embeddings'"),
    "tied by the config, the same lm_head": (tf.LlamaForCausalLM, llama(tie_word_embeddings=True), PLAIN, {"tensors": lambda t: t.update({"lm_head.weight": t["model.embed_tokens.weight"].clone()})}, None),
    "trained length beside the rope and in it": (tf.LlamaForCausalLM, llama(), PLAIN, {"config": beside(rope_scaling=None, rope_theta=1e4, original_max_position_embeddings=8, rope_parameters={**LLAMA3, "original_max_position_embeddings": 16})}, "field 'original_max_position_embeddings' is 8"),
    "trained length beside the rope alone": (tf.LlamaForCausalLM, llama(), PLAIN, {"config": beside(rope_scaling=None, rope_theta=1e4, original_max_position_embeddings=8, rope_parameters=LLAMA3)}, None),
    "rope_scaling beside rope_parameters": (tf.LlamaForCausalLM, llama(), PLAIN, {"config": beside(rope_theta=1e4, rope_scaling={"rope_type": "linear", "factor": 4.0}, rope_parameters={"rope_type": "default", "rope_theta": 1e4})}, "field 'rope_scaling'"),
    "rope_scaling and rope_parameters alike": (tf.LlamaForCausalLM, llama(), PLAIN, {"config": beside(rope_theta=1e4, rope_scaling={"rope_type": "linear", "factor": 4.0}, rope_parameters={"rope_type": "linear", "factor": 4.0})}, None),
    "partial_rotary_factor": (tf.LlamaForCausalLM, llama(), PLAIN, {"config": beside_default(partial_rotary_factor=0.5)}, "field 'partial_rotary_factor' is 0.5"),
    "bert, pad_token_id null": (tf.BertModel, bert(), {"input_ids": ids(2, 9, 3)}, {"config": beside(pad_token_id=None)}, None),
    "quantization_config": (tf.LlamaForCausalLM, llama(), PLAIN, {"config": beside(quantization_config={"quant_method": "gptq", "bits": 4})}, "field 'quantization_config' is "),
    "gpt2's hidden_size": (tf.GPT2LMHeadModel, gpt2(), PLAIN, {"config": lambda c: c.update(hidden_size=c.pop("n_embd"))}, None),
    "num_labels beside id2label": (tf.BertForSequenceClassification, bert(num_labels=3), PLAIN, {"config": beside(num_labels=5)}, "field 'num_labels' is 5"),
}
OF_VERSION_5 = ("bert masked LM, untied, two biases", "trained length beside the rope alone")  # 4 reads them otherwise, or not at all


def judge(program, kind, config, inputs, change, words):
    """(whether it is right, what to print) of one ambiguous folder, in float64."""
    with tempfile.TemporaryDirectory() as scratch:
        folder, path, out, grads = (os.path.join(scratch, f) for f in ("model", "in.safetensors", "out.safetensors", "grads.safetensors"))
        made(kind, config).save_pretrained(folder)
        changed(folder, **change)
        call = [program, "infer", "--quiet", "--model", folder, "--dtype", "f64", "--inputs", path, "--outputs", out, "--gradients", grads]
        if words is not None:
            save_file({k: v.contiguous() for k, v in inputs.items()}, path)
            done = subprocess.run(call[:-2], capture_output=True, text=True)
            return done.returncode != 0 and words in done.stderr, "refused" if done.returncode else "not refused"
        model = kind.from_pretrained(folder, attn_implementation="eager" if config.model_type in ("bert", "gpt2") else "sdpa").eval()
        model.file_names = {}
        given, outputs, cotangents, gradients, unread = reference(model, inputs, torch.float64)
        save_file({**{k: v.contiguous() for k, v in given.items()}, **{f"cotangent.{k}": v.contiguous() for k, v in cotangents.items()}}, path)
        done = subprocess.run(call, capture_output=True, text=True)
        if done.returncode:
            return False, done.stderr.strip()
        ours, ours_grads = load_file(out), load_file(grads)
        if set(ours_grads) != set(gradients) - (unread - set(ours_grads)):
            return False, f"names differ: {sorted(set(ours_grads) ^ set(gradients))}"
        largest = max(float(g.abs().max()) for g in gradients.values())
        both = max(error(ours[k], outputs[k]) for k in outputs), max(difference(ours_grads[k], gradients[k], largest) for k in ours_grads)
        return max(both) < 1e-10, f"{both[0]:.1e}, {both[1]:.1e}"


def print_line(name, errors, bound):
    bad = any(not e <= bound[t] for t, both in errors.items() for e in both)
    print(f"| {name} | " + " | ".join(f"{e:.1e}" for t in ("f64", "f32") for e in errors[t]) + f" |{' BROKEN' if bad else ''}", flush=True)
    return bad


def of_this_version(name):
    return NEWER or name not in OF_VERSION_5


def refuse_lost(words, drawn):
    """Ends the program where a word chooses nothing: empty tables would pass."""
    names = [*CASES, *(["fresh"] if drawn > 0 else []), *filter(of_this_version, AMBIGUOUS)]
    lost = [w for w in words if not any(w in name for name in names)]
    if lost:
        raise SystemExit(f"no case of this version of transformers has a name that holds {', '.join(map(repr, lost))}")


def main():
    program, words = sys.argv[1], sys.argv[2:]
    tf.logging.set_verbosity_error()
    tf.utils.logging.disable_progress_bar()
    norm, rotary = tf.models.llama.modeling_llama.LlamaRMSNorm, tf.models.llama.modeling_llama.LlamaRotaryEmbedding
    norm.forward, rotary.forward = exact_rms_norm, exact_rotary(rotary.forward)
    if program == "--write":
        return write(words[0])
    wanted = lambda name: not words or any(w in name for w in words)
    first, count = (int(n) for n in os.environ.get("FRESH", "1000:40").split(":"))
    refuse_lost(words, count)
    print(f"transformers {tf.__version__}, torch {torch.__version__}")
    head = " | outputs f64 | gradients f64 | outputs f32 | gradients f32 |\n|---|---|---|---|---|"
    print("\n| model" + head)
    broken = 0
    for i, (name, (kind, config, inputs, *more)) in enumerate(CASES.items()):
        if wanted(name):
            broken += print_line(name, compare(program, kind, config, inputs, more[0] if more else {}, shards=i % 3 == 0), BOUND)
    print("\n| drawn, by its seed" + head)
    for seed in range(first, first + count) if wanted("fresh") else ():
        kind, config, inputs, kept = fresh(seed)
        broken += print_line(f"{seed}: {kind.__name__}, {str(kept)[6:]}", compare(program, kind, config, inputs, {}, seed % 3 == 0, kept), FRESH_BOUND)
    print("\n| folder that can be read in two ways | outputs, gradients f64, or refused |\n|---|---|")
    for name, case in AMBIGUOUS.items():
        if wanted(name) and of_this_version(name):
            right, what = judge(program, *case)
            broken += not right
            print(f"| {name} | {what} |{'' if right else ' BROKEN'}", flush=True)
    print(f"\n{broken} broken")
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
