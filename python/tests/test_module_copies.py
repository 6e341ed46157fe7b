"""Copies and pickles of modules: every bit and flag comes back, and what was shared is shared."""

import copy
import pickle
from types import SimpleNamespace

import equigrad as eg
import pytest

WAYS = {"pickle": lambda value: pickle.loads(pickle.dumps(value)), "deepcopy": copy.deepcopy}
each_way = pytest.mark.parametrize("again", WAYS.values(), ids=WAYS)


def block_config(**options):
    return eg.nn.BlockConfig(dim=8, heads=2, mlp=12, **options)


MODULES = {
    "Linear": lambda: eg.nn.Linear(3, 2, key=1),
    "Linear without bias": lambda: eg.nn.Linear(3, 2, key=1, bias=False),
    "LayerNorm": lambda: eg.nn.LayerNorm(3, eps=0.5),
    "RmsNorm": lambda: eg.nn.RmsNorm(3, eps=0.5),
    "Norm": lambda: eg.nn.Norm("rms", 3, eps=0.5),
    "BatchNorm": lambda: eg.nn.BatchNorm(3, eps=0.5, momentum=0.25),
    "GroupNorm": lambda: eg.nn.GroupNorm(2, 4, eps=0.5),
    "Embedding": lambda: eg.nn.Embedding(4, 3, key=1, padding=2),
    "Dropout": lambda: eg.nn.Dropout(0.25),
    "DropPath": lambda: eg.nn.DropPath(0.25),
    "Conv2d": lambda: eg.nn.Conv2d(4, 6, (3, 2), key=1, stride=(2, 1), padding=(0, 1), dilation=(1, 2), groups=2),
    "Mlp": lambda: eg.nn.Mlp(4, 6, "relu", key=1, gated=True),
    "Mlp without bias": lambda: eg.nn.Mlp(4, 6, "silu", key=1, bias=False),
    "MultiHeadAttention": lambda: eg.nn.MultiHeadAttention(
        8, 4, 2, key=1, kv_heads=2, causal=True, scale=0.3, rotary=eg.nn.RotaryConfig(on=True), bias=False, proj_bias=True
    ),
    "Block": lambda: eg.nn.Block(block_config(norm="rms", gated=True), key=1),
    "PatchEmbedding": lambda: eg.nn.PatchEmbedding(3, 2, 8, key=1),
    "Vit": lambda: eg.nn.Vit(eg.nn.VitConfig(image=4, patch=2, layers=2, encoder=block_config()), key=1),
    "Vit with constant positions": lambda: eg.nn.Vit(
        eg.nn.VitConfig(image=4, patch=2, layers=1, encoder=block_config(), position="sinusoidal"), key=1
    ),
    "Bert": lambda: eg.nn.Bert(
        eg.nn.BertConfig(vocabulary=9, positions=8, layers=1, encoder=block_config(), head="language_model"), key=1
    ),
    "Decoder": lambda: eg.nn.Decoder(eg.nn.DecoderConfig(vocabulary=9, positions=8, layers=1, block=block_config(causal=True)), key=1),
    "Difm": lambda: eg.nn.Difm(eg.nn.DifmConfig(vocabularies=[3, 4], numeric=1, hidden=[5]), key=1),
    "SetTransformer": lambda: eg.nn.SetTransformer(eg.nn.SetTransformerConfig(inputs=2, inducing=3), key=1),
    "Pma": lambda: eg.nn.Pma(eg.nn.SetBlockConfig(dim=8, heads=2), 3, key=1),
    "MixtureOfExperts": lambda: eg.nn.MixtureOfExperts(eg.nn.MoeConfig(dim=4, hidden=6, experts=3), key=1),
    "Sequential": lambda: eg.nn.Sequential(eg.nn.Linear(3, 4, key=1), eg.nn.Tanh(), eg.nn.Linear(4, 2, key=2)),
    "GELU": lambda: eg.nn.GELU(approximate="tanh"),
    "Flatten": lambda: eg.nn.Flatten(0, 1),
    "Softmax": lambda: eg.nn.Softmax(dim=0),
    "LogSoftmax": lambda: eg.nn.LogSoftmax(dim=0),
    "LeakyReLU": lambda: eg.nn.LeakyReLU(0.3),
    "ELU": lambda: eg.nn.ELU(0.7),
    "MaxPool2d": lambda: eg.nn.MaxPool2d(2, padding=1),
    "AvgPool2d": lambda: eg.nn.AvgPool2d((2, 1), stride=1),
    **{name: getattr(eg.nn, name) for name in ("Softplus", "Mish", "Identity", "ReLU", "SiLU", "Sigmoid", "Tanh")},
}

CALLS = {
    "BatchNorm": lambda m: [m(eg.random.normal((5, 3), key=2))],
    "Dropout": lambda m: [m(eg.ones(50), key=2)],
    "DropPath": lambda m: [m(eg.ones((50, 2)), key=2)],
    "GroupNorm": lambda m: [m(eg.random.normal((2, 4, 3), key=2))],
    "Embedding": lambda m: [m(eg.tensor([0, 2, 3]))],
    "Conv2d": lambda m: [m(eg.random.normal((1, 4, 9, 9), key=2))],
    "MultiHeadAttention": lambda m: [m(eg.random.normal((1, 3, 8), key=2))],
    "Block": lambda m: [m(eg.random.normal((1, 3, 8), key=2))],
    "Bert": lambda m: [m.masked_lm(m(eg.tensor([[1, 2, 3]]), key=5))],
    "Decoder": lambda m: [m.language_model(m(eg.tensor([[1, 2, 3]]), key=5))],
    "Difm": lambda m: [m(eg.tensor([[1, 2]]), eg.ones((1, 1)))],
    "SetTransformer": lambda m: [m(eg.random.normal((1, 4, 2), key=2))],
    "Pma": lambda m: [m(eg.random.normal((1, 4, 8), key=2))],
    **dict.fromkeys(("PatchEmbedding", "Vit", "MaxPool2d", "AvgPool2d"), lambda m: [m(eg.random.normal((1, 3, 4, 4), key=2))]),
    **dict.fromkeys(("Mlp", "MixtureOfExperts"), lambda m: [m(eg.random.normal((2, 4), key=2))]),
    **dict.fromkeys(
        (
            *("Sequential", "GELU", "Flatten", "Softmax", "Identity", "ReLU", "SiLU", "Sigmoid", "Tanh"),
            *("LogSoftmax", "LeakyReLU", "ELU", "Softplus", "Mish"),
        ),
        lambda m: [m(eg.random.normal((2, 3), key=2))],
    ),
    **dict.fromkeys(("Linear", "LayerNorm", "RmsNorm", "Norm"), lambda m: [m(eg.random.normal((2, 3), key=2))]),
}


def outputs(module):
    """What a module computes from the same input and keys."""
    with eg.pause():
        return CALLS[type(module).__name__](module)


def same(a, b):
    return len(a) == len(b) and all(eg.same_bits(x, y) for x, y in zip(a, b))


def test_every_module_is_tried():
    classes = [value for value in vars(eg.nn).values() if isinstance(value, type) and issubclass(value, eg.nn.Module)]
    modules = {value.__name__ for value in classes}
    assert {type(make()).__name__ for make in MODULES.values()} == modules - {"Module"}


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("name", MODULES)
@each_way
def test_modules(again, name, dtype):
    module = MODULES[name]()
    for parameter in module.parameters():  # values that no constructor gives
        parameter[...] = parameter + eg.random.normal(parameter.shape, key=7) * 0.1
    module.to(dtype)
    copied = again(module)
    assert type(copied) is type(module) and copied.training and list(copied.state_dict()) == list(module.state_dict())
    assert same(list(copied.state_dict().values()), list(module.state_dict().values()))
    assert [n for n, _ in copied.named_parameters()] == [n for n, _ in module.named_parameters()]
    if dtype == "f32":
        assert same(outputs(copied), outputs(module))
    copied.eval()
    assert module.training
    before = [parameter.clone() for parameter in module.parameters()]
    for parameter in copied.parameters():
        parameter.fill(3.0)
    assert same(before, module.parameters())


@each_way
def test_flags_of_parts_come_along(again):
    model = MODULES["Vit"]()
    model.eval()
    model.blocks[1].attention.train()
    copied = again(model)
    assert not copied.training and not copied.blocks[1].training and copied.blocks[1].attention.training
    assert not copied.blocks[0].attention.training


@each_way
def test_parts_of_models_are_models_of_their_own(again):
    block = MODULES["Vit"]().blocks[1]
    copied = again(block)
    assert same(outputs(copied), outputs(block)) and copied.norm1.kind == "layer"
    assert eg.same_bits(again(block.norm1).weight, block.norm1.weight)


class Tied(eg.nn.Module):
    """Parts of every kind; the head's weight is the embedding's."""

    def __init__(self, key):
        super().__init__()
        self.embedding = eg.nn.Embedding(5, 4, key=key)
        self.gain = eg.nn.Parameter(eg.random.normal(4, key=key + 1))
        self.layers = [eg.nn.Linear(4, 4, key=key + 2), eg.nn.Dropout(0.5)]
        self.register_state("seen", eg.tensor([3, 1]))
        self.weight = eg.nn.Parameter(self.embedding.weight)
        self.twice = [self.layers[0], self.layers[1]]
        self.names = ["a", "b"]
        self.itself = SimpleNamespace(me=self)

    def forward(self, ids, key):
        x = self.embedding(ids) * self.gain
        for layer in self.layers:
            x = layer(x, key) if isinstance(layer, eg.nn.Dropout) else layer(x)
        return eg.ops.linear(x, self.weight)


@each_way
def test_modules_made_in_python(again):
    net, ids = Tied(1), eg.tensor([0, 3, 4])
    net.eval()
    net.layers[1].train()
    copied = again(net)
    assert type(copied) is Tied and list(copied.state_dict()) == list(net.state_dict())
    assert same(list(copied.state_dict().values()), list(net.state_dict().values()))
    assert not copied.training and not copied.layers[0].training and copied.layers[1].training
    assert eg.same_bits(copied(ids, 5), net(ids, 5))
    assert copied.itself.me is copied and copied.names == ["a", "b"] and copied.names is not net.names
    assert copied.twice[0] is copied.layers[0] and copied.embedding is not net.embedding
    gradients = []
    for model in (net, copied):
        with eg.Tape() as tape:
            loss = model(ids, 5).sum()
        gradients.append(tape.gradient(loss, [model.weight, model.gain]))  # the weight's through both of its uses
    assert same(*gradients)
    copied.embedding.weight[0, 0] = 100.0
    assert copied.weight[0, 0].item() == 100.0 != net.weight[0, 0].item()
    copied.extra = eg.nn.Linear(2, 2, key=1)  # it registers as before
    assert "extra.weight" in copied.state_dict()


class Pair(eg.nn.Module):
    def __init__(self, part):
        super().__init__()
        self.part = part


@each_way
def test_modules_that_share_a_part_share_one_afterwards(again):
    shared = eg.nn.Linear(2, 2, key=1)
    left, right = again([Pair(shared), Pair(shared)])
    assert left.part is right.part and left.part is not shared
    assert eg.same_bits(left.part.weight, shared.weight)


class Bigger(eg.nn.Linear):
    """A class of the library's with something more."""

    def __init__(self, note):
        super().__init__(3, 2, key=1)
        self.note = note


@each_way
def test_classes_derived_from_layers(again):
    layer = Bigger({"a": [1]})
    copied = again(layer)
    assert type(copied) is Bigger and copied.note == layer.note and copied.note is not layer.note
    assert eg.same_bits(copied.weight, layer.weight)


def test_a_shallow_copy_shares_memory():
    for net in (Tied(1), MODULES["Vit"]()):
        copied = copy.copy(net)
        assert copied is not net
        assert [a.data_ptr for a in copied.parameters()] == [b.data_ptr for b in net.parameters()]
    copied = copy.copy(net := Tied(1))
    assert copied.embedding is net.embedding and copied.names is net.names


def test_a_class_may_say_what_is_left_out():
    net = Cached(1)
    net.cache = open(__file__)  # cannot be pickled
    copied = pickle.loads(pickle.dumps(net))
    assert copied.cache is None and eg.same_bits(copied.weight, net.weight)
    net.cache.close()


class Cached(Tied):
    def __getstate__(self):
        state = super().__getstate__()
        state["attributes"]["cache"] = None
        return state


def test_copies_are_not_recorded():
    net, ids = Tied(1), eg.tensor([0, 3, 4])
    net.scale = eg.ones(2)  # no part of it: an attribute
    net.more = {"shifts": [eg.zeros(2)]}
    with eg.Tape() as tape:
        before = len(tape)
        copied = copy.deepcopy(net)
        assert len(tape) == before and len(copy.deepcopy([net, {"net": net}])) == 2 and len(tape) == before
        assert eg.recording() and copied.scale.data_ptr != net.scale.data_ptr and copied.itself.me is copied
        y = copied(ids, 5).sum()
    assert tape.gradient(y, net.gain).tolist() == [0] * 4  # it is another model


class Rebuilt(eg.nn.Module):
    """A class that says itself how it is made again."""

    def __init__(self, size):
        super().__init__()
        self.size = size

    def __reduce__(self):
        return Rebuilt, (self.size,)


@each_way
def test_classes_with_a_reduce_of_their_own(again):
    copied = again(Rebuilt([3]))
    assert type(copied) is Rebuilt and copied.size == [3]


def test_a_state_that_does_not_fit_is_refused():
    linear = eg.nn.Linear(3, 2, key=1)
    state = linear.__getstate__()
    with pytest.raises(eg.ShapeError, match=r"tensor 0 is \[2, 3\], this module has \[4, 3\]"):
        eg.nn.Linear(3, 4, key=1).__setstate__(state)
    with pytest.raises(eg.ValueError, match="2 tensors and 1 modules were given, this module has 1 and 1"):
        eg.nn.Linear(3, 2, key=1, bias=False).__setstate__(state)


def test_modules_send_their_memory_beside_the_stream():
    model, buffers = MODULES["Vit"](), []
    data = pickle.dumps(model, protocol=5, buffer_callback=buffers.append)
    assert len(buffers) == len(model.parameters()) and sum(b.raw().nbytes for b in buffers) == 4 * model.parameter_count()
    received = [bytearray(buffer) for buffer in buffers]
    copied = pickle.loads(data, buffers=received)
    assert same(outputs(copied), outputs(model)) and len(data) < 10_000
