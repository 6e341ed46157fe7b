"""Methods of Tensor: the operations on one tensor, and other libraries' names."""

import math
from collections.abc import Sequence

from . import _core, _names, _rows, ops
from ._core import Tensor
from ._sizes import Size


class _Operation:
    """An operation as a method. The function takes its place when it is first asked for."""

    def __init__(self, name, operation):
        self.name, self.operation = name, operation

    def __get__(self, tensor, cls):
        function = getattr(ops, self.operation)
        setattr(Tensor, self.name, function)
        return function if tensor is None else function.__get__(tensor, cls)


class OtherNames:
    """Methods that NumPy or PyTorch have, and what each is here."""

    def astype(self: Tensor, dtype: str) -> Tensor:
        """x.to(dtype)."""
        return self.to(dtype)

    def type(self: Tensor, dtype: str) -> Tensor:
        """x.to(dtype)."""
        return self.to(dtype)

    def float(self: Tensor) -> Tensor:
        """x.to('f32')."""
        return self.to("f32")

    def double(self: Tensor) -> Tensor:
        """x.to('f64')."""
        return self.to("f64")

    def long(self: Tensor) -> Tensor:
        """x.to('i64')."""
        return self.to("i64")

    def int(self: Tensor) -> Tensor:
        """x.to('i64')."""
        return self.to("i64")

    def bool(self: Tensor) -> Tensor:
        """x.to('bool')."""
        return self.to("bool")

    def bfloat16(self: Tensor) -> Tensor:
        """x.to('bf16')."""
        return self.to("bf16")

    def view(self: Tensor, *shape: "builtins.int") -> Tensor:
        """x.reshape(*shape): a view where strides allow."""
        return self.reshape(*shape)

    def ravel(self: Tensor) -> Tensor:
        """x.reshape(-1)."""
        return self.reshape(-1)

    def flatten(self: Tensor, start_dim: "builtins.int" = 0, end_dim: "builtins.int" = -1) -> Tensor:
        """One axis in the place of those from start_dim to end_dim. Raises ValueError where there are none."""
        shape = self.shape or (1,)
        for axis in (start_dim, end_dim):
            if not -len(shape) <= axis < len(shape):
                raise _core.IndexError(f"flatten: axis {axis} is outside a tensor of {len(shape)} axes")
        first, last = start_dim % len(shape), end_dim % len(shape)
        if first > last:
            raise _core.ValueError(f"flatten: axis {start_dim} comes after axis {end_dim}")
        return self.reshape((*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :]))

    def max(
        self: Tensor, axis: "builtins.int | None" = None, dim: "builtins.int | None" = None, out: None = None
    ) -> Tensor:
        """The largest element along an axis, or of all."""
        return _along(ops.max, ops.amax, self, axis, dim, out)

    def min(
        self: Tensor, axis: "builtins.int | None" = None, dim: "builtins.int | None" = None, out: None = None
    ) -> Tensor:
        """The smallest element along an axis, or of all."""
        return _along(ops.min, ops.amin, self, axis, dim, out)

    def argmax(
        self: Tensor, axis: "builtins.int | None" = None, dim: "builtins.int | None" = None, out: None = None
    ) -> Tensor:
        """The place of the first largest element along an axis, or among all in row-major order."""
        return _along(ops.argmax, lambda x: ops.argmax(x.reshape(-1)), self, axis, dim, out)

    def argmin(
        self: Tensor, axis: "builtins.int | None" = None, dim: "builtins.int | None" = None, out: None = None
    ) -> Tensor:
        """The place of the first smallest element along an axis, or among all in row-major order."""
        return _along(ops.argmin, lambda x: ops.argmin(x.reshape(-1)), self, axis, dim, out)

    def squeeze(
        self: Tensor, axis: "builtins.int | tuple[builtins.int, ...] | None" = None, dim: "builtins.int | None" = None
    ) -> Tensor:
        """Without the axis, the axes, or all axes of extent 1."""
        return _squeezed(self, _one_of(axis, dim))

    def unique(
        self: Tensor, return_inverse: "builtins.bool" = False, return_counts: "builtins.bool" = False
    ) -> "Tensor | tuple[Tensor, ...]":
        """The different elements in ascending order; with them the place of each of x among them, and how often each is."""
        found = ops.unique(self)
        result = (found.values, *[found.inverse] * return_inverse, *[found.counts] * return_counts)
        return result if len(result) > 1 else found.values

    def quantile(
        self: Tensor,
        q: "builtins.float | Sequence[builtins.float]",
        axis: "builtins.int | tuple[builtins.int, ...] | None" = None,
        keepdim: "builtins.bool" = False,
        **names: object,
    ) -> Tensor:
        """ops.quantile; several q make a first axis."""
        levels = q.tolist() if hasattr(q, "tolist") else q
        given = {**names, **({} if axis is None else {"axes": axis}), "keepdim": names.pop("keepdims", keepdim)}
        given = {name: value for name, value in given.items() if name != "keepdims"}
        if not isinstance(levels, (list, tuple)):
            return ops.quantile(self, q=levels, **given)
        return ops.stack([ops.quantile(self, q=level, **given) for level in levels], axis=0)

    def pad(self: Tensor, *args: object, **kwargs: object) -> Tensor:
        """ops.pad(x, axis, before, after, value), or NumPy's pad(x, pad_width, mode='constant', constant_values=0)."""
        return _padded(self, *args, **kwargs)

    def repeat(self: Tensor, *repeats: "builtins.int | Sequence[builtins.int]", **names: object) -> Tensor:
        """Copies side by side along each axis, as PyTorch's repeat and NumPy's tile: x.repeat(2, 3), x.repeat((2, 3))."""
        if names.keys() & {"axis", "dim"}:
            raise TypeError("repeat: it puts copies side by side; x.repeat_interleave(n, axis) repeats elements, as np.repeat")
        if len(repeats) > 1 and all(hasattr(one, "__index__") for one in repeats):
            repeats = (repeats,)
        return ops.repeat(self, *repeats, **names)

    def split(
        self: Tensor,
        sizes: "builtins.int | Sequence[builtins.int] | None" = None,
        axis: "builtins.int" = 0,
        dim: "builtins.int | None" = None,
        **names: object,
    ) -> "list[Tensor]":
        """Pieces of the given sizes along an axis, as in PyTorch: one number is the size of each, not how many."""
        names = {"sizes": sizes, **names} if sizes is not None else names
        for other in ("split_size_or_sections", "split_size"):
            if other in names:
                names["sizes"] = names.pop(other)
        if "indices_or_sections" in names:
            raise TypeError("split: it takes sizes, not places or a number of pieces; x.chunk(n) makes n pieces")
        along = axis if dim is None else dim
        extents = names.get("sizes")
        if isinstance(extents, (list, tuple)) and -self.ndim <= along < self.ndim and sum(extents) != self.shape[along]:
            raise _core.ShapeError(
                f"split: sizes {list(extents)} add up to {sum(extents)}, and axis {along} has {self.shape[along]} elements; "
                "they are the pieces' extents, not the places of the cuts"
            )
        return ops.split(self, axis=along, **names)

    def max_pool2d(self: Tensor, *args: object, **kwargs: object) -> Tensor:
        """The numbers of ops.max_pool2d, which gives their places too."""
        return ops.max_pool2d(self, *args, **kwargs).y

    def adaptive_max_pool2d(self: Tensor, *args: object, **kwargs: object) -> Tensor:
        """The numbers of ops.adaptive_max_pool2d, which gives their places too."""
        return ops.adaptive_max_pool2d(self, *args, **kwargs).y

    def moveaxis(
        self: Tensor,
        source: "builtins.int | Sequence[builtins.int]",
        destination: "builtins.int | Sequence[builtins.int]",
    ) -> Tensor:
        """The axes of source at the places of destination; the others keep their order."""
        return _moved(self, source, destination)

    def movedim(
        self: Tensor,
        source: "builtins.int | Sequence[builtins.int]",
        destination: "builtins.int | Sequence[builtins.int]",
    ) -> Tensor:
        """x.moveaxis(source, destination)."""
        return _moved(self, source, destination)

    def expand_as(self: Tensor, other: Tensor) -> Tensor:
        """x.expand(other.shape)."""
        return self.expand(other.shape)

    def view_as(self: Tensor, other: Tensor) -> Tensor:
        """x.reshape(other.shape)."""
        return self.reshape(other.shape)

    def reshape_as(self: Tensor, other: Tensor) -> Tensor:
        """x.reshape(other.shape)."""
        return self.reshape(other.shape)

    def type_as(self: Tensor, other: Tensor) -> Tensor:
        """x.to(other.dtype)."""
        return self.to(other.dtype)

    def copy(self: Tensor) -> Tensor:
        """x.clone()."""
        return self.clone()

    def numel(self: Tensor) -> "builtins.int":
        """x.size."""
        return self.size

    def dim(self: Tensor) -> "builtins.int":
        """x.ndim."""
        return self.ndim

    def t(self: Tensor) -> Tensor:
        """x.T."""
        return self.T

    def swapaxes(self: Tensor, a: "builtins.int", b: "builtins.int") -> Tensor:
        """x.transpose(a, b)."""
        return self.transpose(a, b)

    def dot(self: Tensor, y: Tensor) -> Tensor:
        """x @ y."""
        return self @ y

    def mm(self: Tensor, y: Tensor) -> Tensor:
        """x @ y."""
        return self @ y

    def mv(self: Tensor, y: Tensor) -> Tensor:
        """x @ y."""
        return self @ y

    def bmm(self: Tensor, y: Tensor) -> Tensor:
        """x @ y."""
        return self @ y


def _one_of(axis, dim):
    if axis is not None and dim is not None:
        raise TypeError("axis and dim are the same: give one")
    return dim if axis is None else axis


def _squeezed(x, axis):
    if axis is None:
        return x.reshape([extent for extent in x.shape if extent != 1])
    axes = [axis] if not isinstance(axis, (list, tuple)) else axis
    places = sorted((a + x.ndim if -x.ndim <= a < 0 else a for a in axes), reverse=True)
    if len(set(places)) < len(places):
        raise _core.ValueError(f"squeeze: axis {max(places, key=places.count)} stands twice in {tuple(axes)}")
    for place in places:
        x = ops.squeeze(x, axis=place)
    return x


def _moved(x, source, destination):
    axes, places = ([a] if hasattr(a, "__index__") else list(a) for a in (source, destination))
    if len(axes) != len(places):
        raise _core.ValueError(f"moveaxis: {len(axes)} axes cannot go to {len(places)} places")
    for axis in (*axes, *places):
        if not -x.ndim <= axis < x.ndim:
            raise _core.IndexError(f"moveaxis: axis {axis} is outside a tensor of {x.ndim} axes")
    axes, places = ([a % x.ndim for a in one] for one in (axes, places))
    if len(set(axes)) < len(axes) or len(set(places)) < len(places):
        raise _core.ValueError("moveaxis: an axis or a place stands twice")
    order = [axis for axis in range(x.ndim) if axis not in axes]
    for place, axis in sorted(zip(places, axes)):
        order.insert(place, axis)
    return x.permute(order)


def _widths(pad_width, rank):
    """NumPy's pad_width as (before, after) of each axis: one number, one pair, or a pair for each axis."""
    widths = pad_width.tolist() if hasattr(pad_width, "tolist") else pad_width
    if not isinstance(widths, (list, tuple)):
        widths = (widths, widths)
    if not any(isinstance(width, (list, tuple)) for width in widths):
        widths = [widths * 2 if len(widths) == 1 else widths]
    pairs = [tuple(width) * 2 if len(width) == 1 else tuple(width) for width in widths]
    pairs = pairs * rank if len(pairs) == 1 else pairs
    if len(pairs) != rank or any(len(pair) != 2 for pair in pairs):
        raise _core.ValueError(f"pad: pad_width is a number, a pair, or a pair (before, after) for each of {rank} axes")
    return pairs


def _padded(x, *args, **kwargs):
    rows = {"axis", "before", "after"} & kwargs.keys() or len(args) > 1 and not isinstance(args[1], str)
    numpys = "pad_width" in kwargs or args and (hasattr(args[0], "__len__") or not rows)
    if not numpys:
        return ops.pad(x, *args, **kwargs)
    names = ("pad_width", "mode", "constant_values")
    if len(args) > len(names):
        raise TypeError(f"pad: there are {len(args)} arguments; it takes pad_width, mode, constant_values")
    if twice := [name for name in names[: len(args)] if name in kwargs]:
        raise TypeError(f"pad: {twice[0]} is given twice, by its place and by its name")
    kwargs.update(zip(names, args))
    value, mode = kwargs.pop("constant_values", kwargs.pop("value", 0)), kwargs.pop("mode", "constant")
    pairs = _widths(kwargs.pop("pad_width"), x.ndim)
    if kwargs:
        raise TypeError(f"pad: there is no argument '{next(iter(kwargs))}'; it takes pad_width, mode, constant_values")
    for axis, (before, after) in enumerate(pairs):
        if before == after == 0:
            continue
        if mode == "constant":
            x = ops.pad(x, axis=axis, before=before, after=after, value=value)
        else:
            x = ops.pad_mode(x, axis=axis, before=before, after=after, mode=mode)
    return x


def einsum(*operands, equation=None, order=None, optimize=None):
    """ops.einsum in either order of arguments: einsum('ij,jk->ik', x, y), or einsum([x, y], 'ij,jk->ik')."""
    if operands and isinstance(operands[0], str):
        if equation is not None:
            raise TypeError("einsum: the equation was given twice")
        equation, *operands = operands
        if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
            operands = operands[0]
    elif operands:
        operands, *rest = operands
        equation, order = (*rest, equation, order)[:2] if len(rest) < 2 else rest
    if equation is None:
        raise TypeError("einsum: the equation must be given: einsum('ij,jk->ik', x, y)")
    return ops.einsum(list(operands), equation=equation, **({} if order is None else {"order": order}))


def _listed(operation):
    """An operation on a list of tensors, which may be given one by one, too."""

    def function(*tensors, **names):
        row = getattr(ops, operation)
        several = len(tensors) > 1 or (tensors and isinstance(tensors[0], Tensor))
        return row(list(tensors), **names) if several else row(*tensors, **names)

    function.__name__ = function.__qualname__ = operation
    return function


def _made_like(make):
    """zeros_like() and the like: of the shape, type and device of another tensor."""

    def function(x, *value, dtype=None, device=None):
        x = x if isinstance(x, Tensor) else _core.tensor(x)
        return make(x.shape, *value, dtype=x.dtype if dtype is None else dtype, device=device or x.device)

    function.__name__ = function.__qualname__ = make.__name__ + "_like"
    function.__doc__ = f"{make.__name__}() of the shape of x, and of its type and device unless they are given."
    return function


def _side_by_side(name, axis, least):
    """hstack() and vstack(): concat of tensors that have at least so many axes."""

    def function(tensors):
        listed = [one if isinstance(one, Tensor) else _core.tensor(one) for one in tensors]
        listed = [one.reshape((1,) * (least - one.ndim) + one.shape) if one.ndim < least else one for one in listed]
        return ops.concat(listed, axis=0 if listed[0].ndim == 1 else axis)

    function.__name__ = function.__qualname__ = name
    return function


def take(x, indices, axis=None):
    """The elements at places along an axis, or of all in row-major order; in the shape of the places."""
    places = indices if isinstance(indices, Tensor) else _core.tensor(indices, dtype="i64")
    x, axis = (x.reshape(-1), 0) if axis is None else (x, axis % x.ndim)
    found = ops.index_select(x, places.reshape(-1), axis=axis)
    return found.reshape((*x.shape[:axis], *places.shape, *x.shape[axis + 1 :]))


def _along(one, all_of_them, x, axis, dim, out):
    if out is not None:  # np.max(x) gives out=None
        raise TypeError(f"{one.__name__}: there is no out; {_names.ARGUMENT_WORDS['out']}")
    axis = _one_of(axis, dim)
    return all_of_them(x) if axis is None else one(x, axis=axis)


# Functions of the package that differ from those of equigrad.ops, whose axis is the last one unless it is given.
FUNCTIONS = {
    **{
        name: getattr(OtherNames, name)
        for name in (
            *("max", "min", "argmax", "argmin", "squeeze", "unique", "quantile", "pad", "split", "repeat"),
            *("max_pool2d", "adaptive_max_pool2d", "moveaxis", "movedim", "swapaxes", "flatten", "ravel", "numel", "t"),
            *("dot", "mm", "mv", "bmm"),
        )
    },
    "swapdims": OtherNames.swapaxes,
    "take": take,
    "zeros_like": _made_like(_core.zeros),
    "ones_like": _made_like(_core.ones),
    "full_like": _made_like(_core.full),
    "hstack": _side_by_side("hstack", axis=1, least=1),
    "vstack": _side_by_side("vstack", axis=0, least=2),
    "einsum": einsum,
    "meshgrid": _listed("meshgrid"),
    "block_diag": _listed("block_diag"),
}


def _missing(tensor, name):
    words = _names.TENSOR_WORDS.get(name) or _names.WORDS.get(name)
    if words is None and name.endswith("_") and not name.startswith("_") and hasattr(Tensor, name[:-1]):
        words = f"operations do not change their inputs: x = x.{name[:-1]}(...), or x[...] = values outside a tape"
    if words is not None:
        raise AttributeError(f"Tensor has no attribute '{name}': {words}")
    known = [other for other in dir(Tensor) if not other.startswith("_")]
    raise AttributeError(f"Tensor has no attribute '{name}'" + _core.did_you_mean(name, known))


# NumPy's functions behind the operators of arrays, and the operator of a tensor on the right of one.
_ON_THE_RIGHT = {
    **{name: f"__r{name}__" for name in ("add", "matmul")},
    "subtract": "__rsub__",
    "multiply": "__rmul__",
    **dict.fromkeys(("divide", "true_divide"), "__rtruediv__"),
    "floor_divide": "__rfloordiv__",
    "remainder": "__rmod__",
    "power": "__rpow__",
    "less": "__gt__",
    "less_equal": "__ge__",
    "greater": "__lt__",
    "greater_equal": "__le__",
    "equal": "__eq__",
    "not_equal": "__ne__",
    **{f"bitwise_{name}": f"__r{name}__" for name in ("and", "or", "xor")},
}


def _array_ufunc(self, ufunc, method, *inputs, **kwargs):
    """array + x is an operation of x. NumPy's functions are refused: no tape would see them."""
    operator = _ON_THE_RIGHT.get(ufunc.__name__)
    in_place = kwargs.keys() == {"out"} and kwargs["out"][0] is inputs[0]  # array += x
    if operator and method == "__call__" and not isinstance(inputs[0], Tensor) and (not kwargs or in_place):
        # NumPy makes its numbers arrays without axes on the way to here; they count as numbers.
        left = inputs[0][()] if getattr(inputs[0], "shape", None) == () else inputs[0]
        return getattr(inputs[1], operator, lambda other: NotImplemented)(left)
    own = _names.OPERATIONS.get(ufunc.__name__, ufunc.__name__)
    here = f"eg.{ufunc.__name__}(x)" if own in ops.__all__ else "the operation in eg.ops"
    raise TypeError(
        f"np.{ufunc.__name__} takes arrays, and no tape would see it; use {here}, or np.{ufunc.__name__}(np.asarray(x))"
    )


def install():
    for name, operation in _rows.methods():
        if not hasattr(Tensor, name):
            setattr(Tensor, name, _Operation(name, operation))
    for name, function in vars(OtherNames).items():
        if not name.startswith("_"):
            function.__qualname__ = f"Tensor.{name}"
            setattr(Tensor, name, function)
    elements = vars(Tensor)["size"].__get__
    Tensor.size = property(
        lambda x: Size.of(elements(x, Tensor), x.shape), doc="Number of elements; x.size(0) is x.shape[0], as in PyTorch."
    )
    Tensor.__array_ufunc__ = _array_ufunc
    Tensor.mT = property(lambda x: x.T, doc="The last two axes exchanged.")
    Tensor.__getattr__ = _missing


install()
