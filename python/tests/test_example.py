"""The script that teaches runs as it stands, and learns."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "train_vit.py"


def run(*arguments):
    result = subprocess.run(
        [sys.executable, str(EXAMPLE), *arguments], capture_output=True, text=True, timeout=600
    )
    assert result.returncode == 0, result.stderr
    difference = float(re.search(r"differ by ([\d.e+-]+)", result.stdout).group(1))
    assert 0 < difference < 1e-4
    return [float(x) for x in re.findall(r"loss (\d+\.\d+)", result.stdout)]


def test_it_runs_on_generated_shapes():
    assert len(run("--data", "shapes", "--steps", "25")) == 3


def test_it_learns_real_images():
    folder = Path(os.environ.get("EQUIGRAD_DATA", "/nowhere")) / "fashion-mnist"
    if not folder.is_dir():
        pytest.skip("fashion-mnist is not there (EQUIGRAD_DATA)")
    losses = run("--data", "fashion-mnist", "--steps", "120")
    assert losses[-1] < 0.8 * losses[0]


def test_it_is_short():
    code = [line for line in EXAMPLE.read_text().splitlines() if line.strip() and not line.lstrip().startswith("#")]
    assert len(code) < 60
