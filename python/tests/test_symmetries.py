"""Symmetries of models written in Python, their certificates, permuted models, masks, and the catalogue."""

import itertools
import math
import signal

import equigrad as eg
import numpy as np
import pytest


class Mlp(eg.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = eg.nn.Linear(3, 7, key=1), eg.nn.Linear(7, 2, key=2)

    def forward(self, x):
        return self.fc2(eg.ops.gelu(self.fc1(x)))


def free(symmetries):
    return {g.name: g for g in symmetries.groups if g.kind != "trivial"}


def test_a_module_written_in_python():
    model, x = Mlp(), eg.random.normal((5, 3), key=3)
    s = eg.permute.symmetries(model, {"x": x})
    groups = free(s)
    assert sorted(g.size for g in groups.values()) == [2, 3, 5, 7] and groups["fc1.axis0"].size == 7
    assert s["fc1.axis0"].is_secret and not s["fc1.axis0"].moves_outside and s["x.axis0"].moves_outside
    assert math.isclose(s.log2_count(), sum(math.log2(math.factorial(n)) for n in (2, 3, 7)))
    assert "S_7" in repr(s) and "Mlp" in repr(s)
    certificate = s.certify()
    assert certificate.groups == 4 and certificate.generators == 7 and certificate.no_gradient == ""
    assert certificate.forward_error < 1e-12 and certificate.gradient_error < 1e-11
    # The module is as it was.
    assert model.fc1.weight.dtype == "f32" and eg.same_bits(model.fc1.weight, Mlp().fc1.weight)
    with pytest.raises(KeyError):
        s["no such group"]


def test_positional_inputs_and_several_outputs():
    class Two(Mlp):
        def forward(self, x, scale):
            h = self.fc1(x)
            return {"h": h, "pair": (self.fc2(h), h * scale)}

    x, scale = eg.random.normal((5, 3), key=3), eg.random.normal((5, 1), key=4)
    s = eg.permute.symmetries(Two(), [x, scale])
    assert s.certify().groups == 4
    assert {use.tensor for use in s["fc1.axis0"].axes} >= {"h", "pair.1", "fc2.weight"}
    element = s.element(1, ["fc1.axis0"])
    assert not eg.same_bits(element.move("h", eg.tensor(np.eye(5, 7))), eg.tensor(np.eye(5, 7)))


def test_functions_and_brute_force():
    """The order of the inferred group is what trying every permutation of every axis counts."""

    def f(w, x):
        return eg.ops.softmax(x @ w, axis=-1)

    w, x = eg.random.normal((3, 2), key=1, dtype="f64"), eg.random.normal((2, 3), key=2, dtype="f64")
    s = eg.permute.symmetries(f, {"x": x}, parameters={"w": w})
    assert s.certify().generators > 0
    y, count = f(w, x).numpy(), 0
    for p, q, r in itertools.product(*(itertools.permutations(range(n)) for n in (2, 3, 3))):
        for t in itertools.permutations(range(2)):
            moved = f(eg.tensor(w.numpy()[list(r)][:, list(t)]), eg.tensor(x.numpy()[list(p)][:, list(q)])).numpy()
            count += any(
                np.abs(moved - y[list(a)][:, list(b)]).max() < 1e-12
                for a in itertools.permutations(range(2))
                for b in itertools.permutations(range(2))
            )
    assert 2 ** sum(g.log2_count for g in free(s).values()) == pytest.approx(count)


def test_a_claim_that_fails_names_group_and_generator():
    def f(x):
        # On shapes a sum, with values a sum in which the place counts.
        try:
            places = eg.tensor(np.arange(x.shape[0]) * float(x.sum().item() != 0.0))
        except eg.Error:  # a tensor without values
            return x + 1.0
        return x + places

    s = eg.permute.symmetries(f, eg.random.normal((4,), key=1, dtype="f64"))
    assert s["x.axis0"].size == 4
    with pytest.raises(eg.SymmetryError, match='"x.axis0": exchanging its first two places does not commute'):
        s.certify()


@pytest.mark.parametrize("groups", ["inner", "all"])
def test_permute_model_of_the_hub(groups):
    config = {
        "model_type": "bert",
        "architectures": ["BertModel"],
        "vocab_size": 40,
        "hidden_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 3,
        "intermediate_size": 32,
        "max_position_embeddings": 16,
    }
    plain, moved = eg.hub.make_model(config, key=1), eg.hub.make_model(config, key=1)
    for model in (plain, moved):
        model.module.eval()
        model.module.to("f64")
    element = eg.permute.permute_model(moved, key=5, groups=groups)
    ids = eg.random.integers((1, 16), 3, 0, 40)
    expected = plain(input_ids=ids)
    found = moved(input_ids=element.move("input_ids", ids))
    for name, value in expected.items():
        assert eg.relative_error(found[name], element.move(name, value)) < 1e-12
    same = eg.relative_error(moved(input_ids=ids)["last_hidden_state"], expected["last_hidden_state"])
    assert same < 1e-12 if groups == "inner" else same > 0.1
    assert not eg.same_bits(moved.module.blocks[0].mlp.fc1.weight, plain.module.blocks[0].mlp.fc1.weight)
    moved.module.load_state_dict(element.inverse().move_state(moved.module.state_dict()))
    for a, b in zip(moved.module.parameters(), plain.module.parameters()):
        assert eg.same_bits(a, b)


def test_permute_model_written_in_python_and_its_secret_key(tmp_path):
    model, x = Mlp(), eg.random.normal((5, 3), key=3)
    before = model(x)
    s = eg.permute.symmetries(model, [x])
    key = s.make_key("fc1.axis0")
    key.save(tmp_path / "a.key")
    weight = model.fc1.weight.clone()
    element = eg.permute.permute_model(model, eg.permute.SecretKey.load(tmp_path / "a.key"), [x])
    assert eg.relative_error(model(x), before) < 1e-6 and not eg.same_bits(model.fc1.weight, weight)
    other = s.element(key)
    assert eg.same_bits(other.move("fc1.weight", weight), model.fc1.weight)
    both = other.then(other.inverse())
    assert eg.same_bits(both.move("fc1.weight", weight), weight)
    with pytest.raises(eg.ValueError, match="another model"):
        eg.permute.symmetries(eg.nn.Linear(3, 4, key=1), [x]).element(key)
    with pytest.raises(eg.ValueError, match="different models"):
        other.then(element)


def test_a_function_whose_weights_come_first():
    w, x = eg.random.normal((4, 3), key=1), eg.random.normal((5, 3), key=2)
    found = eg.permute.symmetries(lambda w, x: eg.ops.linear(x, w), x, parameters={"w": w})
    axes = {(use.tensor, use.axis) for group in found.groups for use in group.axes}
    assert axes == {("w", 0), ("w", 1), ("x", 0), ("x", 1), ("output", 0), ("output", 1)}
    assert found.certify().generators == 6


def test_what_is_refused():
    x = eg.random.normal((5, 3), key=3)
    with pytest.raises(TypeError, match="give inputs"):
        eg.permute.symmetries(Mlp())
    with pytest.raises(TypeError, match="must give tensors"):
        eg.permute.symmetries(lambda x: 3, [x])
    with pytest.raises(eg.ValueError, match="a parameter and an input"):
        eg.permute.symmetries(lambda x: x, {"x": x}, parameters={"x": x})
    with pytest.raises(TypeError, match="parameters= is for functions"):
        eg.permute.symmetries(Mlp(), [x], parameters={"x": x})
    with pytest.raises(eg.ValueError, match="no group fits"):
        eg.permute.symmetries(Mlp(), [x]).element(1, "fc9")
    with pytest.raises(TypeError, match="a SecretKey, a Key or an int"):
        eg.permute.symmetries(Mlp(), [x]).element("secret")
    norm = eg.nn.BatchNorm(3)
    norm.eval()
    with pytest.raises(eg.ValueError, match="running_.* is state beside the parameters"):
        eg.permute.permute_model(norm, 1, [x])


def test_automorphisms_of_masks():
    ring = np.array([[min((i - j) % 6, (j - i) % 6) for j in range(6)] for i in range(6)], dtype=np.float64)
    group = eg.permute.automorphisms(ring)
    count = sum(np.array_equal(ring[list(p)][:, list(p)], ring) for p in itertools.permutations(range(6)))
    assert group.order == count == 12 and len(group.orbits()) == 1 and group.degree == 6
    for p in [*group.generators, group.random_element(3)]:
        assert np.array_equal(ring[p.gather][:, p.gather], ring)
    rows = np.repeat(np.arange(6.0)[:, None], 6, axis=1)
    assert eg.permute.automorphisms(rows).order == 1
    assert eg.permute.automorphisms(eg.permute.softmax_form(rows)).order == 720


def test_verify():
    results = eg.verify("eq4*")
    assert len(results) > 3 and all(results)
    first = results[0]
    assert first.holds and first.error <= first.tolerance and first.control_error > first.control_must_exceed
    assert first.formula and first.statement and first.control and first.dtype == "f64" and first.sizes["tokens"] == 7
    assert eg.verify("thm4.1", dtype="f32", tokens=5)[0].sizes["tokens"] == 5
    with pytest.raises(eg.ValueError, match="no identity fits"):
        eg.verify("no-such-row")
    with pytest.raises(eg.ValueError, match="heads"):
        eg.verify("thm4.1", heads=5)  # 12 features
    assert eg.verify("thm4.1", heads=1)[0].holds


def test_verify_can_be_interrupted():
    def stop(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(KeyboardInterrupt):
            eg.verify()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert all(eg.verify("eq45"))


class Shared(eg.nn.Module):
    """One layer under two names."""

    def __init__(self):
        super().__init__()
        self.a = eg.nn.Linear(4, 4, key=1)
        self.b = self.a
        self.c = eg.nn.Linear(4, 3, key=2)

    def forward(self, x):
        return self.c(eg.ops.gelu(self.b(eg.ops.gelu(self.a(x)))))


def test_a_layer_under_two_names_is_one_parameter_and_keeps_its_weights():
    model, x = Shared(), eg.random.normal((5, 4), key=3)
    before, y = model.a.weight.numpy().copy(), model(x).numpy()
    s = eg.permute.symmetries(model, {"x": x})
    s.certify()
    assert {g.size for g in free(s).values()} == {3, 4, 5} and len(free(s)) == 3
    np.testing.assert_array_equal(model.a.weight.numpy(), before)
    np.testing.assert_array_equal(model(x).numpy(), y)
    assert len(model.parameters()) == 4
    with pytest.raises(eg.ValueError, match="b.bias"):  # whose state has it twice
        eg.permute.permute_model(model, 1, {"x": x})
    np.testing.assert_array_equal(model(x).numpy(), y)


def test_names_of_tensors_and_data_axes_are_checked():
    x = eg.random.normal((3, 4), key=1)
    with pytest.raises(eg.ValueError, match='two tensors are named "x"'):
        eg.permute.symmetries(lambda x: {"x": eg.ops.transpose(x)}, {"x": x})
    for axis in [("nope", 0), ("x", 7), ("x", -1)]:
        with pytest.raises(eg.ValueError, match="data_axes"):
            eg.permute.symmetries(lambda x: x + x, {"x": x}, data_axes=[axis])


def test_a_constant_of_another_type_is_named_by_the_certificate():
    s = eg.permute.symmetries(lambda x: x + eg.ones([4]), {"x": eg.zeros([3, 4])})
    with pytest.raises(eg.DTypeError, match="dtype of its inputs"):
        s.certify()
