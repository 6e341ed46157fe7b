"""BERT and GPT-2 as `equigrad bench step` times them, in plain PyTorch (1.13 or later) without dropout.

make(name, batch, adam, prepare) gives (run, parts, gflop, kind of optimiser): what is timed, into how many parts its time is divided, its
matrix products in GFLOP a part.
"""

import torch
from torch import nn
from torch.nn import functional as F

BERT_TOKENS, ASKED, GPT2_TOKENS, PROMPT, DECODED = 128, 20, 64, 64, 16
BERT_SMALL = dict(dim=256, layers=2, heads=4, mlp=512)
BASE = dict(dim=768, layers=12, heads=12, mlp=3072)
WORDS = {"bert": 30522, "gpt2": 50257}
BATCH = {"bert-small": 32, "bert-small-mlm": 32, "gpt2-small": 4, "bert-base-infer": 1, "gpt2-decode": 1}


def attention(q, k, v, causal):
    """q [B, heads, T, D], k and v [B, heads, S, D]; causal: the queries are the last of the keys' tokens."""
    causal = causal and q.shape[2] > 1  # a single query sees everything
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)
    if causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril()
        scores = scores.masked_fill(~seen, float("-inf"))
    return scores.softmax(-1) @ v


class Block(nn.Module):
    def __init__(self, dim, heads, mlp, causal):
        super().__init__()
        self.heads, self.causal = heads, causal
        eps = 1e-5 if causal else 1e-12
        self.norm1, self.norm2 = nn.LayerNorm(dim, eps=eps), nn.LayerNorm(dim, eps=eps)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.fc1, self.fc2 = nn.Linear(dim, mlp), nn.Linear(mlp, dim)
        self.act = nn.GELU(approximate="tanh") if causal else nn.GELU()

    def attend(self, x, cache):
        batch, tokens, dim = x.shape
        q, k, v = self.qkv(x).reshape(batch, tokens, 3, self.heads, dim // self.heads).permute(2, 0, 3, 1, 4)
        if cache is not None:  # keys and values in memory reserved once
            keys, values, past = cache
            keys[:, :, past : past + tokens] = k
            values[:, :, past : past + tokens] = v
            k, v = keys[:, :, : past + tokens], values[:, :, : past + tokens]
        y = attention(q, k, v, self.causal)
        return self.proj(y.transpose(1, 2).reshape(batch, tokens, dim))

    def forward(self, x, cache=None):
        if self.causal:  # GPT-2: pre-norm
            x = x + self.attend(self.norm1(x), cache)
            return x + self.fc2(self.act(self.fc1(self.norm2(x))))
        x = self.norm1(x + self.attend(x, None))  # BERT: post-norm
        return self.norm2(x + self.fc2(self.act(self.fc1(x))))


class Text(nn.Module):
    """Embeddings and blocks of both; `causal` makes it GPT-2."""

    def __init__(self, words, dim, layers, heads, mlp, causal):
        super().__init__()
        self.causal, self.heads = causal, heads
        self.words = nn.Embedding(words, dim)
        self.positions = nn.Embedding(1024 if causal else 512, dim)
        self.types = None if causal else nn.Embedding(2, dim)
        self.norm = nn.LayerNorm(dim, eps=1e-5 if causal else 1e-12)
        self.blocks = nn.ModuleList([Block(dim, heads, mlp, causal) for _ in range(layers)])
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, ids, caches=None, past=0):
        x = self.words(ids) + self.positions(torch.arange(past, past + ids.shape[1], device=ids.device))
        if not self.causal:
            x = self.norm(x + self.types(torch.zeros_like(ids)))
        for i, block in enumerate(self.blocks):
            x = block(x, None if caches is None else (*caches[i], past))
        return self.norm(x) if self.causal else x


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.bert = Text(WORDS["bert"], causal=False, **BERT_SMALL)
        self.pool, self.head = nn.Linear(256, 256), nn.Linear(256, 2)

    def forward(self, ids, labels):
        return F.cross_entropy(self.head(torch.tanh(self.pool(self.bert(ids)[:, 0]))), labels)


class MaskedLm(nn.Module):
    def __init__(self):
        super().__init__()
        self.bert = Text(WORDS["bert"], causal=False, **BERT_SMALL)
        self.dense, self.norm = nn.Linear(256, 256), nn.LayerNorm(256, eps=1e-12)
        self.bias = nn.Parameter(torch.zeros(WORDS["bert"]))

    def forward(self, ids, rows, labels):
        places = self.bert(ids).reshape(-1, 256)[rows]
        places = self.norm(F.gelu(self.dense(places)))
        return F.cross_entropy(F.linear(places, self.bert.words.weight, self.bias), labels)


class Gpt2(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = Text(WORDS["gpt2"], causal=True, **BASE)

    def logits(self, ids, caches=None, past=0):
        return F.linear(self.body(ids, caches, past), self.body.words.weight)

    def forward(self, ids, labels):
        return F.cross_entropy(self.logits(ids).reshape(-1, WORDS["gpt2"]), labels.reshape(-1))


def products(sizes, tokens, keys):
    """Multiply-adds of the blocks for `tokens` tokens that see `keys` keys each."""
    dim = sizes["dim"]
    return tokens * sizes["layers"] * (4 * dim * dim + 2 * dim * sizes["mlp"] + 2 * keys * dim)


def training(model, inputs, make_adam, prepare):
    optimizer, kind = make_adam(model.parameters())
    forward = prepare(model)

    def run():
        optimizer.zero_grad(set_to_none=True)
        forward(*inputs).backward()
        optimizer.step()

    return run, kind


def inference(batch, prepare):
    bert = Text(WORDS["bert"], causal=False, **BASE).eval()
    pool = nn.Linear(768, 768)
    ids = torch.randint(WORDS["bert"], (batch, BERT_TOKENS))
    forward = prepare(bert)

    def run():
        with torch.no_grad():
            torch.tanh(pool(forward(ids)[:, 0].float()))

    return run, 1, 2e-9 * products(BASE, batch * BERT_TOKENS, BERT_TOKENS), "inference"


def decoding(batch, prepare):
    model = Gpt2().eval()
    shape = (batch, BASE["heads"], PROMPT + DECODED, BASE["dim"] // BASE["heads"])
    caches = [(torch.zeros(shape), torch.zeros(shape)) for _ in range(BASE["layers"])]
    logits = prepare(model.logits)
    with torch.no_grad():
        model.logits(torch.randint(WORDS["gpt2"], (batch, PROMPT)), caches)

    def run():
        token = torch.zeros(batch, 1, dtype=torch.long, device=caches[0][0].device)
        with torch.no_grad():
            for i in range(DECODED):
                token = logits(token, caches, PROMPT + i)[:, -1:].argmax(-1)

    per_token = products(BASE, 1, PROMPT) + BASE["dim"] * WORDS["gpt2"]
    return run, DECODED, 2e-9 * batch * per_token, "decoding"


def make(name, batch, make_adam, prepare):
    if name == "bert-base-infer":
        return inference(batch, prepare)
    if name == "gpt2-decode":
        return decoding(batch, prepare)
    if name == "gpt2-small":
        ids = torch.randint(WORDS["gpt2"], (2, batch, GPT2_TOKENS))
        run, kind = training(Gpt2(), (ids[0], ids[1]), make_adam, prepare)
        work = products(BASE, batch * GPT2_TOKENS, GPT2_TOKENS) + batch * GPT2_TOKENS * BASE["dim"] * WORDS["gpt2"]
        return run, 1, 6e-9 * work, kind
    ids = torch.randint(WORDS["bert"], (batch, BERT_TOKENS))
    work = products(BERT_SMALL, batch * BERT_TOKENS, BERT_TOKENS)
    if name == "bert-small":
        run, kind = training(Classifier(), (ids, torch.randint(2, (batch,))), make_adam, prepare)
        return run, 1, 6e-9 * work, kind
    rows = torch.cat([torch.randperm(BERT_TOKENS)[:ASKED] + text * BERT_TOKENS for text in range(batch)])
    labels = torch.randint(WORDS["bert"], (batch * ASKED,))
    run, kind = training(MaskedLm(), (ids, rows, labels), make_adam, prepare)
    return run, 1, 6e-9 * (work + batch * ASKED * 256 * WORDS["bert"]), kind
