"""Permutations, keys, and how they move a model's weights."""

from ._core.permute import *
