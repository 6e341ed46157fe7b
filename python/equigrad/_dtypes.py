"""Compares the names of element types with the types of NumPy and PyTorch."""

import numpy as np

_EQUAL_TO = {"float32": "f32", "float64": "f64", "int64": "i64", "uint8": "u8", "bool": "bool", "bfloat16": "bf16"}


def _is_type(dtype: object) -> bool:
    return isinstance(dtype, (type, np.dtype)) or (type(dtype).__module__, type(dtype).__name__) == ("torch", "dtype")


def name_of(dtype: object) -> str | None:
    """The library's name of a type that another library names or has; None for one that the library lacks."""
    if isinstance(dtype, str):
        return _EQUAL_TO.get(dtype, dtype)
    if not _is_type(dtype):
        return None
    if type(dtype).__module__ == "torch":
        return _EQUAL_TO.get(str(dtype).removeprefix("torch."))
    try:
        known = np.dtype(dtype)
    except TypeError:
        return None
    return _EQUAL_TO.get(known.name) if known.isnative else None


class DType(str):
    """The name of an element type, which is equal to NumPy's and PyTorch's type of the same elements as well.

    It hashes as the name does, so it is not found in a set or dict of those types.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        name = name_of(other)
        if name is not None:
            return str.__eq__(self, name)
        # A type without a counterpart is another one. Asked in its turn, NumPy would read the name as its own: "u8" has
        # 8 bytes there.
        return False if _is_type(other) else NotImplemented

    def __ne__(self, other: object) -> bool:
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    __hash__ = str.__hash__

    def __reduce__(self) -> tuple[type, tuple[str]]:
        return DType, (str(self),)


NAMES = {name: DType(name) for name in _EQUAL_TO.values()}

float32, float64, int64, uint8, bfloat16 = (NAMES[name] for name in ("f32", "f64", "i64", "u8", "bf16"))
