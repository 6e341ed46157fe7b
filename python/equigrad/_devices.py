"""Compares the names of devices with the names that people write and with PyTorch's devices."""


def _whole(name: str) -> str:
    return "cuda:0" if name == "cuda" else name


class Device(str):
    """The name of a device, which is equal to the shorter name of the first CUDA device as well: "cuda:0" == "cuda".

    It is equal to PyTorch's device of that name too. It hashes as the name does, so "cuda" does not find it in a set or dict.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if type(other).__module__ == "torch" and type(other).__name__ == "device":
            other = str(other)
        if not isinstance(other, str):
            return NotImplemented
        return _whole(str(self)) == _whole(str(other))

    def __ne__(self, other: object) -> bool:
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    __hash__ = str.__hash__

    def __reduce__(self) -> tuple[type, tuple[str]]:
        return Device, (str(self),)
