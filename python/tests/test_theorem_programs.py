"""The Python programs of docs/theorems print what their pages say, as the C++ programs beside them do."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "theorems"
PROGRAMS = sorted(p for p in (FOLDER / "programs").glob("*.py") if p.stem != "theorem")


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.stem)
def test_program(program):
    page = (FOLDER / f"{program.stem}.md").read_text()
    run = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout == re.search(r"```text\n(.*?)```", page, flags=re.DOTALL)[1]
    assert ": fails, as it must\n" in run.stdout


def test_every_page_has_a_program():
    pages = sorted(p.stem for p in FOLDER.glob("*.md") if p.stem != "README")
    assert pages == [p.stem for p in PROGRAMS]


def test_a_program_that_fails_says_so(tmp_path):
    program = tmp_path / "wrong.py"
    program.write_text("from theorem import *\nx = normal(3)\nholds('x = x + 1', x, x + 1.0)\nverdict()\n")
    path = {"PYTHONPATH": ":".join([str(FOLDER / "programs"), *sys.path]), "PYTHONDONTWRITEBYTECODE": "1"}
    run = subprocess.run([sys.executable, program], capture_output=True, text=True, env=path)
    assert (run.returncode, run.stdout) == (1, "x = x + 1: FAILS\n"), run.stderr
