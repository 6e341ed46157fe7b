"""What pickled values are rebuilt with."""

from . import _core


def tensor(data, shape, dtype):
    """A tensor of packed bytes."""
    return _core._from_bytes(data, shape, dtype)
