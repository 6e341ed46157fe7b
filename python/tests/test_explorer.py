"""The Python programs that the explorer's pages show run, and check what they say."""

import runpy
import sys
from pathlib import Path

import pytest

PROGRAMS = sorted((Path(__file__).parents[2] / "apps/explore/web/code").glob("*.py"))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.name)
def test_program(program, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [str(program)])
    runpy.run_path(str(program), run_name="__main__")
    assert capsys.readouterr().out.strip()


def test_there_are_programs():
    assert len(PROGRAMS) >= 4
