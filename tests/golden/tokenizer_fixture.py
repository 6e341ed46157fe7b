#!/usr/bin/env python3
"""Writes tokenizers.json.xz: small tokenizers and what Hugging Face's `tokenizers` makes of texts with them.

    python3 -m pip install tokenizers==0.22.2
    python3 tests/golden/tokenizer_fixture.py

The same tokenizers as in tokenizer_compare.py, but with vocabularies of some hundred tokens, trained on texts of
tokenizer_texts.py (the trainers break ties by chance, so another run gives other vocabularies). Read by tests/unit/data_tokenizer_golden_test.cpp:

    [{"name", "tokenizer": a tokenizer.json as text,
      "cases": [[text or [text, pair], special tokens recognised (0, 1), ids, [begin, end, ...] in characters,
                 tokens, type ids]],
      "decoded": [[ids, text without special tokens, text with them]],
      "planes": CRC-32s, by plane, of ids and offsets (32 bits, little-endian) of the texts " aXb X" for all X of 256
                code points in turn, one text for each 256; the first two tokenizers alone have them}]
"""
import json
import lzma
import pathlib
import random
import struct
import tempfile
import zlib

import tokenizer_compare
import tokenizer_texts
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

HERE = pathlib.Path(__file__).resolve().parent
ENGLISH = """It was a bright cold day in April, and the clocks weren't striking; yesterday's été half-way, unaffable!
The transformers commute with permutations of tokens and of features, forward and backward. 1234567 words, 42 numbers.
"""


def write_vocabularies(folder):
    """vocab.txt, vocab.json and merges.txt in the folders where tokenizer_compare looks for the real ones."""
    texts = [ENGLISH] * 20 + tokenizer_texts.drawn(3000, 99)
    word_piece = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    word_piece.normalizer = normalizers.BertNormalizer()
    word_piece.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    word_piece.train_from_iterator(texts, trainers.WordPieceTrainer(vocab_size=1400, limit_alphabet=600, show_progress=False))
    words = [t for t, _ in sorted(word_piece.get_vocab().items(), key=lambda item: item[1])]
    # Special tokens have the ids that they have in BERT's own vocabulary.
    head = ["[PAD]"] + [f"[unused{i}]" for i in range(99)] + ["[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    bert = folder / "tokenizers/bert-base-uncased"
    bert.mkdir(parents=True)
    (bert / "vocab.txt").write_text("\n".join(head + words) + "\n", encoding="utf-8")

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=700, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    gpt2 = folder / "tokenizers/gpt2"
    gpt2.mkdir(parents=True)
    bpe.model.save(str(gpt2))
    vocab = json.loads((gpt2 / "vocab.json").read_text(encoding="utf-8"))
    vocab["<|endoftext|>"] = len(vocab)
    (gpt2 / "vocab.json").write_text(json.dumps(vocab, ensure_ascii=False), encoding="utf-8")


def case(tok, text, special):
    tok.encode_special_tokens = not special
    e = tok.encode(*(text if isinstance(text, list) else [text]))
    return [text, int(special), e.ids, [x for span in e.offsets for x in span], e.tokens, e.type_ids]


def plane(tok, number):
    tok.encode_special_tokens = True
    crc = 0
    for begin in range(number << 16, (number + 1) << 16, 256):
        text = "".join(f" a{chr(c)}b {chr(c)}" for c in range(begin, begin + 256) if not 0xD800 <= c <= 0xDFFF)
        e = tok.encode(text, add_special_tokens=False)
        numbers = e.ids + [x for span in e.offsets for x in span]
        crc = zlib.crc32(struct.pack(f"<{len(numbers)}I", *numbers), crc)
    return crc


def record(name, make, folder, seed, main):
    tok = make(folder)
    source = random.Random(seed)
    texts = tokenizer_texts.drawn(140 if main else 60, seed) + ([ENGLISH] if main else [])
    cases = [case(tok, text, special) for i, text in enumerate(texts) for special in ((False, True) if i % 3 else (i % 2,))]
    cases += [case(tok, pair, bool(i % 2)) for i, pair in enumerate(tokenizer_compare.pairs_of(texts[:20]))]
    known = [i for i in range(tok.get_vocab_size()) if tok.id_to_token(i) is not None]
    lists = [source.choices(known, k=source.randint(0, 9)) for _ in range(30)]
    decoded = [[ids, tok.decode(ids, skip_special_tokens=True), tok.decode(ids, skip_special_tokens=False)] for ids in lists]
    planes = [plane(tok, number) for number in range(17)] if main else []
    return {"name": name, "tokenizer": tok.to_str(), "cases": cases, "decoded": decoded, "planes": planes}


def main():
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        write_vocabularies(folder)
        chosen = [(name, make) for name, (make, older) in tokenizer_compare.TOKENIZERS.items() if older is None]
        records = [record(name, make, folder, i + 1, i < 2) for i, (name, make) in enumerate(chosen)]
    text = json.dumps(records, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    packed = lzma.compress(text, preset=9 | lzma.PRESET_EXTREME)
    (HERE / "tokenizers.json.xz").write_bytes(packed)
    print(f"{len(records)} tokenizers, {sum(len(r['cases']) for r in records)} texts, {len(text)} bytes, {len(packed)} packed")


if __name__ == "__main__":
    main()
