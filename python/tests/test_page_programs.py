"""The Python programs of docs/theorems and docs/ops print what their pages say, as the C++ programs beside them do."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
SHARED = {"theorems": "theorem", "ops": "page"}  # what the programs of a folder share
PROGRAMS = [
    program
    for folder, shared in SHARED.items()
    for program in sorted((DOCS / folder / "programs").glob("*.py"))
    if program.stem != shared
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: f"{p.parents[1].name}/{p.stem}")
def test_program(program):
    page = (program.parents[1] / f"{program.stem}.md").read_text()
    run = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout == re.search(r"```text\n(.*?)```", page, flags=re.DOTALL)[1]
    assert ": fails, as it must\n" in run.stdout


@pytest.mark.parametrize("folder", SHARED)
def test_every_page_has_a_program(folder):
    pages = sorted(p.stem for p in (DOCS / folder).glob("*.md") if p.stem != "README")
    assert pages == [p.stem for p in PROGRAMS if p.parents[1].name == folder]


@pytest.mark.parametrize(
    ("folder", "program"),
    [
        ("theorems", "from theorem import *\nx = normal(3)\nholds('x = x + 1', x, x + 1.0)\nverdict()\n"),
        ("ops", "from page import *\nx = normal(3)\nholds('x = x + 1', x, x + 1.0)\nverdict()\n"),
    ],
)
def test_a_program_that_fails_says_so(folder, program, tmp_path):
    path = {"PYTHONPATH": ":".join([str(DOCS / folder / "programs"), *sys.path]), "PYTHONDONTWRITEBYTECODE": "1"}
    wrong = tmp_path / "wrong.py"
    wrong.write_text(program)
    run = subprocess.run([sys.executable, wrong], capture_output=True, text=True, env=path)
    assert (run.returncode, run.stdout) == (1, "x = x + 1: FAILS\n"), run.stderr
