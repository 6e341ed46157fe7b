"""Parameters, layers and models."""

from collections.abc import Callable, Iterator
from typing import Any

from . import _core, _names, ops
from ._core import Tensor
from ._core.nn import *
from ._core.nn import MultiHeadAttention, Mlp, Module, Parameter, RmsNorm, Vit

MLP, RMSNorm, ViT, MultiheadAttention = Mlp, RmsNorm, Vit, MultiHeadAttention


class Sequential(Module):
    """Calls modules or functions one after the other: Sequential(Linear(3, 8), ReLU(), Linear(8, 2)).

    Parameters are called 0.weight, 0.bias, 2.weight and so on, after the places of their modules.
    """

    def __init__(self, *modules: Module) -> None:
        super().__init__()
        for i, module in enumerate(modules):
            if isinstance(module, (list, tuple)):
                raise TypeError("Sequential: it takes modules one by one: Sequential(*modules)")
            if not isinstance(module, Module):
                raise TypeError(f"Sequential: {module!r} is no Module; a function can be the forward() of a class of your own")
            setattr(self, str(i), module)
        self._count = len(modules)

    def forward(self, x: Tensor) -> Tensor:
        for module in self:
            x = module(x)
        return x

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, i: int | slice) -> Module:
        """Module i, or a Sequential of those that a slice names."""
        if isinstance(i, slice):
            return Sequential(*(self[k] for k in range(self._count)[i]))
        if not -self._count <= i < self._count:
            raise _core.IndexError(f"Sequential: there is no module {i} among {self._count}")
        return getattr(self, str(i % self._count))

    def __iter__(self) -> Iterator[Module]:
        return (self[i] for i in range(self._count))


class Identity(Module):
    """Gives x as it is."""

    def forward(self, x: Tensor) -> Tensor:
        return x


class Flatten(Module):
    """Makes one axis of those from start_dim to end_dim."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(self.start_dim, self.end_dim)


class Softmax(Module):
    """softmax(x) along an axis."""

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        return ops.softmax(x, axis=self.dim)


class ReLU(Module):
    """max(x, 0)."""

    def forward(self, x: Tensor) -> Tensor:
        return ops.relu(x)


class GELU(Module):
    """x Phi(x); approximate="tanh" for the approximation by tanh."""

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        if approximate not in ("none", "tanh"):
            raise ValueError(f"GELU: approximate is 'none' or 'tanh', not {approximate!r}")
        self.approximate = approximate

    def forward(self, x: Tensor) -> Tensor:
        return ops.gelu_tanh(x) if self.approximate == "tanh" else ops.gelu(x)


class SiLU(Module):
    """x sigmoid(x)."""

    def forward(self, x: Tensor) -> Tensor:
        return ops.silu(x)


class Tanh(Module):
    """tanh(x)."""

    def forward(self, x: Tensor) -> Tensor:
        return ops.tanh(x)


class Sigmoid(Module):
    """1 / (1 + exp(-x))."""

    def forward(self, x: Tensor) -> Tensor:
        return ops.sigmoid(x)


class LeakyReLU(Module):
    """x where it is positive, negative_slope x elsewhere."""

    def __init__(self, negative_slope: float = 0.01) -> None:
        super().__init__()
        self.negative_slope = negative_slope

    def forward(self, x: Tensor) -> Tensor:
        return ops.leaky_relu(x, self.negative_slope)


class ELU(Module):
    """x where it is positive, alpha (e^x - 1) elsewhere."""

    def __init__(self, alpha: float = 1.0) -> None:
        super().__init__()
        self.alpha = alpha

    def forward(self, x: Tensor) -> Tensor:
        return ops.elu(x, self.alpha)


class Softplus(Module):
    """log(1 + e^x)."""

    def forward(self, x: Tensor) -> Tensor:
        return ops.softplus(x)


class Mish(Module):
    """x tanh(log(1 + e^x))."""

    def forward(self, x: Tensor) -> Tensor:
        return ops.mish(x)


class LogSoftmax(Module):
    """log softmax(x) along an axis."""

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        return ops.log_softmax(x, axis=self.dim)


_Size = int | tuple[int, int]


def _pool_size(who: str, name: str, value: object, least: int) -> _Size:
    """A number of rows and columns, or both. Raises TypeError or ValueError for anything else."""
    both = value if isinstance(value, (tuple, list)) else (value, value)
    if len(both) != 2 or not all(hasattr(one, "__index__") and not isinstance(one, bool) for one in both):
        raise TypeError(f"{who}: {name} is a number, or two, of rows and columns, not {value!r}")
    if min(both) < least:
        raise _core.ValueError(f"{who}: {name} is {value}; give numbers from {least} on")
    return (int(both[0]), int(both[1])) if isinstance(value, (tuple, list)) else int(both[0])


def _refuse_variants(who: str, given: dict[str, tuple[object, object, str]]) -> None:
    for name, (value, default, way_out) in given.items():
        if value != default:
            raise _core.ValueError(f"{who}: there is no {name}={value!r}; {way_out}")


_CEIL_WORDS = "eg.pad(x, ...) pads rows and columns so that the windows fit"


def _pool_sizes(who: str, kernel_size: _Size, stride: _Size | None, padding: _Size) -> tuple[_Size, _Size, _Size]:
    """(kernel size, stride, padding) of a pool, checked."""
    kernel = _pool_size(who, "kernel_size", kernel_size, 1)
    step = kernel if stride is None else _pool_size(who, "stride", stride, 1)
    return kernel, step, _pool_size(who, "padding", padding, 0)


class MaxPool2d(Module):
    """The largest number of every window of x [N, C, H, W]; stride None: the window's size."""

    def __init__(
        self,
        kernel_size: _Size,
        stride: _Size | None = None,
        padding: _Size = 0,
        dilation: int = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride, self.padding = _pool_sizes("MaxPool2d", kernel_size, stride, padding)
        _refuse_variants(
            "MaxPool2d",
            {
                "dilation": (dilation, 1, "windows are of neighbours"),
                "return_indices": (return_indices, False, "eg.ops.max_pool2d(x, kernel) gives (y, places)"),
                "ceil_mode": (ceil_mode, False, _CEIL_WORDS),
            },
        )

    def forward(self, x: Tensor) -> Tensor:
        return ops.max_pool2d(x, self.kernel_size, stride=self.stride, padding=self.padding).y


class AvgPool2d(Module):
    """The mean of every window of x [N, C, H, W]; stride None: the window's size."""

    def __init__(
        self, kernel_size: _Size, stride: _Size | None = None, padding: _Size = 0, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride, self.padding = _pool_sizes("AvgPool2d", kernel_size, stride, padding)
        _refuse_variants("AvgPool2d", {"ceil_mode": (ceil_mode, False, _CEIL_WORDS)})

    def forward(self, x: Tensor) -> Tensor:
        return ops.avg_pool2d(x, self.kernel_size, stride=self.stride, padding=self.padding)


def _delegate() -> None:
    """Outside a module a Parameter computes as its tensor does."""

    def operator(name: str) -> Callable[..., Any]:
        def apply(self: Parameter, *args: Any) -> Any:
            return getattr(self.value, name)(*args)

        apply.__name__ = name
        return apply

    unary = ("neg", "pos", "abs", "invert", "len", "iter", "getitem", "setitem", "float", "int", "bool", "array", "dlpack", "dlpack_device")
    binary = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul")
    for name in (*unary, *binary, *(f"r{one}" for one in binary), "lt", "le", "gt", "ge"):
        if hasattr(Tensor, f"__{name}__"):
            setattr(Parameter, f"__{name}__", operator(f"__{name}__"))
    def attribute(self: Parameter, name: str) -> Any:
        if name.startswith("__"):  # copies and pickles ask for such
            raise AttributeError(name)
        return getattr(self.value, name)

    setattr(Parameter, "__getattr__", attribute)
    setattr(Parameter, "__array_ufunc__", None)


_delegate()


def __getattr__(name: str) -> object:
    words = _names.MODULE_WORDS.get(name)
    if words is None and name in ops.__all__:
        words = f"functions are in eg.ops: eg.ops.{name}(x)"
    if words is not None:
        raise AttributeError(f"equigrad.nn.{name}: {words}")
    known = [other for other in globals() if not other.startswith("_")]
    raise AttributeError(f"module 'equigrad.nn' has no '{name}'" + _core.did_you_mean(name, known))
