"""Optimisers, schedules, clipping."""

from . import _core, _names
from ._core.optim import *
from ._core.optim import Optimizer


def _missing(optimizer, name):
    if name in _names.WORDS:
        raise AttributeError(f"{type(optimizer).__name__} has no attribute '{name}': {_names.WORDS[name]}")
    known = [other for other in dir(type(optimizer)) if not other.startswith("_")]
    raise AttributeError(f"{type(optimizer).__name__} has no attribute '{name}'" + _core.did_you_mean(name, known))


Optimizer.__getattr__ = _missing
