"""The program that compares with transformers sees every number, and every word it was given."""

import importlib.util
import math
from pathlib import Path

import pytest

NEEDED = ("torch", "transformers", "timm", "safetensors")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")
if not MISSING:
    import torch


@pytest.fixture(scope="module")
def program():
    path = Path(__file__).parents[2] / "tests/golden/transformers_compare.py"
    spec = importlib.util.spec_from_file_location("transformers_compare", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("whose", ["ours", "theirs", "both"])
def test_numbers_that_are_not_finite_are_seen_in_any_tensor(program, bad, whose):
    good = torch.tensor([1.0, 2.0])
    broken = torch.tensor([1.0, bad])
    ours, theirs = (broken if whose in (side, "both") else good for side in ("ours", "theirs"))
    for first in (program.error(good, good), program.gradient_error("weight", good, good, 2.0)):
        assert first == 0.0
        for name in ("weight", "key.bias"):
            assert max(first, program.gradient_error(name, ours, theirs, 2.0)) == math.inf
        assert max(first, program.error(ours, theirs)) == math.inf
        assert max(first, program.difference(ours, theirs, 2.0)) == math.inf


def test_shapes_and_masks(program):
    a = torch.tensor([[1.0, 4.0], [2.0, 3.0]])
    assert program.error(a, a[:1]) == math.inf
    mask = torch.tensor([[1, 0], [1, 1]])
    assert program.error(a + torch.tensor([[0.0, 9.0], [0.0, 0.0]]), a, mask) == 0.0
    assert program.gradient_error("key.bias", a + 1.0, 0.0 * a, 100.0) == 0.05


def test_words_that_choose_nothing_are_refused(program):
    program.refuse_lost([], 0)
    program.refuse_lost(["bert", "fresh", "quantization_config"], 1)
    for words, drawn in ((["bert", "no such case"], 1), (["fresh"], 0)):
        with pytest.raises(SystemExit, match="no case .* holds '(no such case|fresh)'"):
            program.refuse_lost(words, drawn)
