"""equigrad.ops: every row is there, with the row's names, types and words."""

import inspect
import pickle
import pydoc

import equigrad as eg
import numpy as np
import pytest
from equigrad import _core

NAMES = eg.ops.__all__


def test_every_row_is_a_function():
    assert len(NAMES) > 190 and len(set(NAMES)) == len(NAMES)
    for name in NAMES:
        function = getattr(eg.ops, name)
        assert function.__name__ == name and function.__module__ == "equigrad.ops"
        assert function is getattr(eg.ops, name)
    assert set(NAMES) <= set(dir(eg.ops))


@pytest.mark.parametrize("name", NAMES)
def test_signature_and_documentation(name):
    row, function = _core.find_op(name), getattr(eg.ops, name)
    parameters = inspect.signature(function).parameters
    assert list(parameters) == [i for i, _ in row.inputs] + [a for a, *_ in row.attributes]
    for attribute, _, required, default, _ in row.attributes:
        found = parameters[attribute].default
        assert found is inspect.Parameter.empty if required else found == default
    for given, optional in row.inputs:
        assert parameters[given].default is (None if optional else inspect.Parameter.empty)
    assert row.math in function.__doc__ and "Shapes, for example:" in function.__doc__
    assert name in pydoc.render_doc(function)
    assert pickle.loads(pickle.dumps(function)) is function


@pytest.mark.parametrize("name", NAMES)
def test_samples_by_position_and_by_name(name):
    """The function, by position and by name, and the row give the same bits."""
    row, function = _core.find_op(name), getattr(eg.ops, name)
    for sample in eg.testing.samples(name, "f32"):
        everything = eg.testing.call(name, sample.inputs, sample.attributes)
        expected = everything[: len(everything) - row.auxiliary]
        given = [sample.inputs] if row.variadic else sample.inputs
        by_name = dict(zip((i for i, _ in row.inputs), given))
        for result in (function(*given, **sample.attributes), function(**by_name, **sample.attributes)):
            for a, b in zip(tensors(result), expected, strict=True):
                assert a is b is None or eg.same_bits(a, b)


def tensors(result):
    return [result] if isinstance(result, eg.Tensor) else list(result)


@pytest.mark.parametrize("name", NAMES)
def test_samples_agree_with_plain_loops(name):
    for sample in eg.testing.samples(name, "f64"):
        inputs = [x if x is None else x.contiguous() for x in sample.inputs]
        found = tensors(eg.testing.call(name, inputs, sample.attributes))
        expected = eg.testing.reference(name, inputs, **sample.attributes)
        for a, b in zip(found, expected, strict=True):
            if a is not None and b is not None and a.dtype != "bf16":
                wanted = b.numpy().astype(a.numpy().dtype)
                np.testing.assert_allclose(a.numpy(), wanted, rtol=1e-9, atol=1e-12 * (1 + np.abs(wanted).max(initial=0)))


@pytest.mark.parametrize("name", NAMES)
def test_refusals_have_the_rows_words(name):
    """Bad calls are refused with the same words as in C++: as ValueError, IndexError or TypeError."""
    refusals = eg.testing.refusals(name)
    assert refusals
    row = _core.find_op(name)
    lists = {attribute for attribute, kind, *_ in row.attributes if kind.startswith("Sequence")}
    for inputs, attributes, words in refusals:
        if any(isinstance(attributes.get(attribute), (int, float)) for attribute in lists):
            continue  # here one number is a list of one
        with pytest.raises((ValueError, IndexError, TypeError)) as caught:
            eg.testing.call(name, inputs, attributes)
        forgotten = [attribute for attribute, _, needed, *_ in row.attributes if needed and attribute not in attributes]
        if not forgotten and "must be given" not in words:
            assert words in str(caught.value)


def test_unknown_arguments_name_the_op_and_the_nearest():
    x = eg.ones((2, 3))
    with pytest.raises(TypeError, match="softmax: there is no attribute 'axs'; did you mean axis\\?"):
        eg.ops.softmax(x, axs=1)
    with pytest.raises(TypeError, match="softmax: there is no attribute 'colour'; it takes x, axis"):
        eg.ops.softmax(x, colour=1)
    with pytest.raises(TypeError, match="softmax: attribute 'axis' must be an integer, not str"):
        eg.ops.softmax(x, axis="last")
    with pytest.raises(TypeError, match="softmax: attribute 'axis' must be an integer, not float"):
        eg.ops.softmax(x, axis=1.0)
    with pytest.raises(TypeError, match="softmax: attribute 'axis' must be an integer, not bool"):
        eg.ops.softmax(x, axis=True)
    with pytest.raises(TypeError, match="sum: attribute 'keepdim' must be true or false, not int"):
        eg.ops.sum(x, keepdim=1)
    with pytest.raises(TypeError, match="sum: attribute 'axes' must be a list of integers, not list"):
        eg.ops.sum(x, axes=[0.5])
    with pytest.raises(TypeError, match="softmax: 'x' must be given"):
        eg.ops.softmax()
    with pytest.raises(TypeError, match="reshape: 'shape' must be given"):
        eg.ops.reshape(x)
    with pytest.raises(TypeError, match="softmax: 'axis' was given twice"):
        eg.ops.softmax(x, 1, axis=1)
    with pytest.raises(TypeError, match="softmax: 3 arguments were given, it takes at most 2"):
        eg.ops.softmax(x, 1, 2)
    with pytest.raises(TypeError, match="softmax: input 'x' must be a Tensor or an array, not str"):
        eg.ops.softmax("x")
    with pytest.raises(TypeError, match="concat: 'xs' must be a sequence of tensors"):
        eg.ops.concat(3)
    with pytest.raises(AttributeError, match="there is no op 'softmx'; did you mean 'softmax'"):
        eg.ops.softmx


def test_optional_inputs_and_positions():
    x, w, b = eg.ones((2, 3)), eg.ones((4, 3)), eg.ones(4)
    assert eg.ops.linear(x, w).tolist() == eg.ops.linear(x, w, None, None).tolist() == [[3] * 4] * 2
    assert eg.ops.linear(x, w, bias=b).tolist() == eg.ops.linear(x, w, b).tolist() == [[4] * 4] * 2
    assert eg.ops.reshape(x, (3, 2)).shape == eg.ops.reshape(x, shape=[3, -1]).shape == (3, 2)
    assert eg.ops.sum(x, 0).tolist() == eg.ops.sum(x, axes=[0]).tolist() == [2, 2, 2]
    assert eg.ops.sum(x, np.int64(0)).tolist() == [2, 2, 2]


def test_results_with_names():
    result = eg.ops.topk(eg.tensor([1.0, 3.0, 2.0]), k=2)
    assert result._fields == ("values", "indices") and type(result).__name__ == "TopkResult"
    values, indices = result
    assert values.tolist() == [3, 2] and result.indices.tolist() == [1, 2]
    pieces = eg.ops.split(eg.arange(5), sizes=[2])
    assert [piece.tolist() for piece in pieces] == [[0, 1], [2, 3], [4]]


def test_arrays_and_numbers_as_inputs():
    x = eg.tensor([1.0, -2.0])
    assert eg.ops.maximum(x, 0.0).tolist() == eg.ops.maximum(0.0, x).tolist() == [1, 0]
    assert eg.ops.eq(eg.arange(3), 1).tolist() == [False, True, False]
    assert eg.ops.add(np.ones(2), np.ones(2)).tolist() == [2, 2]
    with pytest.raises(eg.ValueError, match="is not a value of i64"):
        eg.ops.eq(eg.arange(3), 1.5)
    with pytest.raises(TypeError, match="there are only numbers"):
        eg.ops.add(1.0, 2.0)


class Derived(eg.nn.Linear):
    """A class of the user's own."""


def test_arguments_that_do_not_fit_are_refused_in_one_line():
    x = eg.ones(2)
    for bad, words in [
        (lambda: x.clone(1), "Tensor.clone: it takes (), and was given (int)"),
        (lambda: x.copy_from(3), "Tensor.copy_from: it takes (source: Tensor), and was given (int)"),
        (lambda: eg.same_bits(x, 3), "same_bits: it takes (a: Tensor, b: Tensor), and was given (Tensor, int)"),
        (lambda: eg.set_threads("x"), "set_threads: it takes (count: int), and was given (str)"),
        (lambda: eg.nn.Linear(2), "Linear: it takes (in_features: int, out_features: int, "),
        (lambda: eg.nn.Linear("a", 3, key=1), ", and was given (str, int, kwargs = { key: int })"),
        (lambda: eg.nn.Linear(2, 3, key=1)("x"), "Linear.__call__: it takes (x: Tensor, "),
        (lambda: eg.data.Loader(3), "Loader: it takes (dataset: data.ImageDataset, "),
        (lambda: eg.Tape().gradient(), ", and was given ()"),
        (lambda: eg.Tensor.clone(3), "clone: it takes (self), and was given (int)"),
        (lambda: eg.Tensor.copy_from("a", x), "copy_from: it takes (self, source: Tensor), and was given (str, Tensor)"),
        (lambda: eg.Tensor.clone(np.ones(2)), "clone: it takes (self), and was given (ndarray)"),
        (lambda: eg.nn.Linear.train(x), "train: it takes (self, on: bool = True), and was given (Tensor)"),
        (lambda: Derived(2, 3, key=1)("x"), "Derived.__call__: it takes (x: Tensor, "),
        (lambda: Derived(2, 3, key=1).train("x"), "Derived.train: it takes (on: bool = True), and was given (str)"),
    ]:
        with pytest.raises(TypeError) as refusal:
            bad()
        assert words in str(refusal.value) and "\n" not in str(refusal.value)


def test_keys_spread_into_seed_and_stream():
    x, key = eg.ones(1000), eg.random.Key(2**64 - 1, 2**63)
    first = eg.ops.dropout(x, p=0.5, **key)
    assert eg.same_bits(first, eg.ops.dropout(x, p=0.5, seed=key.seed, stream=key.stream))
    with pytest.raises(ValueError, match="dropout: attribute 'seed': 18446744073709551616 is beyond integers of 64 bits"):
        eg.ops.dropout(x, p=0.5, seed=2**64)
    assert 300 < (first == 0.0).to("f32").sum().item() < 700


def test_errors_are_pythons_too():
    x = eg.ones((2, 3))
    for error, builtin, bad in [
        (eg.ShapeError, ValueError, lambda: x + eg.ones((2, 2))),
        (eg.DTypeError, TypeError, lambda: x + eg.ones((2, 3), "f64")),
        (eg.IndexError, IndexError, lambda: eg.ops.softmax(x, axis=5)),
        (eg.ValueError, ValueError, lambda: eg.ops.cross_entropy(x, eg.arange(2), reduction="most")),
        (eg.MemoryError, MemoryError, lambda: eg.zeros(1 << 50)),
        (eg.FileError, OSError, lambda: eg.data.load_safetensors("/nowhere/x.safetensors")),
        (eg.AutogradError, RuntimeError, lambda: eg.Tape().gradient(x, x)),
    ]:
        for expected in (error, builtin, eg.Error):
            with pytest.raises(expected):
                bad()
    assert issubclass(eg.NumericError, ArithmeticError) and issubclass(eg.Interrupted, KeyboardInterrupt)
    with pytest.raises(ValueError, match=r"add: .*\[2, 3\].*\[2, 2\]"):
        x + eg.ones((2, 2))
