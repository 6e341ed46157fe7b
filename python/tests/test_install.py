"""`pip install .` of a fresh clone into a fresh environment, as docs/python.md says it."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*command, **options):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel that pip builds from what git has of this tree."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    clone, wheels = tmp_path_factory.mktemp("clone") / "equigrad", tmp_path_factory.mktemp("wheels")
    run("git", "clone", "--quiet", ROOT, clone)
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    if shutil.which("ccache"):
        environment |= {"CMAKE_CXX_COMPILER_LAUNCHER": "ccache", "CCACHE_BASEDIR": str(clone), "CCACHE_NOHASHDIR": "1"}
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", wheels, clone, env=environment)
    (found,) = wheels.glob("*.whl")
    return found


def test_the_wheel_holds_the_package_and_no_more(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert all(name.startswith(("equigrad/", "equigrad-")) for name in names), names
    assert not [name for name in names if name.endswith((".h", ".a", ".cpp", ".cmake")) or "__pycache__" in name]
    for needed in ("__init__.py", "ops.py", "ops.pyi", "py.typed", "_core/__init__.pyi", "_core/nn.pyi"):
        assert f"equigrad/{needed}" in names
    (module,) = [name for name in names if name.startswith("equigrad/_core.") and name.endswith(".so")]
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB, module {zipfile.ZipFile(wheel).getinfo(module).file_size / 1e6:.1f} MB")


def test_it_works_in_a_fresh_environment(wheel, tmp_path):
    run(sys.executable, "-m", "venv", tmp_path / "fresh")
    python = tmp_path / "fresh" / "bin" / "python"
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    run(python, "-m", "pip", "install", "--quiet", wheel, env=environment)  # with NumPy from PyPI
    out = run(
        python,
        "-c",
        "import numpy as np, equigrad as eg\n"
        "x = eg.tensor(np.ones((3, 3)))\n"
        "print(eg.grad(lambda x: (x @ x).sum())(x).tolist()[0], eg.__version__, eg.__file__)",
        cwd=tmp_path,
        env=environment,
    )
    version = re.search(r"^project\(equigrad VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE)[1]
    assert out.startswith(f"[6.0, 6.0, 6.0] {version}") and str(tmp_path) in out
    run(python, ROOT / "examples" / "train_vit.py", "--data", "shapes", "--steps", "3", cwd=tmp_path, env=environment)
