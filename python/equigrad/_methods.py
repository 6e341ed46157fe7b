"""Methods of Tensor: the operations on one tensor, and other libraries' names."""

import math
from collections.abc import Sequence

from . import _core, _names, _rows, ops
from ._core import Tensor


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

    def max(self: Tensor, axis: "builtins.int | None" = None, dim: "builtins.int | None" = None) -> Tensor:
        """The largest element along an axis, or of all."""
        return _along(ops.max, ops.amax, self, axis, dim)

    def min(self: Tensor, axis: "builtins.int | None" = None, dim: "builtins.int | None" = None) -> Tensor:
        """The smallest element along an axis, or of all."""
        return _along(ops.min, ops.amin, self, axis, dim)

    def argmax(self: Tensor, axis: "builtins.int | None" = None, dim: "builtins.int | None" = None) -> Tensor:
        """The place of the first largest element along an axis, or among all in row-major order."""
        return _along(ops.argmax, lambda x: ops.argmax(x.reshape(-1)), self, axis, dim)

    def argmin(self: Tensor, axis: "builtins.int | None" = None, dim: "builtins.int | None" = None) -> Tensor:
        """The place of the first smallest element along an axis, or among all in row-major order."""
        return _along(ops.argmin, lambda x: ops.argmin(x.reshape(-1)), self, axis, dim)

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


def _along(one, all_of_them, x, axis, dim):
    axis = _one_of(axis, dim)
    return all_of_them(x) if axis is None else one(x, axis=axis)


# Functions of the package that differ from those of equigrad.ops, whose axis is the last one unless it is given.
FUNCTIONS = {
    **{name: getattr(OtherNames, name) for name in ("max", "min", "argmax", "argmin", "squeeze", "unique", "quantile", "pad")},
    "einsum": einsum,
    "meshgrid": _listed("meshgrid"),
    "block_diag": _listed("block_diag"),
}


def _missing(tensor, name):
    if name in _names.WORDS:
        raise AttributeError(f"Tensor has no attribute '{name}': {_names.WORDS[name]}")
    known = [other for other in dir(Tensor) if not other.startswith("_")]
    raise AttributeError(f"Tensor has no attribute '{name}'" + _core.did_you_mean(name, known))


def install():
    for name, operation in _rows.methods():
        if not hasattr(Tensor, name):
            setattr(Tensor, name, _Operation(name, operation))
    for name, function in vars(OtherNames).items():
        if not name.startswith("_"):
            function.__qualname__ = f"Tensor.{name}"
            setattr(Tensor, name, function)
    Tensor.mT = property(lambda x: x.T, doc="The last two axes exchanged.")
    Tensor.__getattr__ = _missing


install()
