"""Layers, models, modules made in Python, optimisers."""

import collections
import copy
import gc
import pickle
import weakref

import equigrad as eg
import numpy as np
import pytest


def test_layers_agree_with_their_ops():
    x = eg.random.normal((2, 5, 8), key=1)
    linear = eg.nn.Linear(8, 3, key=2)
    assert eg.same_bits(linear(x), eg.ops.linear(x, linear.weight, linear.bias))
    assert eg.nn.Linear(8, 3, key=2, bias=False).bias is None
    norm = eg.nn.LayerNorm(8, eps=1e-3)
    assert eg.same_bits(norm(x), eg.ops.layer_norm(x, norm.weight, norm.bias, eps=1e-3))
    ids = eg.tensor([[0, 2], [3, 1]])
    assert eg.nn.Embedding(4, 6, key=1)(ids).shape == (2, 2, 6)
    assert eg.nn.RmsNorm(8)(x).shape == eg.nn.Mlp(8, 16, "silu", key=1)(x).shape == x.shape
    assert eg.nn.Conv2d(3, 6, 3, key=1, padding=1, stride=2)(eg.ones((1, 3, 8, 8))).shape == (1, 6, 4, 4)
    assert eg.nn.GroupNorm(2, 8)(eg.random.normal((2, 8, 3), key=1)).shape == (2, 8, 3)
    dropout = eg.nn.Dropout(0.5)
    assert (dropout(x, key=1) == 0.0).to("f32").sum().item() > 10
    dropout.eval()
    assert not dropout.training and eg.same_bits(dropout(x, key=1), x)


def test_errors_name_the_place():
    model = eg.nn.Vit(eg.nn.VitConfig(image=8, patch=4, layers=2, encoder=eg.nn.BlockConfig(dim=8, heads=2, mlp=8)), key=1)
    with pytest.raises(ValueError, match=r"\(at blocks.0.*\)"):
        model.encode(eg.ones((1, 5, 9)))


def test_state_dict_and_loading():
    a, b = eg.nn.Linear(3, 2, key=1), eg.nn.Linear(3, 2, key=2)
    assert [name for name, _ in a.named_parameters()] == list(a.state_dict()) == ["weight", "bias"]
    b.load_state_dict(a.state_dict())
    assert eg.same_bits(a.weight, b.weight) and a.weight.data_ptr != b.weight.data_ptr
    b.load_state_dict({"weight": np.ones((2, 3)), "bias": np.zeros(2)})  # arrays, converted to f32
    assert b.weight.tolist() == [[1] * 3] * 2
    with pytest.raises(eg.ValueError, match="missing: bias"):
        a.load_state_dict({"weight": a.weight})
    with pytest.raises(eg.ShapeError, match=r"weight is \[3, 2\]"):
        a.load_state_dict({"weight": eg.ones((3, 2)), "bias": a.bias})
    a.to("f64")
    assert a.weight.dtype == "f64" and a.parameter_count() == 8


def test_batch_norm_state():
    norm = eg.nn.BatchNorm(3)
    x = eg.random.normal((16, 3), key=1, mean=2.0)
    norm(x)
    assert abs(norm.running_mean.numpy() - 0.1 * x.numpy().mean(0)).max() < 1e-6
    assert "running_mean" in norm.state_dict() and len(norm.parameters()) == 2
    norm.eval()
    before = norm.running_mean.tolist()
    norm(x)
    assert norm.running_mean.tolist() == before


def test_configs():
    config = eg.nn.VitConfig(image=16, encoder=eg.nn.BlockConfig(dim=24, heads=4, activation="relu"), pooling="mean")
    assert config.encoder.dim == 24 and config.encoder.activation == "relu" and config.patches == 16
    config.encoder.dim = 48  # the config's own, not a copy
    assert config.encoder.dim == 48 and "dim=48" in repr(config)
    with pytest.raises(TypeError, match="there is no field 'imag'; did you mean"):
        eg.nn.VitConfig(imag=3)
    with pytest.raises(TypeError, match="'image' must be int, not str"):
        eg.nn.VitConfig(image="large")
    with pytest.raises(ValueError, match="gelu"):
        eg.nn.BlockConfig(activation="gulu")
    with pytest.raises(eg.ValueError):
        eg.nn.Vit(eg.nn.VitConfig(image=15), key=1)


def small_vit(**options):
    encoder = eg.nn.BlockConfig(dim=16, heads=2, mlp=24)
    return eg.nn.Vit(eg.nn.VitConfig(image=8, patch=4, classes=5, layers=2, encoder=encoder, **options), key=1)


def test_vit_parts():
    model = small_vit()
    images = eg.random.normal((3, 3, 8, 8), key=2)
    z = model.embed(images)
    assert z.shape == (3, 5, 16) and eg.same_bits(model(images), model.head(model.encode(z)))
    assert [block.attention.qkv.weight.shape for block in model.blocks] == [(48, 16)] * 2
    scores = model.trace(images)[1]["scores"]
    assert scores.shape == (3, 2, 5, 5) and np.allclose(scores.numpy().sum(-1), 1, atol=1e-6)
    assert small_vit(pooling="mean").cls_token is None
    assert model.classifier.weight.shape == (5, 16)


def test_children_keep_their_parent_alive():
    gc.collect()
    live = eg.memory()["live"]
    qkv = small_vit().blocks[1].attention.qkv
    gc.collect()
    assert qkv(eg.ones((1, 16))).shape == (1, 48)
    del qkv
    gc.collect()
    assert eg.memory()["live"] == live


class Net(eg.nn.Module):
    """Two layers, a gain and a list, all found by assignment."""

    def __init__(self, key):
        super().__init__()
        self.first = eg.nn.Linear(4, 6, key=key)
        self.rest = [eg.nn.Linear(6, 6, key=key + 1), eg.nn.Linear(6, 2, key=key + 2)]
        self.gain = eg.nn.Parameter(eg.ones(6))
        self.register_state("seen", eg.zeros([]))
        self.note = "not registered"

    def forward(self, x):
        x = eg.ops.gelu(self.first(x)) * self.gain
        for layer in self.rest:
            x = layer(x)
        return x


NET_NAMES = ["first.weight", "first.bias", "rest.0.weight", "rest.0.bias", "rest.1.weight", "rest.1.bias", "gain"]


def test_modules_made_in_python():
    net = Net(1)
    assert [name for name, _ in net.named_parameters()] == NET_NAMES
    assert list(net.state_dict()) == [*NET_NAMES, "seen"] and net.seen.item() == 0
    assert net.parameter_count() == 4 * 6 + 6 + 36 + 6 + 12 + 2 + 6
    assert net(eg.ones((3, 4))).shape == (3, 2)
    net.eval()
    assert not net.first.training and not net.rest[1].training
    net.to("f64")
    assert net.gain.dtype == net.first.weight.dtype == "f64"
    other = Net(5)
    other.to("f64")
    other.load_state_dict(net.state_dict())
    x = eg.random.normal((3, 4), key=1, dtype="f64")
    assert eg.same_bits(net(x), other(x))
    with pytest.raises(ValueError, match=r"\(at rest.1\)"):
        other.rest[1](eg.ones((1, 5), "f64"))


def test_modules_made_in_python_nest_and_name_places():
    class Outer(eg.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = Net(1)

        def forward(self, x):
            return self.net(x)

    outer = Outer()
    assert [name for name, _ in outer.named_parameters()] == ["net." + name for name in NET_NAMES]
    with pytest.raises(ValueError, match=r"\(at net.first\)"):
        outer(eg.ones((1, 5)))


def test_registered_names_stay():
    net = Net(1)
    for change in [
        lambda: setattr(net, "first", eg.nn.Parameter(eg.ones(6))),
        lambda: setattr(net, "rest", [eg.nn.Linear(6, 6)]),
        lambda: delattr(net, "first"),
        lambda: net.register_state("gain", eg.ones(1)),
    ]:
        with pytest.raises(ValueError, match="registered"):
            change()
    net.gain[...] = 2.0
    assert net.gain.tolist() == [2] * 6
    net.note = "may change"
    del net.note
    with pytest.raises(ValueError, match="part of itself"):
        net.myself = net
    outer = Net(2)
    outer.inner = net
    with pytest.raises(ValueError, match="part of itself"):
        net.outer = [outer]
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'nothing'"):
        net.nothing
    with pytest.raises(AttributeError, match="forward"):
        type("Empty", (eg.nn.Module,), {})()(1)


def test_parts_are_assigned_to_modules_of_ones_own_only():
    class Bigger(eg.nn.Linear):
        pass

    layer = Bigger(2, 3, key=1)
    layer.note = "may be"
    with pytest.raises(TypeError, match="derive from eg.nn.Module itself"):
        layer.inner = eg.nn.Linear(2, 2, key=1)
    with pytest.raises(AttributeError):
        eg.nn.Linear(2, 2, key=1).note = 3

    class Forgetful(eg.nn.Module):
        def __init__(self):
            self.layer = eg.nn.Linear(2, 2, key=1)

    with pytest.raises(TypeError, match="super"):
        Forgetful()

    class Lazy(eg.nn.Module):
        def __init__(self):
            pass

    net = Net(1)
    lazy = Lazy()
    for use in (lambda: lazy(1), lambda: repr(lazy), lambda: delattr(lazy, "x"), lambda: setattr(net, "part", lazy)):
        with pytest.raises(TypeError, match="super"):
            use()
    with pytest.raises(TypeError, match="module: 'parts.1' must be a Module.*, not int"):
        net.parts = [eg.nn.Linear(2, 2, key=1), 3]


def test_arrays_are_taken_for_tensors():
    layer = eg.nn.Linear(3, 2, key=1)
    x = np.ones((4, 3), "float32")
    assert eg.same_bits(layer(x), layer(eg.tensor(x)))
    with pytest.raises(TypeError):
        layer("x")
    with pytest.raises(TypeError):
        layer([1.0, 2.0, 3.0])


def test_modules_made_in_python_are_collected():
    net = Net(1)
    net.backwards = lambda: net  # a cycle
    gone = weakref.ref(net)
    live = eg.memory()["live"]
    del net
    gc.collect()
    assert gone() is None and eg.memory()["live"] < live


def test_parameter_scope_makes_a_loss_a_function():
    net = Net(1)
    net.to("f64")
    x, direction = eg.random.normal((3, 4), key=2, dtype="f64"), [eg.ones(p.shape, "f64") for p in net.parameters()]

    def loss(*parameters):
        with eg.nn.ParameterScope(net, parameters):
            return (net(x) * net(x)).sum()

    parameters = net.parameters()
    assert eg.gradcheck(loss, parameters)
    value, gradients, products = eg.hvp(loss, parameters, direction)
    with eg.Tape() as tape:
        plain = (net(x) * net(x)).sum()
    for g, h in zip(gradients, tape.gradient(plain, parameters)):
        assert eg.relative_error(g, h) < 1e-12
    assert len(products) == len(parameters) and eg.same_bits(value, plain)
    with pytest.raises(eg.ValueError, match="1 tensors were given for 7"):
        loss(parameters[0])


@pytest.mark.parametrize("make", [eg.optim.SGD, eg.optim.Adam, eg.optim.AdamW], ids=lambda f: f.__name__)
def test_training_a_python_module(make):
    net = Net(3)
    x = eg.random.normal((64, 4), key=1)
    target = eg.ops.stack([x[:, 0] * x[:, 1], x[:, 2]], axis=1)
    parameters = net.parameters()
    optimizer = make(parameters)
    rate = eg.optim.Schedule("cosine", base=0.05 if make is eg.optim.SGD else 0.01, warmup=5, total_steps=200)
    losses = []
    for step in range(200):
        with eg.Tape() as tape:
            loss = eg.ops.mse_loss(net(x), target)
        gradients, norm = eg.optim.clip_gradients(tape.gradient(loss, parameters), max_norm=1.0)
        optimizer.step(gradients, rate(step))
        losses.append(loss.item())
    assert optimizer.steps == 200 and losses[-1] < 0.5 * losses[0]
    assert eg.optim.gradient_norm(gradients) <= 1.0 + 1e-6 or norm <= 1.0
    assert rate.at(0) == pytest.approx(rate.base / 5) and rate.kind == "cosine"


def test_optimizer_state_and_refusals():
    w = eg.ones(3)
    adam = eg.optim.Adam([w])
    adam.step([eg.ones(3)], 0.1)
    assert set(adam.state(0)) == {"exp_avg", "exp_avg_sq"} and w.tolist() == pytest.approx([0.9] * 3)
    adam.step([None], 0.1)
    assert w.tolist() == pytest.approx([0.9] * 3)
    with pytest.raises(eg.ShapeError):
        adam.step([eg.ones(4)], 0.1)
    with pytest.raises(IndexError):
        adam.state(1)
    with pytest.raises(eg.ValueError, match="sgd"):
        eg.optim.make_optimizer("sdg", [w])


def test_none_can_be_assigned():
    class Net(eg.nn.Module):
        def __init__(self):
            super().__init__()
            self.mask = None
            self.weight = None
            self.inner = None

    net = Net()
    assert net.mask is None and net.weight is None and net.named_parameters() == []
    net.weight = eg.nn.Parameter(eg.ones(2))
    net.inner = eg.nn.Linear(2, 3, key=1)
    assert net.weight.tolist() == [1, 1] and [name for name, _ in net.named_parameters()][0] == "weight"
    assert net.inner.weight.shape == (3, 2)
    with pytest.raises(eg.ValueError, match="'weight' is registered already"):
        net.weight = None


class Held(eg.nn.Module):
    """Assigns what a function gives to `parts`."""

    def __init__(self, parts):
        super().__init__()
        self.parts = parts

    def forward(self, x):
        return x


def linear(key=1):
    return eg.nn.Linear(2, 2, key=key)


def test_dicts_of_modules_are_registered():
    given = {"a": linear(1), "b": eg.nn.Sequential(linear(2), eg.nn.ReLU())}
    net = Held(given)
    names = ["parts.a.weight", "parts.a.bias", "parts.b.0.weight", "parts.b.0.bias"]
    assert [name for name, _ in net.named_parameters()] == list(net.state_dict()) == names
    assert list(net.parts) == ["a", "b"] and net.parts["a"](eg.ones((1, 2))).shape == (1, 2)
    given["c"] = linear(3)  # the caller's dict is not the module's, which would never train it
    with pytest.raises(eg.ValueError, match="assign the dict once it is full"):
        net.parameters()
    del given["c"]
    assert len(net.parameters()) == 4
    with pytest.raises(TypeError, match="does not support item assignment"):
        net.parts["c"] = linear(3)
    net.eval()
    assert not net.parts["b"].training
    for copied in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert [name for name, _ in copied.named_parameters()] == names and list(copied.parts) == ["a", "b"]
        assert eg.same_bits(copied.parts["a"].weight, net.parts["a"].weight)
        assert copied.parts["a"].weight.data_ptr != net.parts["a"].weight.data_ptr
    other = Held(dict(net.parts))
    assert other.parts["a"] is net.parts["a"]
    with pytest.raises(ValueError, match="part of itself"):
        net.more = {"self": net}
    with pytest.raises(ValueError, match="registered already"):
        net.parts = {"a": linear()}
    for key in ("x.y", "", 3):
        with pytest.raises(ValueError, match="keys are text without dots, not "):
            Held({key: linear()})
    with pytest.raises(TypeError, match="module: 'parts.b' must be a Module.*, not int"):
        Held({"a": linear(), "b": 3})


@pytest.mark.parametrize(
    "parts, words",
    [
        (lambda: [eg.ops.relu, linear()], "module: 'parts.0' must be a Module"),
        (lambda: (linear(), None), "module: 'parts.1' must be a Module"),
        (lambda: [[linear()], [linear()]], "'parts' is a list with modules in it, which would not be registered"),
        (lambda: {"a": [linear()]}, "'parts' is a dict with modules in it"),
        (lambda: {linear()}, "module: 'parts'"),
        (lambda: [eg.nn.Parameter(eg.ones(2))], "'parts' is a list with Parameters in it.*each Parameter"),
        (lambda: {"w": eg.nn.Parameter(eg.ones(2))}, "'parts' is a dict with Parameters in it"),
    ],
)
def test_what_would_not_be_registered_is_refused(parts, words):
    with pytest.raises(TypeError, match=words):
        Held(parts())


def test_modules_that_come_later_are_found_out():
    """A list that was assigned empty is filled afterwards: its modules would never be trained."""
    fills = {
        "append": ([], lambda net: net.parts.append(linear())),
        "dict": ({}, lambda net: net.parts.update(a=linear())),
        "set": (set(), lambda net: net.parts.add(linear())),
        "inside": ([[]], lambda net: net.parts[0].append(linear())),
        "Parameter": ([1, 2], lambda net: net.parts.append(eg.nn.Parameter(eg.ones(1)))),
    }
    uses = [
        lambda net: net.parameters(),
        lambda net: net.named_parameters(),
        lambda net: net.parameter_count(),
        lambda net: net.state_dict(),
        lambda net: net.load_state_dict({}),
        lambda net: net.to("f64"),
        lambda net: net.cpu(),
    ]
    for name, (value, fill) in fills.items():
        net = Held(value)
        outer = Held([net])
        assert net.parameters() == [] and net(1) == 1
        fill(net)
        for use in uses:
            for module in (net, outer):
                with pytest.raises(eg.ValueError, match="'parts' of a .*Held holds .*; assign the (list|dict|set) once it is full"):
                    use(module)
        if name != "inside":  # a call compares lengths
            with pytest.raises(eg.ValueError, match="'parts' of a .*Held holds"):
                net(1)
        repr(net)
    net = Held([])
    net.parts = [linear()]  # now it is full
    assert len(net.parameters()) == 2 and net(1) == 1

    class Bigger(eg.nn.Linear):
        pass

    bigger = Bigger(2, 2, key=1)
    bigger.more = []
    assert len(bigger.parameters()) == 2
    bigger.more.append(linear())
    with pytest.raises(eg.ValueError, match="'more' of a .*Bigger holds"):
        bigger.parameters()


def test_plain_lists_and_tensors_are_constants():
    net = Held([1.0, "x", eg.ones(2), np.ones(2)])
    net.scale = eg.ones(2)
    net.parts.append(net.parts)  # a list in itself
    assert net.parameters() == [] and net(1) == 1 and isinstance(net.parts, list)
    net.trained = eg.nn.Parameter(eg.ones(2))
    assert [name for name, _ in net.named_parameters()] == ["trained"]


def test_second_tensors_are_given_by_name():
    """attention(q, k, v) of other libraries is no call here: the second tensor would be a residual, the third a mask."""
    x = eg.random.normal((1, 3, 8), key=1)
    attention, block = eg.nn.MultiHeadAttention(8, 2, key=2), eg.nn.Block(eg.nn.BlockConfig(dim=8, heads=2, mlp=8), key=3)
    with pytest.raises(TypeError, match="self-attention takes one tensor.*mask=mask"):
        attention(x, x, x)
    with pytest.raises(TypeError, match="mask= is a tensor of .*"):
        attention(x, attn_mask=x)
    mask = eg.ones((3, 3)).tril().to("bool")
    with pytest.raises(TypeError, match="block takes one tensor"):
        block(x, mask)
    assert eg.same_bits(attention(x, mask=mask), attention(x, addend=eg.zeros((1, 3, 8)), mask=mask))
    assert block(x, mask=mask).shape == x.shape
    for module in (eg.nn.Linear(8, 8, key=1), eg.nn.Mlp(8, 8, key=1)):
        with pytest.raises(TypeError, match="addend"):
            module(x, x)
        assert eg.relative_error(module(x, addend=x), module(x) + x) < 1e-6
    experts = eg.nn.MixtureOfExperts(eg.nn.MoeConfig(dim=8, hidden=8, experts=2, top_k=1), key=1)
    with pytest.raises(TypeError, match="addend"):
        experts(x, x)


class Tied(eg.nn.Module):
    def __init__(self):
        super().__init__()
        self.u = eg.nn.Parameter(eg.ones((2,)))
        self.layer = eg.nn.Linear(2, 2, key=1)
        self.v = self.u
        self.w = self.layer.weight
        self.constant = self.u.detach()

    def forward(self, x):
        return self.layer(x * self.v) @ self.w


def test_a_parameter_that_is_read_and_assigned_is_tied():
    net = Tied()
    names = ["u", "layer.weight", "layer.bias"]
    again = [copy.deepcopy(net), pickle.loads(pickle.dumps(net)), Tied().to("f64"), Tied()]
    again[-1].u = eg.zeros((2,))
    again[-1].v = again[-1].u
    for one in [net, *again]:
        assert [name for name, _ in one.named_parameters()] == names
        assert list(one.state_dict()) == [*names, "v", "w"]
        one.u[...] = 3.0
        one.layer.weight[...] = 2.0
        assert one.v.tolist() == [3, 3] and one.w.tolist() == [[2, 2], [2, 2]]
    assert net.constant.tolist() == [3, 3]  # one memory; not a parameter
    assert again[2].v.dtype == "f64" and again[2].w.dtype == "f64"


def test_a_list_that_grows_after_it_was_assigned_is_refused():
    def linear():
        return eg.nn.Linear(2, 2, key=1)

    class Held(eg.nn.Module):
        def __init__(self, value):
            super().__init__()
            self.parts = value

        def forward(self, x):
            return x

    layers, heads = [linear()], {"a": linear()}
    for kind, value, grow in [
        ("list", layers, lambda: layers.append(linear())),
        ("dict", heads, lambda: heads.update(b=linear())),
    ]:
        net = Held(value)
        outer = Held([net])
        assert len(net.parameters()) == 2 and net(1) == 1
        grow()
        for use in (net.parameters, net.state_dict, outer.parameters, lambda: net.to("f64"), lambda: net(1)):
            with pytest.raises(eg.ValueError, match=f"'parts' of a .*Held holds .* put into the {kind} after .* assign the {kind} once"):
                use()
        assert len(Held(value).parameters()) == 4  # now it is full
    layers.clear()  # what was registered stays
    short = [linear(), linear()]
    net = Held(short)
    short.pop()
    assert len(net.parameters()) == 4 and net(1) == 1
    cycle = [Held([])]
    gone = weakref.ref(cycle[0])
    outer = Held(cycle)
    cycle.append(outer)  # leads back to itself
    del outer, cycle
    gc.collect()
    assert gone() is None


def test_modules_in_other_containers_are_refused():
    class Net(eg.nn.Module):
        pass

    net = Net()
    parts = [eg.nn.Linear(2, 2, key=1)]
    for value, words in [
        (collections.deque(parts), "is a deque with modules in it"),
        ((part for part in parts), "is a generator, whose modules would not be registered; assign a list"),
        (np.array([*parts, None], dtype=object), "is a ndarray with modules in it"),
    ]:
        with pytest.raises(TypeError, match=words):
            net.parts = value
    net.numbers, net.waiting = np.array([1, "a"], dtype=object), collections.deque([1])
    assert net.parameters() == []
    net.layers, net.heads = parts, {"a": eg.nn.Linear(2, 2, key=2)}
    for name, value, kind in [("layers", [*parts, *parts], "list"), ("heads", {}, "dict")]:
        with pytest.raises(eg.ValueError, match=f"build the whole {kind} first and assign it once"):
            setattr(net, name, value)


def test_a_parameter_outside_a_module_computes_as_its_tensor():
    p = eg.nn.Parameter([1.0, 2.0])
    assert (p * 2).tolist() == (2 * p).tolist() == [2, 4] and (eg.ones((2,)) - p).tolist() == [0, -1]
    assert p.shape == (2,) and (-p)[0].item() == -1 and eg.exp(p).shape == (2,) and len(p) == 2
    with eg.Tape() as tape:
        y = (p * p).sum()
    (slope,) = tape.gradient(y, [p])
    eg.optim.SGD([p], lr=0.5).step([slope])
    assert slope.tolist() == [2, 4] and p.tolist() == [0, 0]
    p[...] = 5.0
    assert p.value.tolist() == [5, 5]
    with pytest.raises(AttributeError, match="tape.gradient"):
        p.backward()
    strided = eg.tensor(np.arange(6.0).reshape(2, 3).T)
    packed = eg.nn.Parameter(strided).value
    assert packed.strides == (2, 1) and packed.tolist() == strided.tolist()
    for value in (np.arange(3), [0, 1], eg.tensor([True])):
        with pytest.raises(eg.DTypeError, match=r'Parameter: it is f32 or f64, not .*; convert it with to\("f32"\)'):
            eg.nn.Parameter(value)
    with pytest.raises(TypeError, match="a module has its own parameters"):
        eg.nn.Parameter(eg.nn.Linear(2, 2))
