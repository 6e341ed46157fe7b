"""Tokenizers, and texts that language models continue."""

import json
import pickle

import equigrad as eg
import numpy as np
import pytest

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "cat", "sat", "##s", "dog"]


@pytest.fixture
def tokenizer(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS))
    return eg.data.Tokenizer.open(tmp_path)


def test_tokenizer(tokenizer):
    assert tokenizer.kind == "WordPiece" and len(tokenizer) == 9 and tokenizer.role("pad") == 0
    found = tokenizer.encode("The cats", "sat xyz")
    assert found.tokens == ["[CLS]", "the", "cat", "##s", "[SEP]", "sat", "[UNK]", "[SEP]"]
    assert found.ids == [2, 4, 5, 7, 3, 6, 1, 3] and found.type_ids == [0] * 5 + [1] * 3
    assert found.offsets[2:4] == [(4, 7), (7, 8)] and found.sequence_ids == [-1, 0, 0, 0, -1, 1, 1, -1]
    assert tokenizer.encode("\u00e9 cat").offsets[2] == (2, 5) and tokenizer.encode("\u00e9 cat").byte_offsets[2] == (3, 6)
    assert tokenizer.decode(found.ids) == "the cats sat"
    assert tokenizer.find("dog") == 8 and tokenizer.find("cow") is None and tokenizer.token(4) == "the"
    batch = tokenizer.encode_batch(["the", ("cat", "dog")], pad_to=0)
    assert [e.attention_mask for e in batch] == [[1, 1, 1, 0, 0], [1] * 5]
    assert len(tokenizer.encode("the cat sat the dog", max_length=4)) == 4
    with pytest.raises(IndexError):
        tokenizer.decode([99])
    with pytest.raises(eg.FileError):
        eg.data.Tokenizer.open("/nowhere")


def test_padding_and_truncation(tokenizer):
    pair = ("the cat sat", "the dog")
    for options, tokens in [
        ({"max_length": 6}, "[CLS] the cat [SEP] the [SEP]"),
        ({"max_length": 7, "truncation": "only_first"}, "[CLS] the cat [SEP] the dog [SEP]"),
        ({"max_length": 7, "truncation": "only_second"}, "[CLS] the cat sat [SEP] the [SEP]"),
        ({"max_length": 7, "truncation": "only_first", "truncation_side": "left"}, "[CLS] cat sat [SEP] the dog [SEP]"),
        ({"pad_to": 9, "pad_side": "left"}, "[PAD] [CLS] the cat sat [SEP] the dog [SEP]"),
        ({"pad_to": 9, "pad_id": 8}, "[CLS] the cat sat [SEP] the dog [SEP] dog"),
        ({"add_special_tokens": False}, "the cat sat the dog"),
    ]:
        assert tokenizer.encode(*pair, **options).tokens == tokens.split(), options
        assert tokenizer.encode_batch([pair], **options)[0].tokens == tokens.split(), options
    assert tokenizer.encode("the cat sat", max_length=3).truncated == 2
    for options, words in [
        ({"pad_to": 9, "pad_side": "up"}, "neither 'left' nor 'right'"),
        ({"max_length": 3, "truncation": "first"}, "longest_first"),
        ({"truncation": "only_first"}, "needs max_length"),
        ({"pad_id": 0}, "need pad_to"),
        ({"pad_to": 9, "pad_id": 99}, "99"),
    ]:
        with pytest.raises(eg.ValueError, match=words):
            tokenizer.encode("the", **options)


def tokenizer_json(**fields):
    """A WordPiece tokenizer.json."""
    special = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": i, "content": WORDS[i], **special} for i in range(4)],
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
                       "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": {word: i for i, word in enumerate(WORDS)}},
        **fields,
    }


def test_tokenizer_json(tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(tokenizer_json()))
    for tokenizer in (eg.data.Tokenizer.open(path), eg.data.Tokenizer.open(str(tmp_path))):
        assert tokenizer.encode("The [SEP]").ids == [2, 4, 1, 1, 1, 3]  # text cannot spell a special token
        assert tokenizer.encode("The [SEP]", recognise_special=True).ids == [2, 4, 3, 3]
        assert tokenizer.encode("The [SEP]", recognise_special=True, add_special_tokens=False).ids == [4, 3]
        assert tokenizer.is_special(3) and not tokenizer.is_special(4)


def test_what_a_tokenizer_json_asks_for_holds_unless_told_otherwise(tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(tokenizer_json(
        truncation={"direction": "Left", "max_length": 4, "strategy": "LongestFirst", "stride": 0},
        padding={"strategy": {"Fixed": 4}, "direction": "Left", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0,
                 "pad_token": "[PAD]"})))
    tokenizer = eg.data.Tokenizer.open(path)
    assert tokenizer.encode("the cat sat").tokens == ["[CLS]", "cat", "sat", "[SEP]"]
    assert tokenizer.encode("the").tokens == ["[PAD]", "[CLS]", "the", "[SEP]"]
    assert tokenizer.encode("the cat sat", max_length=5).tokens == ["[CLS]", "the", "cat", "sat", "[SEP]"]
    assert tokenizer.encode("the", pad_side="right").tokens == ["[CLS]", "the", "[SEP]", "[PAD]"]


def test_batches_of_any_sequence(tokenizer):
    expected = [e.ids for e in tokenizer.encode_batch(["the", ("cat", "dog")])]
    for texts in (("the", ["cat", "dog"]), np.array(["the", "cat"], object)):
        assert tokenizer.encode_batch(texts)[0].ids == expected[0]
    assert tokenizer.encode_batch([]) == []
    for texts, words in [
        ([1], r"texts\[0\] must be a text or a pair of texts, not int"),
        (["the", ("a", "b", "c")], r"texts\[1\] must be a text or a pair"),
        (["the", ("a", 3)], r"texts\[1\] must be str, not int"),
        ("the", "texts must be a sequence of texts, not str"),
        (7, "texts must be a sequence of texts, not int"),
    ]:
        with pytest.raises(TypeError, match=words):
            tokenizer.encode_batch(texts)
    with pytest.raises(eg.ValueError, match=r"texts\[0\] is no Unicode text"):
        tokenizer.encode_batch(["a\ud800"])


def test_wrong_arguments_of_tokenizers(tokenizer):
    for wrong in (
        lambda: tokenizer.encode(3),
        lambda: tokenizer.encode("a", max_length=-1),
        lambda: tokenizer.encode("a", max_len=3),
        lambda: tokenizer.decode("abc"),
        lambda: tokenizer.find(3),
        lambda: eg.data.Tokenizer.open(3),
        lambda: pickle.dumps(tokenizer),
    ):
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(ValueError, match="null byte"):
        eg.data.Tokenizer.open("a\0b")


# --- generation ---


@pytest.fixture
def language_model(tmp_path, tokenizer):
    config = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 9, "n_embd": 12, "n_layer": 2,
              "n_head": 3, "n_positions": 32, "eos_token_id": 3}
    model = eg.hub.make_model(config, key=3)
    model.module.eval()
    return model


def test_generated_text(language_model, tokenizer):
    heard = []
    free = eg.hub.generate_text(language_model, tokenizer, "the cat", max_new_tokens=8, end_ids=[], on_text=heard.append)
    assert free.prompt_ids == tokenizer.encode("the cat").ids and len(free.ids) == 8 and free.ended == "length"
    assert free.text == "".join(heard) and free.seconds >= 0
    assert free.ids == language_model.module.generate(free.prompt_ids, 8)
    end = free.ids[2]
    ended = eg.hub.generate_text(language_model, tokenizer, free.prompt_ids, max_new_tokens=8, end_ids=[end])
    assert ended.ids == free.ids[: free.ids.index(end) + 1] and ended.ended == "end token"
    plain = eg.hub.generate_text(language_model, None, [4, 5], max_new_tokens=3, end_ids=[])
    assert plain.text == "" and len(plain.ids) == 3
    drawn = [eg.hub.generate_text(language_model, None, [4], max_new_tokens=9, temperature=2.0, end_ids=[], key=k).ids for k in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_stop_strings_and_callbacks(language_model, tokenizer):
    free = eg.hub.generate_text(language_model, tokenizer, "the cat", max_new_tokens=12, end_ids=[], temperature=3.0, key=1)
    word = free.text.split()[1]
    stopped = eg.hub.generate_text(
        language_model, tokenizer, "the cat", max_new_tokens=12, end_ids=[], temperature=3.0, key=1, stops=[word]
    )
    assert stopped.ended == "stop string" and stopped.text == free.text[: free.text.index(word)]
    with pytest.raises(ZeroDivisionError):
        eg.hub.generate_text(language_model, tokenizer, "the", max_new_tokens=9, temperature=3.0, end_ids=[], on_text=lambda text: 1 / 0)
    with pytest.raises(TypeError, match="needs a tokenizer"):
        eg.hub.generate_text(language_model, None, "the")
    with pytest.raises(eg.ValueError, match="stop string"):
        eg.hub.generate_text(language_model, tokenizer, "the", stops=[""])


def test_a_text_ends_with_the_configs_end_token(language_model, tokenizer, tmp_path):
    """The end token that greedy choice reaches is written into the config: generation ends there without being told."""
    free = eg.hub.generate_text(language_model, None, [4, 5], max_new_tokens=6, end_ids=[])
    for eos in (free.ids[1], [free.ids[1]]):
        model = eg.hub.make_model({**language_model.config, "eos_token_id": eos}, key=3)
        model.module.eval()
        ended = eg.hub.generate_text(model, None, [4, 5], max_new_tokens=6)
        assert ended.ids == free.ids[: free.ids.index(free.ids[1]) + 1] and ended.ended == "end token"
    model.save(tmp_path / "model")
    assert eg.hub.end_ids(tmp_path / "model") == [free.ids[1]]
    (tmp_path / "model" / "generation_config.json").write_text('{"eos_token_id": [1, 2]}')
    assert eg.hub.end_ids(tmp_path / "model") == [1, 2]
