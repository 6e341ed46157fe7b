"""The gradient of every operation, through the module: differences against the tape, in float64."""

import equigrad as eg
import pytest
from equigrad import _core

DIFFERENTIABLE = [name for name in eg.ops.__all__ if _core.find_op(name).has_gradient]


def outputs(name, attributes):
    """The op as a function of its inputs; outputs that a call leaves out are left out."""

    return lambda *inputs: [y for y in eg.testing.call(name, inputs, attributes) if y is not None]


def differentiable(sample):
    """Some input is floating and no output depends on a tie or a draw that differences would step over."""
    return any(x is not None and x.dtype == "f64" and x.size > 0 for x in sample.inputs)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradient(name):
    checked = 0
    for sample in eg.testing.samples(name):
        if not differentiable(sample):
            continue
        result = eg.gradcheck(outputs(name, sample.attributes), sample.inputs, raise_exception=False)
        assert result, f"{name} [{sample.note}]: {result.detail}"
        checked += 1
    assert checked > 0


def test_some_rows_have_gradients_and_some_have_none():
    assert 120 < len(DIFFERENTIABLE) < len(eg.ops.__all__)


@pytest.mark.parametrize("name", ["softmax", "linear_gelu", "layer_norm", "scaled_dot_product_attention", "conv2d"])
def test_second_derivative(name):
    for sample in eg.testing.samples(name):
        if differentiable(sample):
            assert eg.gradcheck(outputs(name, sample.attributes), sample.inputs, second=True, directions=1)


def test_a_wrong_rule_is_caught():
    """The check can fail: 2 x where the derivative of x^3 is 3 x^2."""
    wrong = eg.CustomOp("cube", lambda x: x * x * x, lambda inputs, outputs, grads: grads[0] * inputs[0] * 2.0)
    right = eg.CustomOp("cube", lambda x: x * x * x, lambda inputs, outputs, grads: grads[0] * inputs[0] * inputs[0] * 3.0)
    x = eg.random.normal((5,), key=1, dtype="f64")
    with pytest.raises(eg.AutogradError, match="gradcheck: the gradient is wrong: direction .*differences give"):
        eg.gradcheck(wrong, [x])
    assert not eg.gradcheck(wrong, [x], raise_exception=False)
    assert eg.gradcheck(right, [x]) and eg.gradcheck(right, [x], second=True)


@pytest.mark.parametrize("name", ["softmax", "matmul", "layer_norm", "embedding", "scaled_dot_product_attention"])
def test_symmetries(name):
    checked = 0
    for sample in eg.testing.samples(name):
        for symmetry in eg.testing.symmetries(name, sample.inputs, **sample.attributes):
            side, which, axis = symmetry.legs[0]
            if side == "in" and sample.inputs[which].shape[axis] < 2:
                continue  # one element has no other order
            result = eg.symmetry_check(outputs(name, sample.attributes), sample.inputs, symmetry, raise_exception=False)
            assert result, f"{name} [{sample.note}] {symmetry}: {result.detail}"
            checked += 1
    assert checked > 0


def test_a_false_symmetry_is_caught():
    along_the_axis = eg.Symmetry("columns stay", [("in", 0, -1)])
    x = eg.random.normal((3, 4), key=1, dtype="f64")
    with pytest.raises(eg.AutogradError, match="symmetry_check: the function does not have this symmetry: "):
        eg.symmetry_check(eg.ops.softmax, [x], along_the_axis)
    assert not eg.symmetry_check(eg.ops.softmax, [x], along_the_axis, raise_exception=False)
    assert eg.symmetry_check(eg.ops.softmax, [x], eg.Symmetry("columns", [("in", 0, -1), ("out", 0, -1)]))
