"""Packs a wheel from a built extension module, the Python files of the tree and the type stubs.

    python make_wheel.py MODULE.so --stubs FOLDER --tag cp312-abi3-linux_x86_64 --out FOLDER

Run by scripts/release.sh at the root of the repository, in an environment that has scikit-build-core, whose metadata
(from pyproject.toml) are used, and wheel. Prints the path of the wheel, which auditwheel then repairs.
"""

import argparse
import contextlib
import io
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def copy_package(folder, module, stubs):
    """The package as `pip install .` lays it out: Python files, stubs, the module."""
    package = folder / "equigrad"
    shutil.copytree(ROOT / "python" / "equigrad", package, ignore=shutil.ignore_patterns("__pycache__"))
    found = sorted(stubs.rglob("*.pyi"))
    if not found:
        sys.exit(f"{stubs}: no type stubs; build the module of the Python that runs first")
    for stub in found:
        (package / stub.relative_to(stubs)).parent.mkdir(exist_ok=True)
        shutil.copyfile(stub, package / stub.relative_to(stubs))
    shutil.copy(module, package / module.name)


def write_metadata(folder, tag):
    from scikit_build_core import build

    os.chdir(ROOT)
    with contextlib.redirect_stdout(io.StringIO()):
        name = build.prepare_metadata_for_build_wheel(str(folder))
    text = f"Wheel-Version: 1.0\nGenerator: equigrad scripts/release/make_wheel.py\nRoot-Is-Purelib: false\nTag: {tag}\n"
    (folder / name / "WHEEL").write_text(text, encoding="utf-8")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("module", type=Path)
    arguments.add_argument("--stubs", type=Path, required=True, help="the package folder of a build that has them")
    arguments.add_argument("--tag", required=True)
    arguments.add_argument("--out", type=Path, required=True)
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        copy_package(folder, options.module.resolve(), options.stubs.resolve())
        out = options.out.resolve()
        write_metadata(folder, options.tag)
        subprocess.run([sys.executable, "-m", "wheel", "pack", str(folder), "-d", str(out)], check=True, stdout=subprocess.DEVNULL)
    (wheel,) = out.glob(f"equigrad-*-{options.tag}.whl")
    print(wheel)


if __name__ == "__main__":
    main()
