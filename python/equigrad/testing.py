"""What the rows of the registry know of themselves: calls to try, plain references, symmetries."""

from typing import Any, NamedTuple, Sequence

from . import _core
from ._core import Symmetry, Tensor
from ._core import testing as _testing


class Sample(NamedTuple):
    """A small call of an operation: its inputs (None where an optional one is left out) and its attributes."""

    inputs: list[Tensor | None]
    attributes: dict[str, Any]
    note: str


class Refusal(NamedTuple):
    """A call that must be refused, and words of the message."""

    inputs: list[Tensor | None]
    attributes: dict[str, Any]
    words: str


def samples(op: str, dtype: str = "f64") -> list[Sample]:
    """The row's samples: strided, broadcast, of odd sizes, differentiable where they stand."""
    return [Sample(*sample) for sample in _testing.samples(op, dtype)]


def refusals(op: str) -> list[Refusal]:
    """The calls that the row says must be refused."""
    return [Refusal(*refusal) for refusal in _testing.refusals(op)]


def call(op: str, inputs: Sequence[Tensor | None], attributes: dict[str, Any]) -> list[Tensor | None]:
    """All outputs of a call of a row, those too that serve its gradient alone, on a list of inputs."""
    row = _core.find_op(op)
    result = row(list(inputs), **attributes) if row.variadic else row(*inputs, **attributes)
    return [result] if isinstance(result, Tensor) else result


def reference(op: str, inputs: Sequence[Tensor | None], **attributes: Any) -> list[Tensor]:
    """The row's reference in plain loops, on packed f64 (or integer) inputs."""
    return _testing.reference(op, list(inputs), attributes)


def symmetries(op: str, inputs: Sequence[Tensor | None], **attributes: Any) -> list[Symmetry]:
    """The symmetries that the row declares for a call."""
    return _testing.symmetries(op, list(inputs), attributes)
