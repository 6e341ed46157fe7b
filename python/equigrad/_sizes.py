"""The number of elements of a tensor, which PyTorch's users call: x.size() is the shape there, x.size(0) an extent."""

from typing import overload


class Size(int):
    """The number of elements, as NumPy has it; called it is PyTorch's size(): the shape, or an extent."""

    _shape: tuple[int, ...]

    @classmethod
    def of(cls, elements: int, shape: tuple[int, ...]) -> "Size":
        size = cls(elements)
        size._shape = shape
        return size

    @overload
    def __call__(self) -> tuple[int, ...]: ...
    @overload
    def __call__(self, dim: int) -> int: ...
    def __call__(self, dim: int | None = None) -> int | tuple[int, ...]:
        return self._shape if dim is None else self._shape[dim]

    def __reduce__(self) -> tuple[type[int], tuple[int]]:
        return int, (int(self),)
