"""Python's numbers beside tensors: which type they take, and that no digit is lost in silence."""

import copy
import pickle

import equigrad as eg
import numpy as np
import pytest

O = eg.ops
BIG = 2**53 + 1  # a double rounds it


def test_numbers_in_where_take_the_type_of_the_other_value():
    x = eg.tensor(np.array([1.5, -2.0]))
    y = O.where(x > 0, x, 0.0)
    assert y.dtype == "f64" and y.tolist() == [1.5, 0]
    assert O.where(x > 0, 0.0, x).tolist() == [0, -2]
    of_numbers = O.where(x > 0, 1.5, 0)
    assert of_numbers.dtype == "f32" and of_numbers.tolist() == [1.5, 0]
    whole = O.where(x > 0, BIG, 0)
    assert whole.dtype == "i64" and whole.tolist() == [BIG, 0]
    assert O.where(x > 0, eg.tensor([True, True]), 0).tolist() == [True, False]
    with pytest.raises(eg.ValueError, match="where: 1.5 is not a value of i64"):
        O.where(x > 0, eg.arange(2), 1.5)


def test_numpy_numbers_in_where_take_the_type_of_the_other_value():
    cond = eg.tensor([True, False])
    for dtype in ("f32", "f64", "u8", "i64", "bf16"):
        for number in (np.int64(3), np.uint8(3), np.int32(3), np.float32(3), np.float16(3), np.float64(3)):
            x = eg.zeros(2, dtype)
            y = O.where(cond, number, x)
            assert y.dtype == dtype and y.tolist() == [3, 0] and O.where(cond, x, number).tolist() == [0, 3]
            assert O.eq(y, number).tolist() == [True, False]
    assert O.where(cond, np.int64(BIG), np.int64(0)).tolist() == [BIG, 0]
    assert O.where(cond, np.float32(1.5), 0).dtype == "f32"
    with pytest.raises(eg.ValueError, match="where: 256 is not a value of u8"):
        O.where(cond, eg.zeros(2, "u8"), np.int64(256))
    # Where there is no tensor they have a type of their own, and as positions they are whole numbers.
    assert O.add(np.float32(1), 2.0).dtype == "f32" and O.embedding(eg.ones((3, 2)), np.int64(1)).tolist() == [1, 1]


def test_true_and_false_in_where():
    cond = eg.tensor([True, False])
    for yes, no in [(True, False), (np.bool_(True), np.bool_(False)), (cond, False), (True, cond), (True, np.bool_(False))]:
        y = O.where(cond, yes, no)
        assert y.dtype == "bool" and y.tolist() == [True, False]
    assert O.logical_or(cond, True).tolist() == [True, True] and O.sum(eg.ones(2), keepdim=np.bool_(True)).shape == (1,)
    for other in (eg.ones(2), eg.arange(2), 1.0, 0):
        with pytest.raises(TypeError, match="where: input 'b' must be a number, not bool: the other value is no bool"):
            O.where(cond, other, True)


def test_whole_numbers_are_compared_exactly():
    i = eg.tensor([BIG, BIG - 1])
    assert (i == BIG).tolist() == [True, False] and (i != BIG).tolist() == [False, True]
    assert (i < BIG).tolist() == [False, True] and (i >= BIG).tolist() == [True, False]
    assert (i <= BIG - 1).tolist() == [False, True] and (i > BIG - 1).tolist() == [True, False]
    assert (BIG == i).tolist() == [True, False] and (i == np.int64(BIG)).tolist() == [True, False]
    assert O.eq(i, BIG).tolist() == [True, False] and O.eq(BIG, i).tolist() == [True, False]
    assert (i == 2**64).tolist() == [False, False] and (i < 2**64).tolist() == [True, True]
    assert (i > -(2**70)).tolist() == [True, True]
    with pytest.raises(eg.ValueError, match="eq: 18446744073709551616 is beyond integers of 64 bits"):
        O.eq(i, 2**64)


def test_whole_numbers_are_written_exactly():
    i = eg.tensor([BIG, 1])
    assert O.masked_fill(i, i > 1, BIG + 1).tolist() == [BIG + 1, 1]
    assert O.pad(i, 0, 1, 0, BIG).tolist() == [BIG, BIG, 1]
    assert eg.arange(BIG, BIG + 3).tolist() == [BIG, BIG + 1, BIG + 2]
    assert eg.full((2,), BIG, "i64").tolist() == [BIG] * 2
    i.fill(BIG)
    assert i.tolist() == [BIG] * 2
    i[0] = BIG + 1
    assert i.tolist() == [BIG + 1, BIG]
    with eg.Tape():
        i.fill(BIG + 1)  # a constant, as fill() of other types
    assert i.tolist() == [BIG + 1] * 2
    with pytest.raises(TypeError, match="fill: value must be a number, not str"):
        i.fill("x")
    with pytest.raises(eg.ValueError, match="is beyond integers of 64 bits"):
        i.fill(2**64)


def test_comparisons_with_numbers_that_the_type_lacks():
    k, u = eg.tensor([1, 2]), eg.tensor(np.array([0, 255], "uint8"))
    assert (k < 1.5).tolist() == [True, False] and (k == 1.5).tolist() == [False, False]
    assert (u == 256).tolist() == [False, False] and (u > -1).tolist() == [True, True]
    assert (eg.ones(1, "bf16") == 1.001).tolist() == [True]  # rounded to bf16, as to f32 beside f32
    assert (k != float("nan")).tolist() == [True, True] and (k < float("inf")).tolist() == [True, True]


def test_arange_of_floats_and_of_integers():
    x = eg.arange(0, 1, 0.1)
    assert x.dtype == "f32" and len(x) == 10 and x[3].item() == pytest.approx(0.3)
    assert eg.arange(3.0).dtype == "f32" and eg.arange(3).dtype == eg.arange(np.int64(3)).dtype == "i64"
    assert eg.arange(3, dtype="f64").tolist() == eg.arange(0.0, 3.0, dtype="i64").tolist() == [0, 1, 2]
    assert eg.arange(5, 0, -2).tolist() == [5, 3, 1]
    for bad, words in [
        (lambda: eg.arange(254, 258, dtype="u8"), "arange: 257 is not a value of u8"),
        (lambda: eg.linspace(0, 1000, 3, "u8"), "linspace: 500 is not a value of u8"),
        (lambda: eg.arange(1e19, 1e19 + 4096, 2048, "i64"), "is not a value of i64"),
        (lambda: eg.arange(0, 1, 0.1, "i64"), "0.1 is not a whole number, and i64 holds no other; name a floating dtype"),
        (lambda: eg.arange(2**64), "arange: 18446744073709551616 is beyond integers of 64 bits"),
        (lambda: eg.arange(0, 3, 0), "arange: step 0 does not lead from 0 to 3"),
    ]:
        with pytest.raises(eg.ValueError, match=words):
            bad()
    with pytest.raises(TypeError, match="arange: start, stop and step must be numbers, not str"):
        eg.arange("x")


@pytest.mark.parametrize("number", [2**63, 2**64, -(2**63) - 1])
def test_lists_of_integers_that_64_bits_do_not_hold(number):
    with pytest.raises(eg.ValueError, match=f"tensor: {number} is beyond integers of 64 bits"):
        eg.tensor([1, number])


def test_lists_of_integers_as_positions():
    x = eg.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    assert O.embedding(x, [0, 2]).tolist() == [[1, 2], [5, 6]]
    assert O.gather(x, [[0, 2]], 0).tolist() == [[1, 6]]
    assert O.index_select(x, (1,), 0).tolist() == [[3, 4]]
    for bad in [[], [0.5], [True], ["a"], [x[0]]]:
        with pytest.raises(TypeError, match="must be a Tensor, an array or a list of integers, not list"):
            O.embedding(x, bad)


def test_dtypes_are_equal_to_those_of_numpy():
    for name, other in [("f32", np.float32), ("f64", np.float64), ("i64", np.int64), ("u8", np.uint8), ("bool", np.bool_)]:
        dtype = eg.zeros(1, name).dtype
        assert dtype == name and dtype == other and other == dtype and dtype == np.dtype(other) and not dtype != other
        assert dtype != np.complex64 and not dtype == np.int32 and dtype != "f16" and dtype != 3 and {name: 1}[dtype] == 1
        assert eg.zeros(1, other).dtype == eg.zeros(1, np.dtype(other)).dtype == eg.ones(1).to(other).dtype == name
    assert eg.zeros(1).dtype == "float32" and eg.zeros(1).dtype != "float64"
    assert eg.zeros(1).dtype != np.dtype(">f4")
    with pytest.raises(TypeError, match="give a name"):
        eg.zeros(1, np.complex64)


def test_dtypes_are_not_read_as_numpy_reads_their_names():
    x = eg.zeros(1, "u8").dtype  # NumPy's "u8" has 8 bytes
    for other in (np.dtype("uint64"), np.uint64, object, np.dtype("S3")):
        assert not x == other and x != other
    assert x.__eq__(3) is NotImplemented


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda d: pickle.loads(pickle.dumps(d))], ids=["copy", "deepcopy", "pickle"])
def test_copies_of_dtypes_are_equal_to_those_of_numpy(again):
    copied = again(eg.zeros(1).dtype)
    assert copied == np.float32 and copied == np.dtype("float32") and copied == "f32" and copied != np.float64


def test_dtypes_are_equal_to_those_of_pytorch():
    torch = pytest.importorskip("torch")
    assert eg.ones(1).dtype == torch.float32 and eg.ones(1, "bf16").dtype == torch.bfloat16
    assert eg.ones(1).dtype != torch.float64 and eg.zeros(1, torch.uint8).dtype == "u8"


def test_full_takes_the_type_of_a_tensor_or_array():
    large = 2**53 + 1
    for value in (large, eg.tensor(large), eg.tensor([large]), np.array(large)):
        made = eg.full((2,), value)
        assert made.dtype == "i64" and made.tolist() == [large, large]
        made.fill(0)
        made.fill(value)
        assert made.tolist() == [large, large]
        assert eg.full((2,), value, dtype="f64").tolist() == [2.0**53, 2.0**53]
    for dtype in ("f32", "f64", "u8", "bool"):
        for value in (eg.ones((), dtype=dtype), eg.ones((), dtype=dtype).numpy()):
            assert eg.full((2,), value).dtype == dtype
    assert eg.full((2,), 1.5).dtype == "f32" and eg.full((2,), eg.tensor(2.0), dtype="i64").tolist() == [2, 2]
