"""Arithmetic of whole numbers against Python's integers, and how numbers of other types join in."""

import math
import random

import numpy as np
import pytest

import equigrad as eg

LEAST, MOST = -(2**63), 2**63 - 1
EDGES = [0, 1, -1, 2, -2, 3, -3, 7, 10, -10, 2**31, 2**32 + 1, -(2**32), 3037000499, 3037000500, 2**53 + 1, 2**62,
         -(2**62), MOST - 1, MOST, LEAST, LEAST + 1]


def drawn(generator):
    """A whole number of any size, an extreme one in every fourth case."""
    if generator.random() < 0.25:
        return generator.choice(EDGES)
    return max(LEAST, min(MOST, generator.randrange(-(2 ** (bits := generator.randrange(1, 64))), 2**bits)))


def truncated_remainder(a, b):
    return a - b * (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)


def power(a, b):
    if b < 0:
        raise ArithmeticError
    return a**b if abs(a) <= 1 or b <= 64 else 2**99


BINARY = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floor_divide": lambda a, b: a // b,
    "remainder": lambda a, b: a % b,
    "fmod": truncated_remainder,
    "minimum": min,
    "maximum": max,
    "pow": power,
}
UNARY = {
    "neg": lambda a: -a,
    "abs": abs,
    "square": lambda a: a * a,
    "sign": lambda a: (a > 0) - (a < 0),
    "relu": lambda a: max(a, 0),
    "floor": lambda a: a,
}


def expected(function, *numbers):
    """What Python's integers give, None where there is no result of 64 bits."""
    try:
        value = function(*numbers)
    except ArithmeticError:
        return None
    return value if LEAST <= value <= MOST else None


@pytest.mark.parametrize("name", BINARY)
def test_two_whole_numbers_give_what_pythons_give(name):
    generator = random.Random(name)
    pairs = [(a, b) for a in EDGES for b in EDGES] + [(drawn(generator), drawn(generator)) for _ in range(1500)]
    if name == "pow":
        pairs += [(generator.randrange(-40, 41), generator.randrange(0, 20)) for _ in range(1000)]
    held, refused = [], []
    for a, b in pairs:
        (refused if expected(BINARY[name], a, b) is None else held).append((a, b))
    a, b = (eg.tensor([pair[i] for pair in held], dtype="i64") for i in (0, 1))
    found = getattr(eg.ops, name)(a, b)
    assert found.dtype == eg.int64
    assert found.tolist() == [BINARY[name](*pair) for pair in held]
    assert len(held) > 400 and (refused or name in ("minimum", "maximum"))
    for a, b in refused[:: max(1, len(refused) // 300)]:
        with pytest.raises(eg.ValueError, match="beyond integers of 64 bits|divided by 0|no whole number"):
            getattr(eg.ops, name)(eg.tensor([1, a]), eg.tensor([1, b]))


@pytest.mark.parametrize("name", UNARY)
def test_one_whole_number_gives_what_pythons_gives(name):
    generator = random.Random(name)
    numbers = EDGES + [drawn(generator) for _ in range(2000)]
    held = [a for a in numbers if expected(UNARY[name], a) is not None]
    assert getattr(eg.ops, name)(eg.tensor(held)).tolist() == [UNARY[name](a) for a in held]
    for a in set(numbers) - set(held):
        with pytest.raises(eg.ValueError, match="beyond integers of 64 bits"):
            getattr(eg.ops, name)(eg.tensor([0, a]))


def test_operators_with_pythons_integers_are_exact():
    generator = random.Random(3)
    tried = 0
    for _ in range(3000):
        a, b = drawn(generator), drawn(generator)
        operator = generator.choice(["+", "-", "*", "//", "%"])
        wanted = expected(lambda x, y: eval(f"x {operator} y"), a, b)  # noqa: B023
        for typed in ("eg.tensor(a) OP b", "a OP eg.tensor(b)", "eg.tensor(a) OP eg.tensor(b)"):
            code = typed.replace("OP", operator)
            if wanted is None:
                with pytest.raises(eg.ValueError):
                    eval(code)
            else:
                assert eval(code).item() == wanted, (code, a, b)
                tried += 1
    assert tried > 3000


def test_integers_beyond_64_bits_are_refused_beside_whole_numbers():
    with pytest.raises(eg.ValueError, match="beyond integers of 64 bits"):
        eg.tensor(1) + 2**63
    assert (eg.tensor([1.0]) + 2**63).item() == 2.0**63


@pytest.mark.parametrize("name", ["sum", "prod", "cumsum"])
def test_sums_and_products_are_exact_or_refused(name):
    generator = random.Random(name)
    results = {"held": 0, "refused": 0}
    for _ in range(800):
        small = generator.random() < 0.5
        many = generator.randrange(0, 7) if small else generator.randrange(2, 5)
        line = [generator.randrange(-9, 10) if small else generator.randrange(LEAST, MOST + 1) for _ in range(many)]
        if name == "cumsum":
            wanted = [sum(line[: i + 1]) for i in range(len(line))]
            ok = all(LEAST <= value <= MOST for value in wanted)
        else:
            wanted = sum(line) if name == "sum" else math.prod(line)
            ok = LEAST <= wanted <= MOST
        tensor = eg.tensor(np.array(line, dtype=np.int64))
        call = (lambda: tensor.cumsum(axis=0)) if name == "cumsum" else getattr(tensor, name)
        if ok:
            assert call().tolist() == wanted, line
            generator.shuffle(line)
            if name != "cumsum":  # in every order
                assert getattr(eg.tensor(np.array(line, dtype=np.int64)), name)().item() == wanted
        else:
            with pytest.raises(eg.ValueError, match="beyond integers of 64 bits"):
                call()
        results["held" if ok else "refused"] += 1
    assert min(results.values()) > 100


@pytest.mark.parametrize("dtype", ["int64", "uint8", "bool"])
def test_reductions_and_order_are_numpys(dtype):
    generator = np.random.default_rng(4)
    for _ in range(150):
        shape = tuple(generator.integers(1, 6, size=generator.integers(1, 4)))
        array = generator.integers(*{"int64": (-5, 6), "uint8": (0, 256), "bool": (0, 2)}[dtype], size=shape).astype(dtype)
        tensor, axis = eg.tensor(array.copy()), int(generator.integers(-array.ndim, array.ndim))
        for name in ("sum", "prod", "max", "min", "argmax", "argmin", "any", "all"):
            wanted = getattr(array, name)(axis=axis)
            if name == "prod":
                wanted = array.astype(np.int64).prod(axis=axis)
            found = getattr(tensor, name)(axis=axis)
            assert np.array_equal(found.numpy(), wanted), (name, array, axis)
        assert tensor.sum(axis=axis).dtype == eg.int64 and tensor.max(axis=axis).dtype == tensor.dtype
        assert np.array_equal(tensor.sort(axis=axis).values.numpy(), np.sort(array, axis=axis))
        assert np.array_equal(tensor.argsort(axis=axis).numpy(), np.argsort(array, axis=axis, kind="stable"))
        down = np.argsort(-array.astype(np.int64), axis=axis, kind="stable")
        assert np.array_equal(tensor.argsort(axis=axis, descending=True).numpy(), down)
        assert np.array_equal(tensor.cumsum(axis=axis).numpy(), array.astype(np.int64).cumsum(axis=axis))
        assert np.allclose(tensor.mean(axis=axis).numpy(), array.mean(axis=axis), rtol=1e-6)
        assert np.array_equal(tensor.clip(1, 2).numpy(), array.astype(np.int64).clip(1, 2))


def test_extremes_of_nothing_and_of_64_bits():
    with pytest.raises(eg.ShapeError, match="no elements"):
        eg.zeros((0,), dtype="i64").max()
    edges = eg.tensor(EDGES)
    assert (edges.max().item(), edges.min().item()) == (MOST, LEAST)
    assert edges.sort().values.tolist() == sorted(EDGES)
    assert edges.topk(3).values.tolist() == sorted(EDGES)[:-4:-1]
    assert eg.zeros((0, 3), dtype="i64").sum(axis=0).tolist() == [0, 0, 0]
    assert eg.zeros((0,), dtype="bool").prod().item() == 1


def test_types_join_as_documented():
    whole, byte, truth = eg.tensor([3, 4]), eg.tensor([3, 4]).to("u8"), eg.tensor([True, False])
    single, double = eg.ones(2), eg.ones(2, dtype="f64")
    for a in (whole, byte, truth):
        for b in (whole, byte, truth):
            assert (a + b).dtype == (a * b).dtype == eg.int64
        assert (a + single).dtype == (single * a).dtype == eg.float32
        assert (a + double).dtype == (double - a).dtype == eg.float64
        assert (a + 1).dtype == (2 * a).dtype == eg.int64
        assert (a + 1.0).dtype == (0.5 * a).dtype == (a / 2).dtype == (a / (whole + 1)).dtype == eg.float32
        assert (-a).dtype == eg.int64
    assert (byte - 5).tolist() == [-2, -1]  # bytes do not wrap
    assert eg.add(whole, 0.5).tolist() == [3.5, 4.5]
    assert (eg.tensor([2**53 + 1]) + 1).item() == 2**53 + 2
    with pytest.raises(eg.DTypeError, match="f32"):
        single + double


def test_quotients_are_those_of_doubles_rounded_once():
    generator = np.random.default_rng(5)
    a, b = generator.integers(-(2**40), 2**40, size=500), generator.integers(1, 2**35, size=500)
    assert np.array_equal((eg.tensor(a) / eg.tensor(b)).numpy(), (a / b).astype(np.float32))
    with np.errstate(all="ignore"):
        found = (eg.tensor([1, -1, 0]) / eg.tensor([0, 0, 0])).numpy()
        assert np.array_equal(found, np.array([np.inf, -np.inf, np.nan], dtype="f4"), equal_nan=True)


def test_gradients_pass_beside_whole_numbers():
    x, k = eg.tensor(np.array([1.5, -2.0, 3.0])), eg.tensor([2, 3, 4])
    with eg.Tape() as tape:
        y = (x * k + k - x / k + x**k).sum()
    n = np.array([2, 3, 4])
    assert np.allclose(tape.gradient(y, x).numpy(), n - 1 / n + n * x.numpy() ** (n - 1))


def test_a_whole_number_made_from_a_float_stops_the_gradient():
    x = eg.tensor(np.array([1.5, 2.5]))
    with eg.Tape() as tape:
        y = (x * x.long()).sum()  # d/dx is the whole part alone
    assert tape.gradient(y, x).tolist() == [1.0, 2.0]


def test_floor_division_is_numpys():
    random = np.random.default_rng(2)
    a, b = random.normal(size=400) * 10, random.normal(size=400)
    assert np.array_equal((eg.tensor(a) // eg.tensor(b)).numpy(), a // b)
    assert (eg.tensor(np.array([1.0])) // 0.1).item() == 9.0
    with np.errstate(all="ignore"):
        edges = np.array([0.0, 1.0, -1.0, 5.5, -5.5, np.inf, -np.inf, np.nan])
        a, b = (grid.ravel() for grid in np.meshgrid(edges, edges))
        assert np.array_equal((eg.tensor(a) // eg.tensor(b)).numpy(), a // b, equal_nan=True)


def test_division_by_a_number_rounds_once():
    for dtype in ("f4", "f8"):
        x = np.arange(1, 2000).astype(dtype)
        assert np.array_equal((eg.tensor(x) / 255.0).numpy(), x / np.array(255.0, dtype))
