"""The programs in the pages run."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def programs():
    for page in ("README.md", "docs/python.md", "docs/tokenizers.md"):
        text = (ROOT / page).read_text()
        text = re.sub(r"<!-- programs:.*<!-- end of programs -->", "", text, flags=re.DOTALL)  # test_programs runs them
        for number, program in enumerate(re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)):
            yield pytest.param(program, id=f"{page}[{number}]")


@pytest.mark.parametrize("program", list(programs()))
def test_program(program, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(program, "page", "exec"), {})


def test_there_are_programs():
    assert len(list(programs())) >= 4
