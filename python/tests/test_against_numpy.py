"""Operations against NumPy's on random arrays: NaN, infinities, ties, axes without elements, no axes."""

import math

import numpy as np
import pytest

import equigrad as eg

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 1e300, -1e-300, np.inf, -np.inf, np.nan]


def arrays(seed, count=200, axes=3, special=0.2, least=0):
    """Arrays of random shapes, extents from `least` on, some elements special or equal to others."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        shape = tuple(rng.integers(least, 5, size=rng.integers(0, axes + 1)))
        array = rng.normal(size=shape).round(1)
        mask = rng.random(shape) < special * rng.integers(0, 2)
        yield np.where(mask, rng.choice([*SPECIAL, np.nan, np.nan, np.nan], size=shape), array), rng


def same(found, wanted):
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert found.shape == wanted.shape
    return np.allclose(found, wanted, rtol=1e-12, atol=1e-300, equal_nan=True)


ELEMENTARY = ["arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh", "log10", "tan"]


@pytest.mark.parametrize("name", ELEMENTARY)
def test_elementary_functions(name):
    with np.errstate(all="ignore"):
        for array, _ in arrays(1, 60):
            assert same(getattr(eg, name)(eg.tensor(array)), getattr(np, name)(array)), array
        grid = np.array(SPECIAL)
        assert same(getattr(eg, name)(eg.tensor(grid)), getattr(np, name)(grid))
        assert not same(getattr(eg, name)(eg.tensor(grid)), getattr(np, name)(grid) + 1e-9)


def test_angles_of_points():
    a, b = (part.ravel() for part in np.meshgrid(SPECIAL, SPECIAL))
    found, wanted = eg.arctan2(eg.tensor(a), eg.tensor(b)).numpy(), np.arctan2(a, b)
    assert same(found, wanted) and np.array_equal(np.signbit(found[~np.isnan(wanted)]), np.signbit(wanted[~np.isnan(wanted)]))


def test_sums_and_means_without_nan():
    tried = 0
    with np.errstate(all="ignore"), pytest.warns(RuntimeWarning):
        for array, rng in arrays(2):
            axis = None if array.ndim == 0 or rng.random() < 0.3 else int(rng.integers(-array.ndim, array.ndim))
            array = np.where(abs(array) == 1e300, 1.5, array)  # beside which sums have no digits
            assert same(eg.nansum(eg.tensor(array), axis=axis) + 64, np.nansum(array, axis=axis) + 64), array
            assert same(eg.nanmean(eg.tensor(array), axis=axis) + 64, np.nanmean(array, axis=axis) + 64), array
            tried += np.isnan(array).any()
    assert tried > 10


def test_their_gradients_leave_nan_out():
    x = eg.tensor(np.array([[1.0, np.nan, 3.0], [np.nan, np.nan, 5.0]]))
    with eg.Tape() as tape:
        y = eg.nansum(x, axis=1).sum() + eg.nanmean(x, axis=1).sum()
    assert same(tape.gradient(y, x), np.array([[1.5, 0.0, 1.5], [0.0, 0.0, 2.0]]))


def test_medians_and_quantiles():
    nan, infinite = 0, 0
    with np.errstate(all="ignore"):
        for array, rng in arrays(3, 400, special=0.1, least=1):
            axis = None if array.ndim == 0 or rng.random() < 0.3 else int(rng.integers(-array.ndim, array.ndim))
            assert same(eg.median(eg.tensor(array), axis=axis), np.median(array, axis=axis)), array
            infinite += np.isinf(np.median(array))
            array = np.where(np.isinf(array), 7.0, array)  # between infinities NumPy's own interpolation differs by version
            for q in (0.0, 1.0, 0.5, float(rng.random())):
                wanted = np.quantile(array, q, axis=axis)
                assert same(eg.quantile(eg.tensor(array), q, axis=axis), wanted), (array, q)
            nan += np.isnan(array).any()
        several = np.array([0.1, 0.9])
        assert same(eg.quantile(eg.tensor(array), several), np.quantile(array, several))
    assert nan > 20 and infinite > 2
    assert math.isinf(eg.median(eg.tensor([1.0, math.inf, math.inf])).item())
    with pytest.raises(eg.ShapeError, match="no elements"):
        eg.median(eg.zeros((2, 0)), axis=1)


def test_unique_elements():
    for array, rng in arrays(4):
        array = np.where(array == 0, 0.0, array)  # the first of -0 and 0 is another one in NumPy
        for values in (array, (array > 0), np.nan_to_num(array, posinf=3, neginf=-3).clip(-9, 9).astype(np.int64)):
            wanted = np.unique(values, return_inverse=True, return_counts=True)
            found = eg.unique(eg.tensor(values), return_inverse=True, return_counts=True)
            assert np.array_equal(found[0].numpy(), wanted[0], equal_nan=values.dtype.kind == "f"), values
            assert np.array_equal(found[1].numpy(), wanted[1].reshape(values.shape))
            assert np.array_equal(found[2].numpy(), wanted[2])


def test_places_in_order():
    for array, rng in arrays(5):
        line = np.sort(rng.choice([*SPECIAL, 0.3, 0.3, 1.7], size=rng.integers(0, 9)))
        for side in ("left", "right"):
            found = eg.searchsorted(eg.tensor(line), eg.tensor(array), right=side == "right")
            assert np.array_equal(found.numpy(), np.searchsorted(line, array, side=side)), (line, array)


def test_nonzero_and_selected_elements():
    for array, rng in arrays(6):
        assert np.array_equal(eg.nonzero(eg.tensor(array)).numpy(), np.argwhere(array))
        mask = rng.random(array.shape) < 0.5
        assert np.array_equal(eg.masked_select(eg.tensor(array), eg.tensor(mask)).numpy(), array[mask], equal_nan=True)
        if array.ndim:
            rows = rng.random(array.shape[-1:]) < 0.5
            wanted = array[np.broadcast_to(rows, array.shape)]
            assert np.array_equal(eg.tensor(array).masked_select(rows).numpy(), wanted, equal_nan=True)


@pytest.mark.parametrize("mode", ["constant", "reflect", "symmetric", "edge", "wrap"])
def test_borders(mode):
    tried = 0
    for array, rng in arrays(7, 300):
        least = [n - 1 if mode == "reflect" else n for n in array.shape]
        widths = [tuple(int(w) for w in rng.integers(0, most + 1, size=2)) if most > 0 else (0, 0) for most in least]
        if array.ndim == 0:
            continue
        found = eg.pad(eg.tensor(array), widths, mode=mode).numpy()
        assert np.array_equal(found, np.pad(array, widths, mode=mode), equal_nan=True), (array.shape, widths)
        tried += 1
    assert tried > 100


def test_borders_wider_than_the_array():
    """What is seen is a sequence that repeats itself; NumPy before 2 reflects anew at edges of its own."""
    rng = np.random.default_rng(12)
    for _ in range(300):
        n, before, after = (int(k) for k in rng.integers((1, 0, 0), (6, 25, 25)))
        line = np.arange(n)
        for mode, period in {
            "reflect": [*line, *line[1:-1][::-1]],
            "symmetric": [*line, *line[::-1]],
            "wrap": line,
            "edge": None,
        }.items():
            places = np.arange(-before, n + after)
            wanted = np.clip(places, 0, n - 1) if period is None else np.array(period)[places % len(period)]
            assert np.array_equal(eg.pad(eg.tensor(line), (before, after), mode=mode).numpy(), wanted), (mode, n, before, after)
    with pytest.raises(eg.ShapeError, match="no elements to repeat"):
        eg.pad(eg.zeros(0), 1, mode="edge")


def test_products_of_vectors():
    rng = np.random.default_rng(8)
    for _ in range(100):
        a, b = rng.normal(size=rng.integers(0, 5)), rng.normal(size=rng.integers(0, 5))
        assert same(eg.outer(eg.tensor(a), eg.tensor(b)), np.outer(a, b))
        shape = tuple(rng.integers(0, 4, size=rng.integers(0, 3)))
        p, q = rng.normal(size=(*shape, 3)), rng.normal(size=3)
        assert same(eg.cross(eg.tensor(p), eg.tensor(q)), np.cross(p, q))
        assert same(eg.cross(eg.tensor(q), eg.tensor(p)), np.cross(q, p))
        lines = [rng.normal(size=rng.integers(0, 4)) for _ in range(rng.integers(1, 4))]
        for indexing in ("ij", "xy"):
            grids = eg.meshgrid(*[eg.tensor(line) for line in lines], indexing=indexing)
            assert all(same(found, wanted) for found, wanted in zip(grids, np.meshgrid(*lines, indexing=indexing)))


def joined(x, index, source, axis, reduce, include_self):
    """scatter_reduce by a loop over all places."""
    y, hits = x.copy(), np.zeros(x.shape, dtype=int)
    for place in np.ndindex(index.shape):
        to = (*place[:axis], index[place], *place[axis + 1 :])
        first = hits[to] == 0 and not include_self
        a, b = y[to], source[place]
        y[to] = b if first else {"sum": a + b, "mean": a + b, "prod": a * b, "amax": np.maximum(a, b), "amin": np.minimum(a, b)}[reduce]
        hits[to] += 1
    return y / np.maximum(hits + include_self, 1) if reduce == "mean" else y


@pytest.mark.parametrize("reduce", ["sum", "mean", "prod", "amax", "amin"])
def test_joined_elements(reduce):
    rng = np.random.default_rng(9)
    for _ in range(120):
        shape = tuple(rng.integers(1, 5, size=rng.integers(1, 4)))
        axis = int(rng.integers(0, len(shape)))
        x = rng.normal(size=shape)
        where = (*shape[:axis], int(rng.integers(0, 6)), *shape[axis + 1 :])
        index, source = rng.integers(0, shape[axis], size=where), rng.choice([*SPECIAL[:6], np.nan, 0.3], size=where)
        keep = bool(rng.integers(0, 2))
        found = eg.scatter_reduce(eg.tensor(x), axis=axis, index=eg.tensor(index), source=eg.tensor(source), reduce=reduce, include_self=keep)
        assert same(found, joined(x, index, source, axis, reduce, keep))


def test_transposed_convolutions_are_the_adjoint():
    """<conv(x), y> = <x, conv_transpose(y)> for the same weight."""
    rng = np.random.default_rng(10)
    for _ in range(60):
        stride, padding, dilation, kernel = (int(n) for n in (rng.integers(1, 4), rng.integers(0, 3), rng.integers(1, 3), rng.integers(1, 4)))
        length = int(rng.integers(kernel * dilation + 3, 14))
        settings = {"stride": stride, "padding": padding, "dilation": dilation}
        x, w = rng.normal(size=(2, 3, length)), rng.normal(size=(4, 3, kernel))
        y = eg.ops.conv1d(eg.tensor(x), eg.tensor(w), **settings)
        more = length - ((y.shape[2] - 1) * stride - 2 * padding + dilation * (kernel - 1) + 1)
        g = rng.normal(size=y.shape)
        back = eg.ops.conv_transpose1d(eg.tensor(g), eg.tensor(w), output_padding=more, **settings)
        assert back.shape == x.shape
        assert np.isclose((y.numpy() * g).sum(), (x * back.numpy()).sum())
        image = eg.ops.conv_transpose2d(eg.tensor(g[:, :, None]), eg.tensor(w[:, :, None]), stride=[1, stride], padding=[0, padding],
                                        dilation=[1, dilation], output_padding=[0, more])
        assert same(image[:, :, 0], back)


@pytest.mark.parametrize("size", [0, 1, 5, 1023, 1024, 3000])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint8", "bool"])
def test_unique_of_every_type_and_size(size, dtype):
    """Few elements are compared, many sorted by digits; whole numbers of a short range are counted in a table."""
    rng = np.random.default_rng([size, len(dtype)])
    drawn = [rng.normal(size=size) * 10, rng.integers(-3, 4, size), rng.integers(-(2**62), 2**62, size)]
    if dtype == "uint8":
        drawn = [rng.integers(0, 256, size), rng.integers(0, 3, size)]
    for array in drawn:
        array = array.astype(dtype)
        if size > 4 and dtype.startswith("float"):
            array[:4] = np.nan, -0.0, np.inf, np.nan
        found = eg.ops.unique(eg.tensor(array))
        values, inverse, counts = np.unique(array, return_inverse=True, return_counts=True)
        for mine, numpy in zip(found, (values, inverse.reshape(-1), counts)):
            assert mine.dtype == numpy.dtype and np.array_equal(mine.numpy(), numpy, equal_nan=dtype.startswith("float"))


def test_unique_sees_what_was_written_since():
    """The order that the shape rule found is taken once, for the same elements."""
    array = np.random.default_rng(0).normal(size=2000).astype("float32")
    x = eg.tensor(array)
    for value in (5.0, -5.0):
        array[7] = value  # unseen by the library
        assert np.array_equal(x.unique().numpy(), np.unique(array))
        x[3] = value + 1.0
        assert np.array_equal(x.unique().numpy(), np.unique(array))
    assert np.array_equal(x[::2].unique().numpy(), np.unique(array[::2]))
    assert np.array_equal(x[:1500].unique().numpy(), np.unique(array[:1500]))
