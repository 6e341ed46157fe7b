"""Optimisers, schedules, clipping."""

from . import _core, _names
from ._core.optim import *
from ._core.optim import Optimizer


def __getattr__(name):
    if name in _names.OPTIM_WORDS:
        raise AttributeError(f"equigrad.optim.{name}: {_names.OPTIM_WORDS[name]}")
    known = [other for other in vars(_core.optim) if not other.startswith("_")]
    raise AttributeError(f"equigrad.optim: there is no '{name}'" + _core.did_you_mean(name, known))


def _missing(optimizer, name):
    words = _names.OPTIM_WORDS.get(name) or _names.WORDS.get(name)
    if words is not None:
        raise AttributeError(f"{type(optimizer).__name__} has no attribute '{name}': {words}")
    known = [other for other in dir(type(optimizer)) if not other.startswith("_")]
    raise AttributeError(f"{type(optimizer).__name__} has no attribute '{name}'" + _core.did_you_mean(name, known))


Optimizer.__getattr__ = _missing
