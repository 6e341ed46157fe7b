"""Forward hooks, attention maps, tied weights, saving custom models as folders."""

import copy
import gc
import pickle
import subprocess
import sys
import threading
import weakref

import equigrad as eg
import numpy as np
import pytest
from equigrad import nn

BLOCK = {"dim": 12, "heads": 3, "mlp": 20}


def vit(**options):
    return nn.ViT(
        nn.VitConfig(image=8, patch=4, classes=4, layers=2, encoder=nn.BlockConfig(**BLOCK), **options), key=1
    )


def moe():
    return nn.MixtureOfExperts(nn.MoeConfig(dim=6, hidden=8, experts=3, top_k=2), key=1)


IMAGES = eg.random.normal((2, 3, 8, 8), key=2)
IDS = eg.random.integers((2, 5), 3, 0, 20)
# A module, and a call of it: every class of nn that can be called, with all its parts.
MODULES = {
    "vit": (vit, lambda m: m(IMAGES)),
    "deit": (lambda: vit(distillation=True), lambda m: m(IMAGES)),
    "mean": (lambda: vit(pooling="mean"), lambda m: m(IMAGES)),
    "bert": (
        lambda: nn.Bert(nn.BertConfig(vocabulary=20, layers=2, encoder=nn.BlockConfig(**BLOCK, pre_norm=False), head="language_model"), key=1).eval(),
        lambda m: m.masked_lm(m(IDS)),
    ),
    "bert classes": (
        lambda: nn.Bert(nn.BertConfig(vocabulary=20, layers=1, encoder=nn.BlockConfig(**BLOCK), head="sequence_classification"), key=1).eval(),
        lambda m: m.classify(m(IDS)),
    ),
    "gpt2": (lambda: nn.Decoder(nn.gpt2_config(dim=12, heads=3, layers=2), key=1).eval(), lambda m: m.language_model(m(IDS))),
    "llama": (lambda: nn.Decoder(nn.llama_config(12, 3, 1, 16, 2), key=1).eval(), lambda m: m.language_model(m(IDS))),
    "difm": (
        lambda: nn.Difm(nn.DifmConfig(vocabularies=[4, 5], numeric=2, dim=4, heads=2, head_dim=3, hidden=[6, 5]), key=1),
        lambda m: m(eg.random.integers((3, 2), 1, 0, 4), eg.random.normal((3, 2), key=2)),
    ),
    "sets": (
        lambda: nn.SetTransformer(nn.SetTransformerConfig(inputs=3, outputs=2, layers=1, seeds=2, decoder_layers=1, block=nn.SetBlockConfig(dim=8, heads=2, hidden=8)), key=1),
        lambda m: m(eg.random.normal((2, 5, 3), key=2)),
    ),
    "induced sets": (
        lambda: nn.SetTransformer(nn.SetTransformerConfig(inputs=3, outputs=2, layers=1, inducing=4, seeds=2, decoder_layers=0, block=nn.SetBlockConfig(dim=8, heads=2, hidden=8)), key=1),
        lambda m: m(eg.random.normal((2, 5, 3), key=2)),
    ),
    "experts": (moe, lambda m: m(eg.random.normal((7, 6), key=2))),
    "sequential": (lambda: nn.Sequential(nn.Linear(3, 4, key=1), nn.GELU(), nn.Dropout(0.1).eval()), lambda m: m(eg.random.normal((2, 3), key=2))),
    "conv": (
        lambda: nn.Sequential(nn.Conv2d(3, 4, 3, key=1), nn.BatchNorm(4), nn.GroupNorm(2, 4)).eval(),
        lambda m: m(IMAGES),
    ),
    "norms": (
        lambda: nn.Sequential(nn.LayerNorm(4), nn.RmsNorm(4), nn.Norm("rms", 4, 1e-6), nn.Mlp(4, 6, "silu", key=1), nn.Mlp(4, 6, "gelu", key=2)),
        lambda m: m(eg.random.normal((2, 4), key=2)),
    ),
    "embedding": (lambda: nn.Sequential(nn.Embedding(5, 3, key=1), nn.DropPath(0.1).eval()), lambda m: m(eg.tensor([[1, 2]]))),
}  # fmt: skip
# Parts whose results a model takes by other calls than their own.
UNCALLED = {"bert": {"pooler"}, "bert classes": set()}


@pytest.mark.parametrize("name", MODULES)
def test_every_part_of_every_model_has_hooks(name):
    make, call = MODULES[name]
    module = make()
    plain = call(module)
    heard, handles = {}, []
    for part, one in module.named_modules():
        handles.append(
            one.register_forward_hook(lambda m, args, out, part=part: heard.setdefault(part, (m, args, out)) and None)
        )
    hooked = call(module)
    expected = {part for part, _ in module.named_modules()} - UNCALLED.get(name, set())
    assert expected <= heard.keys(), sorted(expected - heard.keys())
    for part, (m, args, out) in heard.items():
        assert isinstance(out, eg.Tensor) and isinstance(args, tuple) and any(isinstance(a, eg.Tensor) for a in args)
        assert m is dict(module.named_modules())[part] or type(m) is type(dict(module.named_modules())[part])
    assert eg.relative_error(hooked, plain) < 1e-6
    for handle in handles:
        handle.remove()
    heard.clear()
    assert eg.same_bits(call(module), plain) and not heard


@pytest.mark.parametrize("name", MODULES)
def test_what_a_hook_gives_takes_the_outputs_place(name):
    """For each part alone: what all others compute after it follows from the changed value."""
    make, call = MODULES[name]
    module = make()
    plain, changed = call(module), 0
    for part, one in module.named_modules():
        with one.register_forward_hook(lambda m, args, out: out * 1.5 + 0.25):
            if not eg.same_bits(call(module), plain):
                changed += 1
            elif part not in UNCALLED.get(name, set()):
                assert (
                    "norm" in part or "position" in part or type(one).__name__ in ("Embedding",)
                ), part  # nothing but these may hide a change
        assert eg.same_bits(call(module), plain)
    assert changed >= 1


def test_hooks_are_called_in_order_and_each_sees_the_one_before():
    linear = nn.Linear(2, 2, key=1)
    x = eg.ones((1, 2))
    y = linear(x)
    linear.register_forward_hook(lambda m, args, out: out + 1.0)
    handle = linear.register_forward_hook(lambda m, args, out: out * 2.0)
    linear.register_forward_hook(lambda m, args, out: None)
    assert linear(x).tolist() == ((y + 1.0) * 2.0).tolist()
    handle.remove()
    handle.remove()  # nothing happens
    assert linear(x).tolist() == (y + 1.0).tolist()

    once = []

    def remove_itself(m, args, out):
        once.append(1)
        own.remove()

    own = linear.register_forward_hook(remove_itself)
    linear(x), linear(x)
    assert once == [1]


def test_hooks_are_recorded_and_gradients_pass():
    model = vit()
    x = eg.random.normal((2, 3, 8, 8), key=3)
    with model.blocks[0].register_forward_hook(lambda m, args, out: out * 0.0), eg.Tape() as tape:
        loss = model(x).sum()
    assert eg.ops.amax(tape.gradient(loss, x).abs()).item() == 0.0
    states = []
    with model.blocks[0].register_forward_hook(lambda m, args, out: states.append(out)), eg.Tape() as tape:
        loss = model(x).square().sum()
    seen = []
    tape.on_gradient(states[0], lambda gradient: seen.append(gradient.shape))
    tape.gradient(loss, model.parameters())
    assert seen == [(2, 5, 12)]


def test_a_block_with_hooks_is_not_checkpointed():
    config = nn.BlockConfig(**BLOCK, checkpoint=True)
    plain, checkpointed = nn.Block(nn.BlockConfig(**BLOCK), key=1), nn.Block(config, key=1)
    x, count = eg.random.normal((2, 4, 12), key=2), []
    gradients = []
    for block in (plain, checkpointed):
        block.mlp.fc2.register_forward_hook(lambda m, args, out: count.append(1) or out * 0.5)
        with eg.Tape() as tape:
            loss = block(x).square().sum()
        gradients.append(tape.gradient(loss, block.parameters()))
    assert len(count) == 2
    assert all(eg.same_bits(a, b) for a, b in zip(*gradients))
    count.clear()
    untouched = nn.Block(config, key=1)
    with eg.Tape() as tape:
        loss = untouched(x).square().sum()
    assert not count and not eg.same_bits(tape.gradient(loss, untouched.parameters())[-1], gradients[1][-1])


def test_hooks_of_modules_made_in_python():
    class Pair(nn.Module):
        def forward(self, x, times=1):
            return x * times, "words"

    pair = Pair()
    seen = []
    pair.register_forward_hook(lambda m, args, out: seen.append((m is pair, args, out[1])))
    pair.register_forward_hook(lambda m, args, out: out[1])
    assert pair(eg.ones(2), times=3) == "words" and seen[0][0] and len(seen[0][1]) == 1 and seen[0][2] == "words"


def test_wrong_hooks_say_what_is_wrong():
    linear = nn.Linear(2, 2, key=1)
    with pytest.raises(TypeError, match="register_forward_hook: hook must be a function, not int"):
        linear.register_forward_hook(3)
    with linear.register_forward_hook(lambda m, args, out: 3.0):
        with pytest.raises(
            TypeError, match="the output of Linear is a Tensor; what the hook gives must be a Tensor or None, not float"
        ):
            linear(eg.ones((1, 2)))
    with linear.register_forward_hook(lambda m, args, out: 1 / 0):
        with pytest.raises(ZeroDivisionError):
            linear(eg.ones((1, 2)))
    assert linear(eg.ones((1, 2))).shape == (1, 2)


def test_the_module_that_a_hook_is_given_can_be_kept():
    kept = []
    model = vit()
    for block in model.blocks:
        block.attention.qkv.register_forward_hook(lambda m, args, out: kept.append(m))
    expected = [block.attention.qkv.weight.tolist() for block in model.blocks]
    model(IMAGES)
    del model, block
    gc.collect()
    assert [m.weight.tolist() for m in kept] == expected


def test_hooks_are_collected_with_their_modules():
    class Watched:
        def __call__(self, m, args, out):
            return None

    def make(what):
        model, watched = what(), Watched()
        watched.model = model  # a cycle
        list(model.modules())[-1].register_forward_hook(watched)
        model.register_forward_hook(watched)
        return weakref.ref(watched)

    for what in (vit, moe, lambda: nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2)))):
        gone = make(what)
        gc.collect()
        assert gone() is None
    gc.collect()
    live = eg.memory()["live"]
    for _ in range(3):
        make(vit)
    gc.collect()
    assert eg.memory()["live"] == live
    counts = sys.getrefcount(print)
    linear = nn.Linear(2, 2)
    linear.register_forward_hook(print).remove()
    assert sys.getrefcount(print) == counts


def test_hooks_of_a_hub_model_live_until_they_are_removed(tmp_path):
    config = {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "vocab_size": 20,
        "n_embd": 12,
        "n_layer": 2,
        "n_head": 3,
        "n_positions": 16,
    }
    model = eg.hub.make_model(config, key=1)
    model.module.eval()
    seen = []
    handle = model.module.blocks[1].register_forward_hook(lambda m, args, out: seen.append(type(m).__name__))
    gc.collect()
    model(input_ids=[[1, 2, 3]])
    assert seen == ["Block"]
    handle.remove()
    model(input_ids=[[1, 2, 3]])
    assert seen == ["Block"]


def test_copies_and_pickles_have_no_hooks():
    linear, called = nn.Linear(2, 2), []
    linear.register_forward_hook(lambda m, args, out: called.append(1))
    for other in (copy.copy(linear), copy.deepcopy(linear), pickle.loads(pickle.dumps(linear))):
        other(eg.ones((1, 2)))
    assert not called


def test_hooks_hold_the_lock_in_any_thread():
    model, seen = vit(), []
    model.blocks[0].register_forward_hook(lambda m, args, out: seen.append(threading.get_ident()))
    threads = [threading.Thread(target=model, args=(IMAGES,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 4 and len(set(seen)) >= 1


CAUSAL = {"gpt2", "llama"}
TRACED = {"vit": 2, "deit": 2, "mean": 2, "bert": 2, "gpt2": 2, "llama": 2, "difm": 1, "sets": 3, "induced sets": 3}


@pytest.mark.parametrize("name", TRACED)
def test_attention_maps_are_softmax_of_their_logits(name):
    make, call = MODULES[name]
    model = make()
    maps = eg.attention_maps(lambda: call(model))
    assert eg.same_bits(maps.output, call(model)) and len(maps) == TRACED[name]
    for attention, logits in zip(maps, maps.logits):
        if name in CAUSAL:
            tokens = logits.shape[-1]
            logits = eg.where(eg.tensor(np.tril(np.ones((tokens, tokens), bool))), logits, -1e30)
        assert eg.relative_error(eg.ops.softmax(logits), attention) < 1e-5
        assert np.allclose(attention.numpy().sum(-1), 1, atol=1e-5)


def test_traces_of_models_are_the_maps_of_their_call():
    for name in ("vit", "bert", "gpt2", "difm", "sets"):
        make, call = MODULES[name]
        model = make()
        arguments = {
            "vit": (IMAGES,),
            "bert": (IDS,),
            "gpt2": (IDS,),
            "sets": (eg.random.normal((2, 5, 3), key=2),),
        }.get(name, (eg.random.integers((3, 2), 1, 0, 4), eg.random.normal((3, 2), key=2)))
        layers, maps = model.trace(*arguments), eg.attention_maps(model, *arguments)
        assert len(layers) == len(maps)
        for layer, attention, logits in zip(layers, maps, maps.logits):
            assert set(layer) == {"q", "k", "v", "logits", "attention", "scores", "a", "output"}
            assert (
                eg.relative_error(layer["attention"], attention) < 1e-6
                and eg.relative_error(layer["logits"], logits) < 1e-5
            )


FORKS = """
import os, threading, equigrad as eg
vit = eg.nn.ViT(eg.nn.VitConfig(image=8, patch=4, classes=2, layers=1, encoder=eg.nn.BlockConfig(dim=8, heads=2, mlp=8))).eval()
images, over = eg.ones((1, 3, 8, 8)), threading.Event()

def look():
    while not over.is_set():
        eg.attention_maps(vit, images)

threads = [threading.Thread(target=look) for _ in range(3)]
for thread in threads:
    thread.start()
for _ in range(30):
    child = os.fork()
    if child == 0:
        os._exit(0 if len(eg.attention_maps(vit, images)) == 1 else 1)
    assert os.waitpid(child, 0)[1] == 0
over.set()
for thread in threads:
    thread.join()
print("done")
"""


def test_children_of_a_fork_look_at_attention_too():
    done = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, timeout=200)
    assert done.stdout == "done\n", done.stderr


def test_masked_tokens_are_not_looked_at():
    bert = MODULES["bert"][0]()
    mask = eg.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    for layer in bert.trace(IDS, mask):
        assert layer["attention"].numpy()[0, :, :, 3:].max() == 0.0
    with pytest.raises(eg.ValueError, match="key-value cache"):
        decoder = MODULES["gpt2"][0]()
        cache = nn.DecoderCache(decoder.config, 2, 8)
        eg.attention_maps(decoder, IDS, cache=cache)


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama", "vit"])
def test_hub_models_give_attentions_as_transformers_do(family):
    configs = {
        "bert": {"model_type": "bert", "architectures": ["BertModel"], "vocab_size": 20, "hidden_size": 12, "num_hidden_layers": 2,
                 "num_attention_heads": 3, "intermediate_size": 16, "max_position_embeddings": 16},
        "gpt2": {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 20, "n_embd": 12, "n_layer": 2, "n_head": 3, "n_positions": 16},
        "llama": {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 20, "hidden_size": 12, "num_hidden_layers": 2,
                  "num_attention_heads": 3, "num_key_value_heads": 1, "intermediate_size": 16, "max_position_embeddings": 16},
        "vit": {"model_type": "vit", "architectures": ["ViTForImageClassification"], "hidden_size": 12, "num_hidden_layers": 2, "image_size": 8,
                "patch_size": 4, "num_attention_heads": 3, "intermediate_size": 16, "id2label": {"0": "a", "1": "b"}, "label2id": {"a": 0, "b": 1}},
    }  # fmt: skip
    model = eg.hub.make_model(configs[family], key=1)
    model.module.eval()
    inputs = {"pixel_values": IMAGES} if family == "vit" else {"input_ids": IDS}
    plain, with_maps = model(**inputs), model(**inputs, output_attentions=True)
    assert "attentions" not in plain and len(with_maps["attentions"]) == 2
    tokens = 5
    assert all(layer.shape == (2, 3, tokens, tokens) for layer in with_maps["attentions"])
    name = "logits" if "logits" in plain else "last_hidden_state"
    assert eg.same_bits(plain[name], with_maps[name])
    with pytest.raises(TypeError, match="output_attentions must be a bool"):
        model(**inputs, output_attentions=1)


def test_maps_are_pictures(tmp_path):
    import xml.dom.minidom

    maps = eg.attention_maps(vit(), IMAGES)
    maps.picture(sample=1, logits=True, tokens=["<cls>", "a", "b", "c", "d"]).save(tmp_path / "maps.svg")
    parsed = xml.dom.minidom.parseString((tmp_path / "maps.svg").read_text())
    assert len(parsed.getElementsByTagName("image")) == 2 * 3 and "&lt;cls&gt;" in (tmp_path / "maps.svg").read_text()
    assert maps._repr_svg_() != maps.picture(logits=True).svg and "2 layers" in repr(maps)
    assert [m.shape for m in maps[0:2]] == [m.shape for m in maps]
    with pytest.raises(eg.ValueError, match="no attention"):
        eg.attention_maps(nn.Linear(2, 2), eg.ones((1, 2))).picture()


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(6, 4, key=1)
        self.out = nn.Linear(4, 6, key=2, bias=False)
        self.out.weight = self.embedding.weight

    def forward(self, ids):
        return self.out(self.embedding(ids))


def test_weights_are_tied_by_assignment():
    model = Tied()
    assert [name for name, _ in model.named_parameters()] == ["embedding.weight"] and model.parameter_count() == 24
    assert list(model.state_dict()) == ["embedding.weight", "out.weight"]
    ids, labels = eg.tensor([1, 2, 3]), eg.tensor([2, 3, 4])
    with eg.Tape() as tape:
        loss = eg.ops.cross_entropy(model(ids), labels)
    (gradient,) = tape.gradient(loss, model.parameters())
    loose = eg.grad(
        lambda w, v: eg.ops.cross_entropy(eg.ops.linear(eg.ops.embedding(w, ids), v), labels), argnums=(0, 1)
    )(model.embedding.weight.clone(), model.embedding.weight.clone())
    assert eg.relative_error(gradient, loose[0] + loose[1]) < 1e-6
    optimizer = eg.optim.SGD(model.parameters(), lr=0.1)
    optimizer.step([gradient])
    assert eg.same_bits(model.out.weight, model.embedding.weight)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), copy.deepcopy(model).to("f64")):
        assert other.out.weight.data_ptr == other.embedding.weight.data_ptr and len(other.parameters()) == 1
    other = Tied()
    other.load_state_dict(model.state_dict())
    assert eg.same_bits(other.out.weight, model.embedding.weight)
    twice = eg.tensor(model.embedding.weight.numpy() * 2.0)
    with nn.ParameterScope(model, [twice]):
        assert eg.same_bits(model.out.weight, twice) and eg.same_bits(model.embedding.weight, twice)
        with nn.ParameterScope(model, [gradient]):
            assert eg.same_bits(model.out.weight, gradient)
        assert eg.same_bits(model.out.weight, twice)
    assert not eg.same_bits(model.out.weight, twice)


def test_a_parameter_of_anothers_tensor_is_tied_too():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(6, 4, key=1)
            self.out = nn.Parameter(self.embedding.weight)

        def forward(self, ids):
            return self.embedding(ids) @ self.out.T

    net = Net()
    assert [name for name, _ in net.named_parameters()] == ["embedding.weight"]
    assert len(copy.deepcopy(net).parameters()) == len(copy.copy(net).parameters()) == 1
    eg.optim.SGD(net.parameters(), lr=0.1)


def test_parameters_that_only_look_alike_are_not_tied():
    pair = nn.Sequential(nn.Linear(2, 2, key=1), nn.Linear(2, 2, key=1))
    assert len(pair.parameters()) == 4
    v, b = eg.ones((2, 2)), eg.zeros(2)
    with nn.ParameterScope(pair, [v, b, v, b]):
        assert len(pair.parameters()) == 4
    assert eg.same_bits(pair[0].weight, pair[1].weight) and len(pair.parameters()) == 4
    pair[1].weight = pair[0].weight.clone()
    assert len(pair.parameters()) == 4


def test_parameters_are_replaced_by_tensors_that_stand_for_them():
    linear = nn.Linear(3, 2, key=1)
    w = eg.ones((2, 3))
    linear.weight = w
    assert linear.weight.data_ptr == w.data_ptr and linear(eg.ones((1, 3))).shape == (1, 2)
    linear.weight = nn.Parameter(eg.zeros((2, 3)))
    assert linear.weight.sum().item() == 0.0
    model = vit()
    model.blocks[0].attention.qkv.weight = model.blocks[1].attention.qkv.weight
    assert len(model.parameters()) == len(vit().parameters()) - 1
    for value, error, words in [
        (eg.ones((3, 2)), eg.ShapeError, r"'weight' is \[2, 3\], the tensor that is assigned \[3, 2\]"),
        (eg.ones((2, 3), "f64"), eg.DTypeError, "convert it first"),
    ]:
        with pytest.raises(error, match=words):
            linear.weight = value
    with pytest.raises((AttributeError, TypeError)):
        linear.weigth = nn.Linear(2, 2)


def test_modules_of_modules_made_in_python_are_replaced():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = nn.Linear(3, 4, key=1), nn.Linear(4, 2, key=2)
            self.layers = [nn.Linear(2, 2), nn.Linear(2, 2)]

        def forward(self, x):
            return self.head(self.body(x))

    net = Net()
    net.head = nn.Linear(4, 5, key=3)
    assert net(eg.ones((1, 3))).shape == (1, 5) and net.state_dict()["head.weight"].shape == (5, 4)
    assert [name for name, _ in net.named_children()][:2] == ["body", "head"]
    with pytest.raises(ValueError, match=r"\(at head\)"):
        net.head(eg.ones((1, 3)))
    with pytest.raises(ValueError, match="registered already"):
        net.head = eg.nn.Parameter(eg.ones(2))
    with pytest.raises(ValueError, match="registered already"):
        net.layers = [nn.Linear(2, 2)]
    with pytest.raises(ValueError, match="part of itself"):
        net.head = net
    copied = copy.deepcopy(net)
    assert eg.same_bits(copied(eg.ones((1, 3))), net(eg.ones((1, 3))))


def test_a_module_under_two_names_is_replaced_under_one():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = self.b = nn.Linear(2, 2)
            self.layers = [self.a, nn.Linear(2, 2)]

    net, other = Net(), nn.Linear(2, 2)
    layer, second = net.layers
    net.a = other
    assert net.a is other and net.b is layer and net.layers[0] is layer
    assert [name for name, _ in net.named_children()] == ["a", "b", "layers.0", "layers.1"]
    assert net.children() == [other, layer, layer, second]
    assert [name for name, _ in net.named_parameters()] == [
        "a.weight", "a.bias", "b.weight", "b.bias", "layers.1.weight", "layers.1.bias",
    ]  # fmt: skip
    assert all(eg.same_bits(a, b) for a, b in zip(net.parameters()[2:4], layer.parameters()))
    with pytest.raises(eg.ShapeError, match="layers.0"):  # where it stands still
        layer(eg.ones((1, 3)))
    net.a = layer  # and back
    assert net.children() == [layer, layer, layer, second] and len(net.parameters()) == 4
    net.b = nn.Linear(2, 2)
    assert net.a is layer and net.children()[1] is net.b and len(net.parameters()) == 6


def test_hooks_hear_a_call_once_while_attention_is_recorded():
    told = []

    def hook(module, args, output):
        told.append(module)
        return output * 2.0

    for block, call in [
        (nn.MultiHeadAttention(8, 2), lambda one: one(eg.ones((1, 3, 8)) * eg.arange(8))),
        (nn.SetTransformer(nn.SetTransformerConfig(inputs=8, outputs=2, layers=1, seeds=2, decoder_layers=0, block=nn.SetBlockConfig(dim=8, heads=2, hidden=8)), key=1), lambda one: one(eg.ones((1, 3, 8)))),
    ]:
        parts = [one for name, one in block.named_modules() if name.rsplit(".", 1)[-1] in ("qkv", "q", "kv", "proj")]
        for part in parts:
            part.register_forward_hook(hook)
        told.clear()
        plain = call(block)
        usual = len(told)
        told.clear()
        maps = eg.attention_maps(lambda: call(block))
        assert len(told) == usual >= len(parts) and usual % len(parts) == 0
        assert eg.same_bits(maps.output, plain)


def test_recorded_attention_is_that_of_the_hooks():
    attention, x = nn.MultiHeadAttention(8, 2, key=3), eg.random.normal((1, 3, 8), key=4)
    plain = eg.attention_maps(attention, x)
    attention.qkv.register_forward_hook(lambda module, args, output: output * 2.0)
    hooked = eg.attention_maps(attention, x)
    assert np.allclose(hooked.logits[0].numpy(), 4.0 * plain.logits[0].numpy(), rtol=1e-5, atol=1e-6)
    assert np.allclose(hooked[0].numpy(), eg.ops.softmax(hooked.logits[0]).numpy(), atol=1e-6)


def test_own_vits_are_saved_as_model_folders(tmp_path):
    model = vit().eval()
    eg.hub.save(model, tmp_path / "vit", class_names=["a", "b", "c", "d"])
    loaded = eg.hub.load(tmp_path / "vit")
    assert eg.same_bits(loaded(pixel_values=IMAGES)["logits"], model(IMAGES))
    assert loaded.config["id2label"] == {"0": "a", "1": "b", "2": "c", "3": "d"}
    mean = vit(pooling="mean").eval()
    eg.hub.save(mean, tmp_path / "mean", mean=[0.4] * 3, std=[0.2] * 3)
    assert eg.same_bits(eg.hub.load(tmp_path / "mean")(pixel_values=IMAGES)["logits"], mean(IMAGES))
    eg.hub.save(loaded, tmp_path / "again")
    assert eg.hub.load(tmp_path / "again").architecture == loaded.architecture
    with pytest.raises(eg.ValueError, match="4 classes, 1 names"):
        eg.hub.save(model, tmp_path / "wrong", class_names=["a"])
    for scales, words in [
        ({"mean": [0.4] * 3}, "mean is given without std"),
        ({"std": [0.4] * 3}, "std is given without mean"),
        ({"mean": [0.4], "std": [0.2] * 3}, "mean has 1 values, the model's images 3 channels"),
        ({"mean": [0.4] * 3, "std": [0.2] * 4}, "std has 4 values, the model's images 3 channels"),
    ]:
        with pytest.raises(eg.ValueError, match=words):
            eg.hub.save(model, tmp_path / "wrong", **scales)
    assert not (tmp_path / "wrong").exists()
    with pytest.raises(eg.ValueError, match="neither transformers nor timm"):
        eg.hub.save(vit(position="sinusoidal"), tmp_path / "wrong")
    with pytest.raises(TypeError, match="Linear has no model folder"):
        eg.hub.save(nn.Linear(2, 2), tmp_path / "wrong")
    assert not (tmp_path / "wrong").exists()


def test_adams_state_is_not_adamws():
    w = eg.ones(3)
    adam, adamw = eg.optim.Adam([w], lr=0.1), eg.optim.AdamW([w], lr=0.1)
    adam.step([w.clone()])
    with pytest.raises(eg.ValueError, match="the state is of 'adam', not of 'adamw'"):
        adamw.load_state_dict(adam.state_dict())
    with pytest.raises(eg.ValueError, match="'rule' is missing"):
        adam.load_state_dict({name: t for name, t in adam.state_dict().items() if name != "rule"})
    other = eg.optim.Adam([w], lr=0.1)
    other.load_state_dict(adam.state_dict())
    assert other.steps == 1


def test_adamw_decays_as_pytorchs_does():
    steps = {}
    for name, options in {"default": {}, "same": {"weight_decay": 0.01}, "none": {"weight_decay": 0.0}}.items():
        w = eg.full((2,), 4.0)
        eg.optim.AdamW([w], lr=0.5, **options).step([eg.zeros(2)])
        steps[name] = w.tolist()
    assert (
        steps["default"] == steps["same"]
        and np.allclose(steps["default"], 4.0 - 0.5 * 0.01 * 4.0)
        and steps["none"] == [4.0, 4.0]
    )
    torch = pytest.importorskip("torch")
    p = torch.nn.Parameter(torch.full((2,), 4.0))
    p.grad = torch.zeros(2)
    torch.optim.AdamW([p], lr=0.5).step()
    assert np.allclose(p.detach().numpy(), steps["default"])
