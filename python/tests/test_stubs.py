"""The type stubs say what there is."""

import ast
import inspect
import os
import subprocess
import sys
from pathlib import Path

import equigrad as eg
import pytest

PACKAGE = Path(eg._core.__file__).parent
SCRIPT = Path(__file__).parents[1] / "stubs.py"


def definitions(path):
    """Top-level functions and classes of a stub."""
    return {node.name: node for node in ast.parse(path.read_text()).body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}


def test_every_op_has_a_stub_with_its_parameters():
    stubs = definitions(PACKAGE / "ops.pyi")
    for name in eg.ops.__all__:
        arguments = stubs[name].args
        found = [a.arg for a in arguments.args + arguments.kwonlyargs]
        own = list(inspect.signature(getattr(eg.ops, name)).parameters)
        assert found[: len(own)] == own
        # Behind them only other libraries' names, which the function takes as well.
        for other in found[len(own) :]:
            assert other in OTHER_NAMES, (name, other)
            with pytest.raises(Exception) as refused:
                getattr(eg.ops, name)(**{other: OTHER_NAMES[other], "nothing": None})
            assert "nothing" in str(refused.value) and f"'{other}'" not in str(refused.value)
        assert ast.get_docstring(stubs[name]) == eg._core.find_op(name).math


OTHER_NAMES = {
    **dict.fromkeys(("axis", "dim", "dims", "axes", "correction", "ddof"), 0),
    **dict.fromkeys(("keepdim", "keepdims"), True),
    **dict.fromkeys(("eps", "epsilon"), 1e-5),
}


def test_the_package_names_what_it_exports():
    """__all__ is a list that type checkers can read, so it is compared with what there is."""
    there = {name for name in vars(eg) if not name.startswith("_")} - {"IndexError", "MemoryError", "ValueError"}
    there -= set(eg.ops.__all__) - {"permute"}  # operations, once they were asked for
    there -= {*eg._names.OPERATIONS, *eg._methods.FUNCTIONS}
    assert set(eg.__all__) == there and len(eg.__all__) == len(set(eg.__all__))


PARTS = ["", *(name for name, value in vars(eg._core).items() if inspect.ismodule(value))]


@pytest.mark.parametrize("part", PARTS)
def test_every_public_name_of_the_extension_is_in_its_stub(part):
    module = getattr(eg._core, part) if part else eg._core
    text = (PACKAGE / "_core" / f"{part or '__init__'}.pyi").read_text()
    ast.parse(text)
    stubs = definitions(PACKAGE / "_core" / f"{part or '__init__'}.pyi")
    assert stubs
    for name, value in vars(module).items():
        if not name.startswith("_") and not inspect.ismodule(value):
            assert name in stubs or f"\n{name}" in text, f"{name} has no stub"


def test_stubs_are_up_to_date():
    pytest.importorskip("nanobind")
    result = subprocess.run([sys.executable, str(SCRIPT), str(PACKAGE), "--check"], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_the_check_sees_a_stale_stub(tmp_path):
    pytest.importorskip("nanobind")
    for source in PACKAGE.iterdir():
        if source.name not in ("_core", "__pycache__"):
            (tmp_path / source.name).symlink_to(source.resolve())
    (tmp_path / "ops.pyi").unlink()
    (tmp_path / "ops.pyi").write_text("def nothing(): ...\n")
    result = subprocess.run([sys.executable, str(SCRIPT), str(tmp_path), "--check"], capture_output=True, text=True)
    assert result.returncode == 1 and "ops.pyi is out of date" in result.stderr


def checked(program, folder):
    """What mypy says of a program that uses the package."""
    pytest.importorskip("mypy")
    result = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", "--ignore-missing-imports", "--cache-dir", str(folder), program],
        capture_output=True,
        text=True,
        env={**os.environ, "MYPYPATH": str(PACKAGE.parent)},
    )
    return result.stdout


def test_a_type_checker_agrees_with_the_example(tmp_path):
    assert checked(str(Path(__file__).parents[2] / "examples" / "train_vit.py"), tmp_path) == ""


def test_a_type_checker_finds_mistakes(tmp_path):
    program = tmp_path / "wrong.py"
    program.write_text(
        "import equigrad as eg\n"
        "x = eg.ones((2, 3))\n"
        "eg.ops.softmax(x, axis='last')\n"
        "eg.ops.softmx(x)\n"
        "eg.nn.Linear(2)\n"
        "values: int = eg.ops.topk(x, k=1).values\n"
    )
    found = checked(str(program), tmp_path)
    for line, words in [(3, "incompatible type"), (4, "softmx"), (5, "out_features"), (6, "Incompatible types")]:
        assert any(f":{line}:" in message and words in message for message in found.splitlines()), found
