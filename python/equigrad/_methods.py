"""Methods of Tensor: the operations on one tensor, and other libraries' names."""

import math

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


def _along(one, all_of_them, x, axis, dim):
    if axis is not None and dim is not None:
        raise TypeError("axis and dim are the same: give one")
    axis = dim if axis is None else axis
    return all_of_them(x) if axis is None else one(x, axis=axis)


# Functions of the package that differ from those of equigrad.ops, whose axis is the last one unless it is given.
FUNCTIONS = {name: getattr(OtherNames, name) for name in ("max", "min", "argmax", "argmin")}


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
