"""Datasets, the loader, safetensors files."""

from ._core.data import *
