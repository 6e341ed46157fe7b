"""Counter-based random numbers: a number depends on its key and place alone."""

from ._core.random import *
