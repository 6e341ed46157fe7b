"""What a Tensor is: facts, views, indexing, operators, values."""

import copy
import operator
import pickle

import equigrad as eg
import numpy as np
import pytest


def test_facts():
    x = eg.zeros((2, 3, 4), "f64")
    assert x.shape == (2, 3, 4) and x.strides == (12, 4, 1) and x.dtype == "f64"
    assert (x.ndim, x.size, x.nbytes, len(x)) == (3, 24, 192, 2)
    assert x.is_contiguous() and not x.transpose(0, 1).is_contiguous()
    assert x.T.shape == (2, 4, 3) and x.permute(2, 0, 1).shape == (4, 2, 3)
    assert x.reshape(6, -1).shape == x.reshape([6, -1]).shape == (6, 4)
    with pytest.raises(TypeError, match="has no length"):
        len(eg.full((), 1.0))


def test_repr_is_the_librarys():
    assert repr(eg.tensor([[1.0, 2.5], [3.0, 4.0]])) == "[[1.0000, 2.5000],\n [3.0000, 4.0000]]\nf32 [2, 2]"
    assert f"{eg.full((), 2.0 / 3.0):.3f}" == "0.667"
    assert f"{eg.ones(2)}" == repr(eg.ones(2))


@pytest.mark.parametrize("dtype, value", [("f32", 1.5), ("f64", 1.5), ("i64", 2**62 + 1), ("u8", 255), ("bool", True)])
def test_item_is_exact(dtype, value):
    numpy_dtype = {"f32": "float32", "f64": "float64", "i64": "int64", "u8": "uint8", "bool": "bool"}[dtype]
    x = eg.tensor(np.array(value, numpy_dtype))
    assert x.dtype == dtype
    assert x.item() == value and type(x.item()) is type(value)
    assert x.tolist() == value
    assert int(x) == int(value) and bool(x) is True


def test_item_wants_one_element():
    with pytest.raises(eg.ShapeError, match="not one"):
        eg.ones(2).item()
    with pytest.raises(ValueError, match="neither true nor false"):
        bool(eg.ones(2) == eg.ones(2))


INDICES = [
    0,
    -1,
    (1, 2),
    (slice(None), -2),
    (slice(1, 3),),
    (slice(None, None, 2), slice(-3, None)),
    (slice(None, None, -1),),
    (slice(3, 0, -2), Ellipsis, slice(None, None, -3)),
    (slice(5, 2),),
    (slice(2, 2, -1),),
    (slice(-100, 100),),
    Ellipsis,
    (Ellipsis, 0),
    (0, Ellipsis, None),
    (None, slice(None), None, 1),
    (slice(None), None, Ellipsis),
    [0, 3, 1],
    (slice(None), [0, -1, 2, 2]),
    (1, [[0, 1], [2, -3]]),
    (Ellipsis, np.array([4, 0])),
    (None, [0, 2], slice(1, 4), -1),
    (),
    None,
    (slice(2**64 - 1, None),),
]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_indexing_is_numpys(index):
    array = np.arange(4 * 5 * 6, dtype="float32").reshape(4, 5, 6)
    expected = array[index]
    if index == (None, [0, 2], slice(1, 4), -1):  # NumPy moves the axis of a list to the front when a number stands apart
        expected = array[[0, 2], 1:4][..., -1][None]
    found = eg.tensor(array)[index]
    assert found.shape == expected.shape
    assert np.array_equal(found.numpy(), expected)


def test_indexing_views_share_memory():
    x = eg.zeros((4, 5))
    assert x[1:3, ::2].data_ptr == x.data_ptr + 5 * 4
    x[1:3, ::2] = 7.0
    x[0] = eg.tensor([1.0, 2, 3, 4, 5])
    x[3, 1:] = np.array([1, 2, 3, 4])  # converted to f32
    expected = np.zeros((4, 5))
    expected[1:3, ::2], expected[0], expected[3, 1:] = 7, [1, 2, 3, 4, 5], [1, 2, 3, 4]
    assert np.array_equal(x.numpy(), expected)


def test_indexing_reaches_gradients():
    x = eg.tensor(np.arange(12.0).reshape(3, 4))
    with eg.Tape() as tape:
        y = (x[1:, ::-1][0] * eg.tensor(np.array([1.0, 2, 3, 4]))).sum()
    expected = np.zeros((3, 4))
    expected[1] = [4, 3, 2, 1]
    assert np.array_equal(tape.gradient(y, x).numpy(), expected)


@pytest.mark.parametrize(
    "index, error, words",
    [
        (4, IndexError, "outside"),
        ((0, 0, 0, 0), IndexError, "4 axes are named"),
        ((Ellipsis, Ellipsis), IndexError, "only one Ellipsis"),
        (1.5, TypeError, "positions"),
        (True, TypeError, "give integers"),
        ("x", TypeError, "give integers"),
        (([0], [1], [2], [3]), IndexError, "4 axes are named"),
        (([0, 1], [1, 2, 3]), eg.ShapeError, "index"),
        ([True, False, True], IndexError, "a mask of"),
        ([7], IndexError, "7"),
        (2**64 - 1, IndexError, str(2**64 - 1)),  # NumPy's words are other ones; it must not be the last row
        ((0, -(2**63) - 1), IndexError, str(-(2**63) - 1)),
        (2**10000, IndexError, "10001 bits"),
    ],
)
def test_indexing_refuses(index, error, words):
    with pytest.raises(error, match=words):
        eg.zeros((4, 5, 6))[index]


def test_whole_numbers_beyond_64_bits_do_not_wrap():
    x, big = eg.zeros((4, 3)), 2**64 - 1
    with pytest.raises(IndexError, match=str(big)):
        x[big] = 7.0
    assert not x.numpy().any()
    x[None, 1] = 2.0
    assert x.tolist()[1] == [2] * 3
    for wrong in (
        lambda: eg.ops.sum(x, axes=big),
        lambda: eg.ops.sum(x, axes=[0, big]),
        lambda: eg.ops.softmax(x, axis=big),
        lambda: x.reshape(big),
        lambda: x.expand(big, 4, 3),
        lambda: x.sum(axes=big),
        lambda: eg.zeros(2**63),
        lambda: eg.permute.Permutation([0, 2**63]),
    ):
        with pytest.raises(eg.ValueError, match="beyond integers of 64 bits"):
            wrong()
    for value in (2**63, 2**64 - 1, 2**70, -(2**70)):
        assert (eg.ones(2, "f64") * value).tolist() == [float(value)] * 2
        assert eg.ops.add(eg.zeros(2, "f64"), value).tolist() == [float(value)] * 2


def test_whole_elements_are_not_rounded():
    x = eg.zeros(3, "i64")
    x[1:] = 2**53 + 1
    assert x.tolist() == [0, 2**53 + 1, 2**53 + 1]
    assert eg.full((1, 2), -(2**62) - 1, "i64").tolist() == [[-(2**62) - 1] * 2]
    with pytest.raises(eg.ValueError, match="beyond integers of 64 bits"):
        x[0] = 2**63
    with pytest.raises(TypeError, match="full: value must be a number, not str"):
        eg.full(2, "one")


def test_tensors_without_init_are_refused():
    for use in (eg.ops.sum, eg.tensor, lambda x: eg.ones(2) + x, lambda x: eg.ops.concat([x]), lambda x: x.numpy()):
        with pytest.raises(TypeError, match="__init__ was called"):
            use(eg.Tensor.__new__(eg.Tensor))


def test_writing_under_a_tape_is_refused():
    x = eg.ones(3)
    with eg.Tape():
        with pytest.raises(eg.AutogradError, match="would not hear"):
            x[0] = 2.0
        with eg.pause():
            x[0] = 2.0
    assert x.tolist() == [2, 1, 1]


BINARY = [operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.mod]
COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]


@pytest.mark.parametrize("op", BINARY + COMPARISONS, ids=lambda op: op.__name__)
def test_operators(op, rng):
    a, b = rng.uniform(0.5, 2, (3, 1, 4)), rng.uniform(0.5, 2, (2, 4))
    x, y = eg.tensor(a), eg.tensor(b)
    pairs = [(x, y, op(a, b)), (x, 1.5, op(a, 1.5)), (1.5, x, op(1.5, a)), (x, b, op(a, b)), (a, y, op(a, b))]
    pairs += [(x, 2, op(a, 2)), (2, x, op(2, a)), (x, np.float64(0.7), op(a, 0.7)), (np.float32(0.75), x, op(0.75, a))]
    for left, right, expected in pairs:
        found = op(left, right)
        assert type(found) is eg.Tensor, (type(left), type(right))
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-14)


def test_matmul_and_logic(rng):
    a, b = rng.normal(size=(2, 3, 4)), rng.normal(size=(4, 5))
    np.testing.assert_allclose((eg.tensor(a) @ eg.tensor(b)).numpy(), a @ b, rtol=1e-13)
    np.testing.assert_allclose((eg.tensor(a) @ b).numpy(), a @ b, rtol=1e-13)
    np.testing.assert_allclose((a @ eg.tensor(b)).numpy(), a @ b, rtol=1e-13)
    p, q = rng.random(7) < 0.5, rng.random(7) < 0.5
    x, y = eg.tensor(p), eg.tensor(q)
    for found, expected in [(x & y, p & q), (x | y, p | q), (x ^ y, p ^ q), (~x, ~p)]:
        assert np.array_equal(found.numpy(), expected)
    assert np.array_equal((-eg.tensor(a)).numpy(), -a) and np.array_equal(abs(eg.tensor(a)).numpy(), abs(a))


def test_operators_leave_strangers_alone():
    x = eg.ones(2)
    assert (x == None) is False and (x != None) is True  # noqa: E711
    assert (x == "x") is False
    with pytest.raises(TypeError):
        x + "x"
    with pytest.raises(TypeError):
        x + True
    with pytest.raises(eg.ShapeError):
        x @ 2.0


def test_values_are_hashed_by_identity():
    x = eg.ones(2)
    assert {x: 1}[x] == 1 and hash(x) != hash(x.detach())


def test_iteration():
    assert [row.tolist() for row in eg.tensor([[1.0, 2], [3, 4]])] == [[1, 2], [3, 4]]
    with pytest.raises(TypeError):
        iter(eg.full((), 1.0))


def test_t_of_a_vector_is_the_vector():
    assert eg.tensor([1.0, 2.0]).T.tolist() == [1, 2] and eg.tensor(3.0).T.item() == 3


def test_conversion_and_copies():
    x = eg.tensor([[1.0, 2.0]])
    assert x.to("f64").dtype == "f64" and x.to("f32").data_ptr == x.data_ptr
    assert x.to("bf16").to("f32").tolist() == [[1, 2]] and x.to("bf16").tolist() == [[1, 2]]
    assert x.clone().data_ptr != x.data_ptr == x.detach().data_ptr == copy.copy(x).data_ptr
    assert copy.deepcopy(x).data_ptr != x.data_ptr
    x.copy_from(eg.tensor([[5.0, 6.0]]))
    x[0, 0].fill(9.0)
    assert x.tolist() == [[9, 6]]
    with pytest.raises(ValueError, match="no|unknown|named"):
        x.to("f16")
    with pytest.raises(TypeError):
        x.to(None)
    with pytest.raises(TypeError, match="give a name"):
        x.to(1)


@pytest.mark.parametrize("dtype", ["f32", "f64", "i64", "u8", "bool", "bf16"])
def test_pickling(dtype):
    x = eg.tensor([[0.0, 1.0, 1.0], [1.0, 0.0, 1.0]]).to(dtype).T
    y = pickle.loads(pickle.dumps(x))
    assert y.dtype == dtype and eg.same_bits(x, y)
    assert copy.deepcopy({"a": [x]})["a"][0].tolist() == x.tolist()


def test_pickling_refuses_what_cannot_come_back():
    model = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 4, "n_embd": 4, "n_layer": 1,
             "n_head": 1, "n_positions": 4}
    for value, words in (
        (eg.optim.SGD([eg.ones(2)]), r"state_dict\(\)"),
        (eg.permute.SecretKey.generate(), r"save\(path\)"),
        (eg.hub.make_model(model, key=1), r"save\(folder\)"),
    ):
        for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match=f"cannot be copied or pickled; .*{words}"):
                attempt(value)
    assert pickle.loads(pickle.dumps(eg.random.Key(3, 4))) == eg.random.Key(3, 4)
    p = eg.permute.Permutation([2, 0, 1])
    assert pickle.loads(pickle.dumps(p)) == p


def test_makers():
    assert eg.arange(4).tolist() == [0, 1, 2, 3] and eg.arange(1, 2, 0.5, "f64").tolist() == [1, 1.5]
    assert eg.eye(2).tolist() == [[1, 0], [0, 1]] and eg.linspace(0, 1, 3).tolist() == [0, 0.5, 1]
    assert eg.full((2,), 3, "i64").tolist() == [3, 3] and eg.ones([]).item() == 1
    assert eg.random.uniform((3,), key=1).tolist() == eg.random.uniform((3,), key=eg.random.Key(1)).tolist()
    assert sorted(eg.random.permutation(5, key=1).tolist()) == [0, 1, 2, 3, 4]


def test_numbers_and_lists():
    assert eg.tensor(2).dtype == "i64" and eg.tensor(2.0).dtype == "f32" and eg.tensor(True).dtype == "bool"
    assert eg.tensor([[1, 2], [3, 4]]).shape == (2, 2)
    assert eg.tensor([1.0, 2.0], dtype="f64").dtype == "f64"
    column = type("Column", (), {"__array__": lambda self, *a, **k: np.array([1.0, 2.0])})()
    assert eg.tensor(column).dtype == "f64"
    with pytest.raises(TypeError):
        eg.tensor("text")
    with pytest.raises((TypeError, ValueError)):
        eg.tensor([[1.0], [1.0, 2.0]])
