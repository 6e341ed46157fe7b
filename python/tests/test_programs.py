"""The twelve programs of docs/python.md run, print what the page says, and pass the type checkers."""

import json
import os
import re
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import equigrad as eg
import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "python.md"
PROGRAMS = sorted((ROOT / "examples" / "python").glob("*.py"))
BEGIN = "<!-- programs: written by python/tests/test_programs.py with EQUIGRAD_WRITE_DOCS=1 -->\n"
END = "<!-- end of programs -->\n"


def png(rows):
    """Rows of (r, g, b) as a PNG."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    raw = b"".join(b"\0" + bytes(value for pixel in row for value in pixel) for row in rows)
    header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")


def class_folders(folder):
    """Left or right half bright."""
    for split, count in (("train", 48), ("test", 16)):
        for name in ("left", "right"):
            place = folder / split / name
            place.mkdir(parents=True)
            for i in range(count):
                bright, dark = (200 + i, 180, 160), (20, 30 + i, 40)
                row = [bright if (x < 8) == (name == "left") else dark for x in range(16)]
                (place / f"{i}.png").write_bytes(png([row] * 16))
    return folder


def output_of(program, folder):
    arguments = [str(class_folders(folder / "photos"))] if "sys.argv" in program.read_text() else []
    result = subprocess.run(
        [sys.executable, str(program), *arguments], capture_output=True, text=True, cwd=folder, timeout=600,
        env={**os.environ, "EQUIGRAD_LEAK_WARNINGS": "1"},
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""  # no bar in a pipe, no leaks
    return result.stdout


def section(program, output):
    title = re.match(r'"""(.*?)"""\n', program.read_text()).group(1)
    code = program.read_text().split('"""\n', 1)[1]
    return (
        f"### {title}\n\n[{program.name}](../examples/python/{program.name})\n\n```python\n{code.strip()}\n```\n\n"
        f"```text\n{output.rstrip()}\n```\n\n"
    )


def sections():
    """What the page says of each program, by its file's name."""
    text = PAGE.read_text()
    between = text[text.index(BEGIN) + len(BEGIN) : text.index(END)]
    return {
        re.search(r"\[([\w.]+)\]", one).group(1): one
        for one in re.split(r"(?=^### )", between, flags=re.MULTILINE)
        if one.strip()
    }


def write(name, words):
    text = PAGE.read_text()
    known = {**sections(), name: words}
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    PAGE.write_text(text[:begin] + "\n" + "".join(known[one].lstrip("\n") for one in sorted(known)) + text[end:])


@pytest.mark.parametrize("program", PROGRAMS, ids=[program.stem for program in PROGRAMS])
def test_it_prints_what_the_page_says(program, tmp_path):
    if "import torch" in program.read_text():
        pytest.importorskip("torch")
    words = section(program, output_of(program, tmp_path))
    if os.environ.get("EQUIGRAD_WRITE_DOCS") == "1":
        write(program.name, words)
    assert sections()[program.name].strip() == words.strip()


def test_there_are_twelve_of_at_most_fifteen_lines():
    assert len(PROGRAMS) == 12
    for program in PROGRAMS:
        code = [
            line
            for line in program.read_text().splitlines()
            if line.strip() and not line.strip().startswith(("#", '"""'))
        ]
        assert len(code) <= 15, program.name
    assert sorted(sections()) == [program.name for program in PROGRAMS]


def test_the_first_one_learns_more_than_chance():
    found = re.search(r"accuracy on the test images: (\d+)%", sections()["01_own_images.py"])
    assert found is not None and int(found.group(1)) >= 90  # of two classes


def test_the_comparison_sees_another_output(tmp_path):
    program = tmp_path / "01_other.py"
    program.write_text('"""Other."""\nprint(1)\n')
    (tmp_path / "folder").mkdir()
    assert "```text\n1\n```" in section(program, output_of(program, tmp_path / "folder"))
    assert section(program, "2\n") != section(program, "1\n")


PACKAGE = Path(eg._core.__file__).parent
SCRIPTS = [*PROGRAMS, ROOT / "examples" / "train_vit.py"]
MISTAKES = """
import equigrad as eg
run = eg.train("vti", "shapes", steps=1)
run = eg.train("vit", "shapes", stps=1)
run = eg.train("vit", "shapes", steps="many")
accuracy: str = run.test
eg.nn.Linear(2)
"""


def mypy(programs, folder):
    pytest.importorskip("mypy")
    return subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--follow-imports=silent", "--cache-dir", str(folder), *map(str, programs)],
        capture_output=True, text=True, env={**os.environ, "MYPYPATH": str(PACKAGE.parent)}, cwd=folder,
    ).stdout  # fmt: skip


@pytest.mark.parametrize("program", SCRIPTS, ids=[program.stem for program in SCRIPTS])
def test_mypy_is_content_in_its_strict_mode(program, tmp_path_factory):
    if "import torch" in program.read_text():
        pytest.importorskip("torch")
    assert mypy([program], tmp_path_factory.getbasetemp()) == ""


def test_mypy_finds_mistakes(tmp_path):
    (tmp_path / "wrong.py").write_text(MISTAKES)
    found = mypy([tmp_path / "wrong.py"], tmp_path)
    for line in (3, 4, 5, 6, 7):
        assert f"wrong.py:{line}: error" in found, (line, found)


def pyright(programs, folder):
    """Of a list of programs: what Pyright says in its strict mode."""
    for name in ("pyright", "basedpyright"):
        try:
            __import__(name)
            break
        except ImportError:
            name = None
    if name is None:
        pytest.skip("pyright is not there (PyPI: basedpyright, which brings what it needs)")
    mode = "# pyright: strict"
    if np.__version__.startswith("1."):  # whose own stubs leave types open
        mode += ", reportUnknownMemberType=false"
    for program in programs:
        (folder / program.name).write_text(f"{mode}\n{program.read_text()}")
    settings = {
        "typeCheckingMode": "strict",
        "extraPaths": [str(PACKAGE.parent)],
        "include": ["."],
        "reportMissingModuleSource": False,
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    return subprocess.run(
        [sys.executable, "-m", name, "-p", str(folder), "--pythonpath", sys.executable],
        capture_output=True,
        text=True,
        timeout=600,
    ).stdout


def test_pyright_is_content_in_its_strict_mode(tmp_path):
    programs = [program for program in SCRIPTS if "import torch" not in program.read_text()]
    found = pyright(programs, tmp_path)
    assert re.search(r"^0 errors", found, flags=re.MULTILINE), found


def test_pyright_finds_mistakes(tmp_path):
    wrong = tmp_path / "wrong.py"
    (tmp_path / "folder").mkdir()
    wrong.write_text(MISTAKES)
    found = pyright([wrong], tmp_path / "folder")
    for line in (4, 5, 6, 7, 8):  # one further: a line stands before the program
        assert f"wrong.py:{line}:" in found, (line, found)
