"""Language models, model folders, and models beyond texts and images."""

import json

import equigrad as eg
import numpy as np
import pytest


def tiny_bert(**options):
    block = eg.nn.BlockConfig(dim=12, heads=3, mlp=20, pre_norm=False, norm_eps=1e-12)
    return eg.nn.Bert(eg.nn.BertConfig(vocabulary=30, positions=16, layers=2, encoder=block, **options), key=1)


def test_bert_ignores_padding():
    model = tiny_bert(head="sequence_classification", labels=3)
    model.eval()
    ids = eg.tensor([[2, 7, 9, 3, 0, 0], [2, 8, 5, 6, 4, 3]])
    mask = eg.tensor([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]])
    hidden = model(ids, attention_mask=mask)
    assert hidden.shape == (2, 6, 12) and model.classify(hidden).shape == (2, 3) and model.pool(hidden).shape == (2, 12)
    short = model(ids[:1, :4])
    assert eg.relative_error(hidden[:1, :4], short) < 1e-5
    embedded = model(embeddings=model.word_embedding(ids), attention_mask=mask)
    assert eg.relative_error(embedded, hidden) < 1e-6


def test_decoding_with_a_cache_is_the_full_pass():
    config = eg.nn.llama_config(dim=16, heads=4, kv_heads=2, mlp=24, layers=2)
    config.vocabulary, config.positions = 40, 32
    model = eg.nn.Decoder(config, key=1)
    model.eval()
    ids = eg.random.integers((1, 9), key=2, low=0, high=40)
    full = model.language_model(model(ids))
    cache = eg.nn.DecoderCache(config, batch=1, capacity=9)
    steps = [model.language_model(model(ids[:, i : i + 1], cache=cache)) for i in range(9)]
    assert cache.length == 9
    assert eg.relative_error(eg.ops.concat(steps, axis=1), full) < 1e-5
    seen = []
    new = model.generate(ids[0].tolist(), max_new_tokens=6, on_token=seen.append)
    assert new == seen and len(new) == 6 and new[0] == int(eg.ops.argmax(full[0, -1]))
    assert model.generate([1, 2], 5, temperature=0.9, top_k=3, key=4) == model.generate([1, 2], 5, temperature=0.9, top_k=3, key=4)
    for stop, count in ((False, 1), (np.bool_(False), 1), (0, 1), (None, 10), (True, 10), (np.bool_(True), 10)):
        assert len(model.generate([1], 10, on_token=lambda token: stop)) == count
    with pytest.raises(ZeroDivisionError):
        model.generate([1], 10, on_token=lambda token: 1 / 0)
    with pytest.raises(eg.ValueError):
        model.generate([99], 3)


def test_gradients_of_a_language_model_reach_every_parameter():
    config = eg.nn.gpt2_config(dim=12, heads=3, layers=2)
    config.vocabulary, config.positions = 20, 8
    model = eg.nn.Decoder(config, key=1)
    model.eval()
    ids = eg.random.integers((2, 6), key=2, low=0, high=20)
    parameters = model.parameters()
    with eg.Tape() as tape:
        logits = model.language_model(model(ids[:, :-1]))
        loss = eg.ops.cross_entropy(logits, ids[:, 1:])
    for (name, _), g in zip(model.named_parameters(), tape.gradient(loss, parameters)):
        assert np.abs(g.numpy()).max() > 0 or name.endswith("qkv.bias"), name


CONFIGS = {
    "bert": {"model_type": "bert", "architectures": ["BertForSequenceClassification"], "vocab_size": 30, "hidden_size": 12,
             "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 20, "max_position_embeddings": 16},
    "gpt2": {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 30, "n_embd": 12, "n_layer": 2,
             "n_head": 3, "n_positions": 16},
    "llama": {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 30, "hidden_size": 12,
              "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 20},
    "vit": {"model_type": "vit", "architectures": ["ViTForImageClassification"], "hidden_size": 12, "num_hidden_layers": 2,
            "num_attention_heads": 3, "intermediate_size": 20, "image_size": 8, "patch_size": 4},
}


@pytest.mark.parametrize("family", CONFIGS)
def test_folders(family, tmp_path):
    assert CONFIGS[family]["architectures"][0] in eg.hub.supported()[family]
    made = eg.hub.make_model(CONFIGS[family], key=3)
    made.module.eval()
    made.save(str(tmp_path))
    assert json.loads((tmp_path / "config.json").read_text())["model_type"] == family
    model, report = eg.hub.load_with_report(str(tmp_path), dtype="f64")
    assert report.complete() and model.family == family and model.config["model_type"] == family
    if family == "vit":
        inputs = {"pixel_values": eg.random.normal((2, 3, 8, 8), key=1, dtype="f64")}
    else:
        inputs = {"input_ids": eg.random.integers((2, 6), key=1, low=1, high=30)}
    assert list(inputs)[0] == model.input_names[0]
    logits = model(**inputs)["logits"]
    made.module.to("f64")
    assert eg.relative_error(made(**inputs)["logits"], logits) < 1e-6
    parameters = model.module.parameters()
    with eg.Tape() as tape:
        loss = (model(**inputs)["logits"] * 0.5).sum()
    named = model.by_file_names(tape.gradient(loss, parameters))
    assert set(named) == set(model.state())
    assert type(eg.hub.load(tmp_path).module).__name__ == {"bert": "Bert", "vit": "Vit"}.get(family, "Decoder")


def test_bad_folders(tmp_path):
    with pytest.raises(eg.FileError):
        eg.hub.load(tmp_path)
    eg.hub.make_model(CONFIGS["bert"], key=1).save(str(tmp_path))
    tensors = eg.data.load_safetensors(str(tmp_path / "model.safetensors"))
    missing = sorted(tensors)[0]
    del tensors[missing]
    eg.data.save_safetensors(str(tmp_path / "model.safetensors"), tensors)
    with pytest.raises(eg.FileError, match=missing):
        eg.hub.load(tmp_path)
    with pytest.raises(ValueError, match="input_id"):
        eg.hub.make_model(CONFIGS["bert"], key=1)(input_id=eg.tensor([[1]]))
    with pytest.raises(ValueError, match="JSON"):
        eg.hub.make_model({**CONFIGS["bert"], "layer_norm_eps": float("nan")}, key=1)
    with pytest.raises(TypeError, match="key must be a Key or an int, not str"):
        eg.hub.make_model(CONFIGS["bert"], key=1)(input_ids=[[1]], key="one")
    with pytest.raises(TypeError, match="load\\(\\) got an unexpected keyword argument 'dtyp'"):
        eg.hub.load(tmp_path, dtyp="f64")


def test_inputs_may_be_lists():
    model = eg.hub.make_model(CONFIGS["bert"], key=1)
    model.module.eval()
    ids = [[5, 7, 9], [1, 2, 3]]
    assert eg.same_bits(model(input_ids=ids)["logits"], model(input_ids=eg.tensor(ids))["logits"])


def test_fresh_heads_are_reported(tmp_path):
    eg.hub.make_model({**CONFIGS["bert"], "architectures": ["BertModel"]}, key=1).save(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "architectures": ["BertForSequenceClassification"]}))
    summary = eg.hub.examine(tmp_path)
    assert summary.family == "bert" and summary.inputs[0] == "input_ids" and summary.parameters > 1000
    assert not summary.report.complete() and any("classifier" in name for name in summary.report.missing)
    with pytest.raises(eg.FileError, match="classifier"):
        eg.hub.load(tmp_path)
    model, report = eg.hub.load_with_report(tmp_path, fresh_head=True, key=5)
    assert report.complete() and sorted(report.fresh) == ["classifier.bias", "classifier.weight"]
    assert "random" in repr(report) and "classifier.weight" in model.state()


def test_transformers_agrees(tmp_path):
    """A folder that transformers wrote: the same logits; and back."""
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    config = transformers.GPT2Config(vocab_size=50, n_embd=12, n_layer=2, n_head=3, n_positions=16)
    torch.manual_seed(1)
    theirs = transformers.GPT2LMHeadModel(config).eval().double()
    theirs.save_pretrained(tmp_path / "theirs")
    mine = eg.hub.load(tmp_path / "theirs", dtype="f64")
    ids = torch.arange(10).reshape(2, 5)
    expected = theirs(ids).logits.detach().numpy()
    np.testing.assert_allclose(mine(input_ids=ids)["logits"].numpy(), expected, rtol=1e-9, atol=1e-10)
    mine.save(str(tmp_path / "mine"))
    back = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "mine", torch_dtype=torch.float64).eval()
    np.testing.assert_allclose(back(ids).logits.detach().numpy(), expected, rtol=1e-9, atol=1e-10)


def test_other_models():
    sets = eg.nn.SetTransformer(
        eg.nn.SetTransformerConfig(inputs=3, outputs=2, layers=1, block=eg.nn.SetBlockConfig(dim=8, heads=2, hidden=8)), key=1
    )
    x = eg.random.normal((2, 5, 3), key=2)
    p = eg.permute.Permutation.random_nonidentity(5, key=3)
    assert eg.relative_error(sets(p.rows(x)), sets(x)) < 1e-5
    moe = eg.nn.MixtureOfExperts(eg.nn.MoeConfig(dim=8, hidden=12, experts=4, top_k=2), key=1)
    out = moe.forward(eg.random.normal((6, 8), key=1))
    assert out.y.shape == (6, 8) and sum(out.load) == 12 and out.dropped == 0
    assert out.routing.experts.shape == (6, 2) and eg.same_bits(moe(eg.random.normal((6, 8), key=1)), out.y)
    assert eg.nn.load_balancing_loss(out.routing).item() >= 1 and eg.nn.router_z_loss(out.routing).item() > 0
    only = eg.nn.router_z_loss(out.routing, valid=eg.tensor([True] + [False] * 5)).item()
    first = eg.ops.logsumexp(out.routing.logits[0], axes=-1).item()
    assert abs(only - first * first) < 1e-5
    none = moe.forward(eg.zeros((0, 8)))  # no token has a loss, and nobody asked for one
    assert none.y.shape == (0, 8)
    with pytest.raises(eg.ValueError):
        eg.nn.router_z_loss(none.routing)
    difm = eg.nn.Difm(eg.nn.DifmConfig(vocabularies=[4, 5], numeric=2, dim=4, heads=2, head_dim=3, hidden=[6]), key=1)
    assert difm(eg.tensor([[1, 2], [3, 4]]), eg.ones((2, 2))).shape == (2,)
