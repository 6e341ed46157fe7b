"""Parameters, layers and models."""

from ._core.nn import *
