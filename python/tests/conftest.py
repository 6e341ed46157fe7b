"""Shared by the tests of the Python module: the package is found by PYTHONPATH, as CTest and scripts/python.sh set it."""

import numpy as np
import pytest


@pytest.fixture
def rng(request):
    """Random numbers that depend on the test's name alone."""
    return np.random.default_rng(sum(map(ord, request.node.name)))
