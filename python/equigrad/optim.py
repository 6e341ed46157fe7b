"""Optimisers, schedules, clipping."""

from ._core.optim import *
