#!/usr/bin/env python3
"""make_notebooks.py OUT: writes the notebooks, which are kept as Python files with cells (# %%), as .ipynb files into OUT."""

import json
import pathlib
import re
import shutil
import sys

HERE = pathlib.Path(__file__).resolve().parent / "notebooks"


def cells(text: str):
    """A cell for each "# %%" line; "# %% [markdown]" begins one whose lines are comments."""
    parts = re.split(r"^# %%(.*)\n", text, flags=re.MULTILINE)
    if parts[0].strip():
        raise SystemExit("a notebook begins with a cell: # %%")
    for number, (head, body) in enumerate(zip(parts[1::2], parts[2::2])):
        kind = "markdown" if head.strip() == "[markdown]" else "code"
        body = body.strip("\n")
        if kind == "markdown":
            body = re.sub(r"^# ?", "", body, flags=re.MULTILINE)
        cell = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": body.splitlines(keepends=True)}
        yield cell | ({"execution_count": None, "outputs": []} if kind == "code" else {})


def main(out: pathlib.Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    for path in sorted(HERE.glob("0*.py")):
        notebook = {"cells": list(cells(path.read_text())), "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
        (out / f"{path.stem}.ipynb").write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")
    shutil.copy(HERE / "draw.py", out)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(pathlib.Path(sys.argv[1]))
