"""Tapes and derivatives as functions."""

import collections
import copy
import gc
import pickle
import weakref

import equigrad as eg
import numpy as np
import pytest


def normal(shape, seed, dtype="f64"):
    return eg.random.normal(shape, key=seed, dtype=dtype)


def test_gradient_has_the_structure_of_xs():
    x, w = normal((4, 3), 1), normal((2, 3), 2)
    with eg.Tape() as tape:
        y = eg.ops.linear(x, w)
        loss = (y * y).sum()
    assert len(tape) > 0 and tape.computed(loss) and not tape.computed(x)
    one = tape.gradient(loss, w, retain=True)
    both = tape.gradient(loss, [x, w], retain=True)
    assert type(one) is eg.Tensor and type(both) is list and eg.same_bits(one, both[1])
    np.testing.assert_allclose(one.numpy(), 2 * (y.numpy().T @ x.numpy()), rtol=1e-12)
    several = tape.gradient([y, loss], (x,), [eg.ones((4, 2), "f64"), None])
    np.testing.assert_allclose(several[0].numpy(), (both[0] + eg.ones((4, 2), "f64") @ w).numpy(), rtol=1e-12)


def test_cotangents():
    x = normal((3,), 1)
    with eg.Tape() as tape:
        y = x * x
    with pytest.raises(eg.AutogradError, match="has no cotangent"):
        tape.gradient(y, x, retain=True)
    v = normal((3,), 2)
    np.testing.assert_allclose(tape.gradient(y, x, cotangent=v).numpy(), 2 * (x * v).numpy(), rtol=1e-14)
    with pytest.raises(eg.AutogradError, match="used up"):
        tape.gradient(y, x, v)


def test_tapes_nest_to_second_derivatives():
    x = eg.tensor(np.array([0.5, -1.5]))
    with eg.Tape() as outer:
        with eg.Tape() as inner:
            y = (x * x * x).sum()
        slope = inner.gradient(y, x)
        total = slope.sum()
    np.testing.assert_allclose(slope.numpy(), 3 * x.numpy() ** 2)
    np.testing.assert_allclose(outer.gradient(total, x).numpy(), 6 * x.numpy())


@pytest.mark.parametrize(
    "copied",
    [lambda x: x.clone(), copy.deepcopy, lambda x: eg.tensor(x, copy=True), lambda x: copy.deepcopy([x])[0]],
    ids=["clone", "deepcopy", "tensor", "deepcopy of a list"],
)
def test_gradients_pass_copies(copied):
    x = eg.tensor(np.array([1.0, 2.0]))
    with eg.Tape() as tape:
        y = copied(x)
        loss = (y * x).sum()
    assert y.data_ptr != x.data_ptr and tape.gradient(loss, x).tolist() == [2, 4]
    with eg.Tape() as tape, eg.pause():
        y = copied(x)
    assert not tape.computed(y)


def test_what_would_cut_a_gradient_is_refused():
    x, z = eg.tensor(np.array([1.0, 2.0])), eg.zeros(2, "f64")
    with eg.Tape():
        with pytest.raises(eg.AutogradError, match="copy_from: a tape is recording .* write while recording is paused"):
            z.copy_from(x * 2.0)
        with pytest.raises(eg.AutogradError, match="tensor: .* ops.stack"):
            eg.tensor([x[0], x[1]])
        with pytest.raises(eg.AutogradError, match="full: .* expand"):
            eg.full((2,), x.sum(), "f64")
        with pytest.raises(eg.AutogradError, match="fill: .* expand"):
            z.fill(x.sum())
        with pytest.raises(eg.AutogradError, match="linspace: .* given as start .* linspace\\(0, 1, steps\\)"):
            eg.linspace(x[0], 3.0, 3, "f64")
        with pytest.raises(eg.AutogradError, match="linspace: .* given as stop"):
            eg.linspace(0.0, x[1] * 2.0, 3, "f64")
        for draw, argument in [("uniform", "low"), ("uniform", "high"), ("normal", "mean"), ("normal", "stddev")]:
            with pytest.raises(eg.AutogradError, match=f"{draw}: .* given as {argument} .* \\* {draw}\\(shape, key\\)"):
                getattr(eg.random, draw)(3, key=1, **{argument: x[0]})
        with eg.pause():
            z.copy_from(x)
            assert eg.tensor([x[0], x[1]]).shape == (2,) and eg.full((1,), x.sum(), "f64").tolist() == [3]
        assert eg.full((2,), 3, "i64").tolist() == [3, 3]
    assert z.tolist() == [1, 2] and eg.tensor([x[0], x[1]]).shape == (2,)


@pytest.mark.parametrize(
    "container",
    [list, tuple, collections.deque, collections.UserList, lambda t: [collections.deque(t)], lambda t: collections.deque([t])],
    ids=["list", "tuple", "deque", "UserList", "deque in a list", "list in a deque"],
)
def test_tensors_in_sequences_are_no_constants_of_a_tape(container):
    x = eg.tensor(np.array([1.0, 2.0]))
    with eg.Tape():
        with pytest.raises(eg.AutogradError, match="tensor: .* ops.stack"):
            eg.tensor(container([x[0], x[1]]))
        with eg.pause():
            assert eg.tensor(container([x[0], x[1]])).size == 2
        assert eg.tensor(container([1.0, 2.0])).size == 2


def test_sequences_that_cannot_be_tensors_are_refused_while_a_tape_records():
    endless = []
    endless.append(endless)
    with eg.Tape():
        for bad in (endless, ["text"], collections.deque(["text"]), collections.ChainMap({"a": 1.0})):
            with pytest.raises((TypeError, ValueError)):
                eg.tensor(bad)


def test_the_tape_advises_a_copy_that_helps():
    x = eg.tensor(np.array([1.0, 2.0]))
    with eg.Tape() as tape:
        h = x * 2.0
        y = h.clone()
        y.fill(3.0)
        with pytest.raises(eg.AutogradError, match="change a clone\\(\\) made while recording is paused"):
            y * x
        with eg.pause():
            y = h.clone()
        y.fill(3.0)
        loss = (y * x).sum()
    assert tape.gradient(loss, x).tolist() == [3, 3]


def test_recording_ends_with_the_block_and_pauses():
    x = eg.ones(2)
    assert not eg.recording()
    with eg.Tape() as tape:
        assert eg.recording()
        with eg.pause():
            assert not eg.recording()
            constant = x * 2.0
        y = (x * constant).sum()
    outside = x * 3.0
    assert not eg.recording() and not tape.computed(outside) and not tape.computed(constant)
    assert tape.gradient(y, x).tolist() == [2, 2]


def test_misuse():
    x = eg.ones(2)
    with pytest.raises(eg.AutogradError, match="never opened"):
        eg.Tape().gradient(x, x)
    with eg.Tape() as tape:
        y = (x * x).sum()
    with pytest.raises(eg.AutogradError, match="opened already"):
        tape.__enter__()
    with pytest.raises(eg.AutogradError, match="not computed on this tape"):
        tape.gradient((x * 2.0).sum(), x)
    with pytest.raises(TypeError, match="gradient: xs"):
        tape.gradient(y, 3)


def test_a_tape_ends_when_the_block_raises():
    with pytest.raises(ZeroDivisionError):
        with eg.Tape():
            1 / 0
    assert not eg.recording()


def test_hooks():
    x = eg.ones(2)
    seen = []
    with eg.Tape() as tape:
        h = x * 3.0
        tape.on_gradient(h, lambda g: seen.append(g.tolist()))
        doubled = tape.on_gradient(x, lambda g: g * 2.0)
        gone = tape.on_gradient(x, lambda g: g * 100.0)
        gone.remove()
        y = h.sum()
    assert tape.gradient(y, x, retain=True).tolist() == [6, 6] and seen == [[1, 1]]
    doubled.remove()
    assert tape.gradient(y, x).tolist() == [3, 3]


def test_a_hooks_exception_comes_back():
    x = eg.ones(2)
    with eg.Tape() as tape:
        y = (x * 2.0).sum()
    tape.on_gradient(x, lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        tape.gradient(y, x)


def test_functional_forms_agree():
    a, x = normal((3, 3), 1), normal((3,), 2)
    h = (a + a.T).numpy() / 2

    def f(x):
        return (x.reshape(1, 3) @ a @ x.reshape(3, 1)).sum() * 0.5

    value, gradient = eg.value_and_grad(f)(x)
    np.testing.assert_allclose(value.item(), 0.5 * x.numpy() @ h @ x.numpy(), rtol=1e-12)
    np.testing.assert_allclose(gradient.numpy(), h @ x.numpy(), rtol=1e-12)
    assert eg.same_bits(eg.grad(f)(x), gradient)
    u = normal((3,), 3)
    product = eg.hvp(f, x, u)
    np.testing.assert_allclose(product.products.numpy(), h @ u.numpy(), rtol=1e-12)
    assert eg.same_bits(product.value, value)
    np.testing.assert_allclose(eg.hessian(f, x).numpy(), h, rtol=1e-12)
    np.testing.assert_allclose(eg.grad(lambda y: (eg.grad(f)(y) * u).sum())(x).numpy(), h @ u.numpy(), rtol=1e-12)
    np.testing.assert_allclose(eg.jacobian(eg.ops.square, x).numpy(), np.diag(2 * x.numpy()), rtol=1e-14)


def test_structures():
    def f(parameters, scale):
        return (parameters["w"][0] * scale + parameters["w"][1]).sum() * 2.0

    w0, w1, scale = normal((2,), 1), normal((2,), 2), normal((2,), 3)
    gradients, by_scale = eg.grad(f)({"w": (w0, w1), "unused": None}, scale)
    assert set(gradients) == {"w", "unused"} and gradients["unused"] is None
    np.testing.assert_allclose(gradients["w"][0].numpy(), 2 * scale.numpy())
    np.testing.assert_allclose(by_scale.numpy(), 2 * w0.numpy())
    np.testing.assert_allclose(eg.grad(f, argnums=1)({"w": (w0, w1)}, scale).numpy(), 2 * w0.numpy())
    (only,) = eg.grad(f, argnums=[1])({"w": (w0, w1)}, scale)
    assert eg.same_bits(only, by_scale)


def test_vjp_and_jvp_are_adjoint():
    def f(x, y):
        return eg.ops.gelu(x @ y), {"norm": (x * x).sum()}

    x, y = normal((2, 3), 1), normal((3, 4), 2)
    u, v = [normal((2, 3), 3), normal((3, 4), 4)], (normal((2, 4), 5), {"norm": normal((), 6)})
    outputs, gradients = eg.vjp(f, [x, y], v)
    same, tangents = eg.jvp(f, [x, y], u)
    assert eg.same_bits(outputs[0], same[0]) and eg.same_bits(outputs[1]["norm"], same[1]["norm"])
    left = sum((g * t).sum().item() for g, t in zip(gradients, u))
    right = (tangents[0] * v[0]).sum().item() + (tangents[1]["norm"] * v[1]["norm"]).item()
    assert abs(left - right) < 1e-12 * (abs(left) + 1)
    half = eg.jvp(f, [x, y], [u[0], None])
    assert half.tangents[0].shape == (2, 4)
    assert eg.vjp(lambda x: x.sum(), x).gradients.tolist() == [[1] * 3] * 2


def test_labels_have_no_derivative():
    logits, labels = normal((4, 3), 1), eg.tensor([0, 1, 2, 0])
    gradients = eg.grad(eg.ops.cross_entropy)(logits, labels)
    assert gradients[0].shape == (4, 3) and gradients[1] is None


def test_functions_that_do_not_fit():
    x = eg.ones(2)
    with pytest.raises(eg.AutogradError, match="more than one|one element"):
        eg.grad(lambda x: x * 2.0)(x)
    with pytest.raises(eg.AutogradError, match="captures"):
        eg.grad(lambda y: (x * x).sum())(x)
    with pytest.raises(ValueError, match="must give one tensor, not 2"):
        eg.grad(lambda y: (y, y))(x)
    with pytest.raises(TypeError, match="give tensors"):
        eg.grad(lambda y: 3.0)(x)
    with pytest.raises(KeyError, match="missing"):
        eg.grad(lambda y: {}["missing"])(x)


def test_checkpoint_gives_the_same_bits():
    x, w = normal((4, 4), 1), normal((4, 4), 2)

    def f(x, w):
        return eg.ops.gelu(x @ w) @ w

    with eg.Tape() as plain:
        y = f(x, w).sum()
    with eg.Tape() as saving:
        z = eg.checkpoint(f, x, w).sum()
    assert saving.saved_bytes < plain.saved_bytes
    for a, b in zip(plain.gradient(y, [x, w]), saving.gradient(z, [x, w])):
        assert eg.same_bits(a, b)


def test_per_sample_gradients():
    w, x = normal((3,), 1), normal((5, 3), 2)
    found = eg.per_sample_gradients(lambda sample: (sample * w).sum() * (sample * w).sum(), [w], [x])
    expected = 2 * (x.numpy() @ w.numpy())[:, None] * x.numpy()
    np.testing.assert_allclose(found[0].numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("shape", [(1, 4), (2, 4), ()])
def test_custom_op_may_give_arrays(shape):
    op = eg.CustomOp("twice", lambda v: np.asarray(v) * 2.0, lambda i, o, g: np.asarray(g[0]) * 2.0)
    x = eg.ones(shape, "f64")
    with eg.Tape() as tape:
        y = op(x)
        loss = y.sum()
    assert y.shape == shape and y.dtype == "f64" and tape.gradient(loss, x).shape == shape
    parts = eg.CustomOp("parts", lambda v: [np.asarray(v), np.asarray(v) * 2.0])(x)
    assert len(parts) == 2 and parts[1].shape == shape


def test_custom_op_with_several_outputs():
    def vjp(inputs, outputs, cotangents):
        by_sum, by_product = cotangents
        a, b = inputs
        ga = by_product * b if by_sum is None else by_sum + by_product * b
        return ga, None

    op = eg.CustomOp("sum_and_product", lambda a, b: (a + b, a * b), vjp)
    a, b = normal((3,), 1), normal((3,), 2)
    with eg.Tape() as tape:
        total, product = op(a, b)
        y = product.sum()
    ga, gb = tape.gradient(y, [a, b])
    assert eg.same_bits(ga, b) and gb.tolist() == [0, 0, 0]
    assert op.name == "sum_and_product"


def test_custom_op_without_a_rule_and_with_a_bad_one():
    x = eg.ones(2)
    with eg.Tape() as tape:
        y = eg.CustomOp("opaque", lambda x: x * 2.0)(x).sum()
    with pytest.raises(eg.AutogradError, match="opaque has no gradient"):
        tape.gradient(y, x)
    with eg.Tape() as tape:
        y = eg.CustomOp("short", lambda x: x * 2.0, lambda i, o, g: [])(x).sum()
    with pytest.raises(eg.AutogradError, match="short gave 0 gradients for 1"):
        tape.gradient(y, x)
    with eg.Tape() as tape:
        y = eg.CustomOp("long", lambda x: x * 2.0, lambda i, o, g: [g[0], g[0], g[0]])(x).sum()
    with pytest.raises(eg.AutogradError, match="long gave 3 gradients for 1"):
        tape.gradient(y, x)
    with pytest.raises(TypeError, match="numbers: what forward gives must be a sequence of tensors, not int"):
        eg.CustomOp("numbers", lambda x: 3)(x)
    with pytest.raises(ZeroDivisionError):
        eg.CustomOp("raises", lambda x: 1 / 0)(x)


def test_a_tape_without_init_is_refused():
    with pytest.warns(RuntimeWarning, match="uninitialized"), pytest.raises(TypeError):
        eg.Tape.__new__(eg.Tape).__enter__()


def test_wrong_legs_are_refused_in_words():
    with pytest.raises(TypeError, match="a leg must be \\('in' or 'out'"):
        eg.Symmetry("rows", [("in", 0)])


def test_tapes_and_functions_are_let_go():
    class Rule:
        def __call__(self, inputs, outputs, cotangents):
            return cotangents

    rule = Rule()
    gone = weakref.ref(rule)
    op = eg.CustomOp("identity", lambda x: x * 1.0, rule)
    x = eg.ones(2)
    with eg.Tape() as tape:
        y = op(x).sum()
    del op, rule
    gc.collect()
    assert gone() is not None
    assert tape.gradient(y, x).tolist() == [1, 1]
    gc.collect()
    assert gone() is None  # a tape that is used up keeps nothing


class Payload:
    """Something that can be seen to go."""


def collected(make):
    """Whether the object that make() gives goes once nobody holds it but itself."""
    gone = weakref.ref(make())
    gc.collect()
    return gone() is None


class OwnOp(Payload):
    """The usual form: an operation of the object's own methods."""

    def __init__(self):
        self.op = eg.CustomOp("mine", self.forward, self.rule)

    def forward(self, x):
        return x * 2.0

    def rule(self, inputs, outputs, cotangents):
        return [cotangents[0] * 2.0]


def test_an_operation_of_its_own_methods_is_collected():
    def used():
        owner, x = OwnOp(), eg.ones(2)
        with eg.Tape() as tape:
            y = owner.op(x).sum()
        assert tape.gradient(y, x).tolist() == [2, 2]
        return owner

    def on_a_tape():  # which was never walked, and which it holds
        owner, x = OwnOp(), eg.ones(2)
        with eg.Tape() as owner.tape:
            owner.y = owner.op(x).sum()
        return owner

    def on_two_tapes():
        owner, x = OwnOp(), eg.ones(2)
        with eg.Tape() as owner.outer, eg.Tape() as owner.inner:
            owner.y = owner.op(x).sum()
        return owner

    assert collected(OwnOp) and collected(used) and collected(on_a_tape) and collected(on_two_tapes)


def test_tapes_that_lead_back_to_themselves_are_collected():
    def hooked():
        owner, x = Payload(), eg.ones(2)
        with eg.Tape() as owner.tape:
            owner.y = (x * 2.0).sum()
        owner.handle = owner.tape.on_gradient(x, lambda g, owner=owner: g)
        return owner

    def checkpointed():
        owner, x = Payload(), eg.ones(2)
        with eg.Tape() as owner.tape:
            owner.y = eg.checkpoint(lambda x, owner=owner: x * 2.0, x).sum()
        return owner

    def broken():
        owner, x = Payload(), eg.ones(2)
        with eg.Tape() as owner.tape:
            owner.y = (x * 2.0).sum()
        owner.tape.on_gradient(x, lambda g, owner=owner: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            owner.tape.gradient(owner.y, x)
        return owner

    def open_for_ever():
        owner = Payload()
        owner.tape = eg.Tape()
        owner.tape.__enter__()
        owner.y = eg.CustomOp("mine", lambda x, owner=owner: x * 2.0)(eg.ones(2))
        return owner

    def scope():
        net = type("Net", (eg.nn.Module,), {})()
        net.scope = eg.nn.ParameterScope(net, [])
        return net

    for make in (hooked, checkpointed, broken, open_for_ever, scope):
        assert collected(make), make.__name__
    assert not eg.recording()


def test_what_a_tape_needs_stays_until_it_is_walked():
    """Functions of operations and checkpoints that nobody else holds, through collections."""
    x, seen = eg.tensor([1.0, 2.0]), []

    def rule(inputs, outputs, cotangents):
        gc.collect()
        return [cotangents[0] * 3.0]

    def triple(x):
        return eg.CustomOp("triple", lambda x: x * 3.0, rule)(x)

    with eg.Tape() as tape:
        y = eg.checkpoint(lambda x: triple(triple(x)), triple(x)).sum()
    tape.on_gradient(x, lambda g: seen.append(gc.collect()))
    gc.collect()
    assert tape.gradient(y, x, retain=True).tolist() == tape.gradient(y, x).tolist() == [27, 27]
    assert len(seen) == 2
    assert eg.grad(lambda x: eg.checkpoint(triple, x).sum())(x).tolist() == [3, 3]
    assert eg.hvp(lambda x: (triple(x) * triple(x)).sum(), x, x).products.tolist() == [18, 36]
    assert eg.per_sample_gradients(lambda b: triple(b * x).sum(), [x], [eg.ones((3, 2))])[0].tolist() == [[3, 3]] * 3
    with eg.Tape() as outer:
        with eg.Tape() as inner:
            z = (triple(x) * triple(x)).sum()
        slope = inner.gradient(z, x)
        total = slope.sum()
    del inner
    gc.collect()
    assert outer.gradient(total, x).tolist() == [18, 18]


def test_tapes_and_operations_say_how_to_copy_them():
    for value, words in ((eg.Tape(), "keep the gradients"), (eg.CustomOp("mine", lambda x: x), "from its functions")):
        for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match=f"cannot be copied or pickled; .*{words}"):
                attempt(value)


def test_anomaly_mode_names_the_operation():
    x = eg.tensor([1.0, 0.0])
    with pytest.raises(eg.NumericError, match="log"):
        with eg.detect_anomaly():
            eg.ops.log(x)


def test_exact_mode_is_bit_for_bit():
    x = normal((64, 33), 1, "f32")
    p = eg.random.nonidentity_permutation(33, key=2)
    moved = eg.ops.permute_columns(x, p)
    with eg.exact():
        assert eg.same_bits(x.sum([1]), moved.sum([1]))


def test_functions_whose_value_no_tape_sees_are_refused():
    x, y = eg.tensor([1.0, 2.0]), eg.tensor([3.0, 4.0])
    for f in (
        lambda a: eg.zeros(()),
        lambda a: eg.tensor(float((a * a).sum())),
        lambda a: (a * a).sum().detach(),
        lambda a: eg.tensor(np.square(a.numpy()).sum()),
    ):
        for derivative in (eg.grad(f), eg.value_and_grad(f), lambda a: eg.jacobian(f, a)):
            with pytest.raises(eg.AutogradError, match="(grad|jacobian): the function's value was not computed from its arguments"):
                derivative(x)
    assert [g.tolist() for g in eg.grad(lambda a, b: (a * a).sum())(x, y)] == [[2, 4], [0, 0]]  # one of two is ignored
    assert eg.grad(lambda a: a)(eg.ones(())).item() == 1
    assert eg.jacobian(lambda a: (a, eg.ones(2)), x)[1].tolist() == [[0, 0], [0, 0]]
    assert eg.grad(lambda a: eg.grad(lambda b: (3.0 * b).sum())(a).sum())(x).tolist() == [0, 0]


def test_gradient_views_have_the_values_of_gradients() -> None:
    a, b = eg.tensor(np.arange(6.0).reshape(2, 3)), eg.tensor(np.ones((2, 3)))
    with eg.Tape() as tape:
        y = (a * 3.0).sum() + b.sum()
    own, read = tape.gradient(y, [a, b], retain=True), tape.gradient_views(y, [a, b])
    for packed, view in zip(own, read):
        assert np.array_equal(packed.numpy(), view.numpy()) and view.tolist() == packed.tolist()
    assert not read[1].is_contiguous() and read[1].clone().is_contiguous()
    with eg.Tape() as tape:
        y = a * b
    one = tape.gradient_views(y, a, eg.tensor(np.full((2, 3), 2.0)))
    assert one.tolist() == [[2.0] * 3] * 2
    with pytest.raises(eg.AutogradError, match="used"):
        tape.gradient_views(y, a, eg.tensor(np.ones((2, 3))))
