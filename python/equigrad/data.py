"""Datasets, the loader, tokenizers, files of tensors and pictures."""

from ._core.data import *
