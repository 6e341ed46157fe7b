"""Datasets, the loader, tokenizers, files of tensors and pictures."""

from . import _core, _names
from ._core.data import *


def __getattr__(name):
    if name in _names.WORDS:
        raise AttributeError(f"equigrad.data: {_names.WORDS[name]}")
    known = [other for other in vars(_core.data) if not other.startswith("_")]
    raise AttributeError(f"equigrad.data: there is no '{name}'" + _core.did_you_mean(name, known))
