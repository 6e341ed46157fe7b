"""The wheels that scripts/release.sh makes: their tags, size, libraries and symbols, and that they work without a compiler.

`./test.sh wheel` makes them and names their folder in EQUIGRAD_DIST. Without it the controls alone run.
"""

import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytest.importorskip("elftools", reason="pyelftools, which reads libraries, is not installed")
sys.path.insert(0, str(ROOT / "scripts" / "release"))
import check_wheel  # noqa: E402

DIST = os.environ.get("EQUIGRAD_DIST")
WHEELS = sorted(Path(DIST).glob("*.whl")) if DIST else []
needs_wheels = pytest.mark.skipif(not WHEELS, reason="no wheels in EQUIGRAD_DIST (./test.sh wheel makes them)")


def version():
    return re.search(r"^project\(equigrad VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE)[1]


def run(*command, **options):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@needs_wheels
@pytest.mark.parametrize("wheel", WHEELS, ids=lambda wheel: wheel.name)
def test_a_wheel_is_what_its_name_says(wheel):
    faults, line = check_wheel.faults_of(wheel)
    print(f"{wheel.name}: {line}")
    assert faults == []
    assert wheel.name.startswith(f"equigrad-{version()}-")
    names = zipfile.ZipFile(wheel).namelist()
    assert all(name.startswith(("equigrad/", "equigrad.libs/", f"equigrad-{version()}.dist-info/")) for name in names)
    for needed in ("__init__.py", "ops.py", "ops.pyi", "py.typed", "_core/__init__.pyi", "_core/nn.pyi"):
        assert f"equigrad/{needed}" in names
    in_tree = {path.name for path in (ROOT / "python" / "equigrad").iterdir() if path.name != "__pycache__"}
    assert in_tree <= {name.split("/")[1] for name in names if name.startswith("equigrad/")}


@needs_wheels
def test_the_sums_are_those_of_the_files():
    run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=DIST)


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    """Python of a new environment in which pip chose one of the wheels, with NumPy from PyPI."""
    if not WHEELS:
        pytest.skip("no wheels in EQUIGRAD_DIST (./test.sh wheel makes them)")
    folder = tmp_path_factory.mktemp("fresh")
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    run(python, "-m", "pip", "install", "--quiet", "numpy", env=environment)
    run(python, "-m", "pip", "install", "--quiet", "--no-index", "--only-binary=:all:", "--find-links", DIST, "equigrad", env=environment)
    return lambda *words, **options: run(python, *words, env=environment, **options)


def test_it_trains(fresh, tmp_path):
    out = fresh("-c", "import equigrad as eg; print(eg.__version__, eg.__file__, eg.system())", cwd=tmp_path)
    assert out.startswith(version()) and "site-packages" in out
    fresh(ROOT / "examples" / "train_vit.py", "--data", "shapes", "--steps", "3", cwd=tmp_path)


def test_how_long_an_import_takes(fresh, tmp_path):
    """Reported: a busy machine must not fail it. The best of five, NumPy's own import beside it."""
    clock = "import time; t, c = time.perf_counter(), time.process_time(); import {}; print(time.perf_counter() - t, time.process_time() - c)"
    for name in ("numpy", "equigrad"):
        times = [fresh("-c", clock.format(name), cwd=tmp_path).split() for _ in range(5)]
        wall, cpu = (min(float(one[i]) for one in times) for i in range(2))
        print(f"import {name}: {wall:.3f} s, {cpu:.3f} s of processor time (equigrad's holds NumPy's; at most 0.3 s is wanted)")


# What in the module depends on how it was built: packed files, buffers, arguments, pickles, threads and signals.
SUITES = ("archives", "arrays", "autograd", "copies", "files", "idioms", "modules", "numbers", "ops", "permute_and_data", "tensor")


def test_the_tests_of_the_module_pass(fresh, tmp_path):
    fresh("-m", "pip", "install", "--quiet", "pytest")
    tests = tmp_path / "tests"
    shutil.copytree(ROOT / "python" / "tests", tests, ignore=shutil.ignore_patterns("__pycache__"))
    print(fresh("-m", "pytest", "-q", "-p", "no:cacheprovider", *(tests / f"test_{name}.py" for name in SUITES), cwd=tmp_path))


# --- controls: each fault is planted, and must be seen ---


def small_wheel(folder, libraries, tag="cp311-cp311-manylinux_2_34_x86_64", module="_core.cpython-311-x86_64-linux-gnu.so"):
    path = folder / f"equigrad-1-{tag}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("equigrad-1.dist-info/WHEEL", f"Wheel-Version: 1.0\nTag: {tag}\n")
        archive.write(libraries[0], f"equigrad/{module}")
        for library in libraries[1:]:
            archive.write(library, f"equigrad.libs/{library.name}")
    return path


@pytest.fixture(scope="module")
def compiler(tmp_path_factory):
    """Makes a library from C, linked with what the words say."""
    found = shutil.which("cc") or shutil.which("gcc")
    if found is None or os.uname().machine != "x86_64":
        pytest.skip("the planted libraries are made by a C compiler on x86-64")
    folder = tmp_path_factory.mktemp("libraries")

    def build(name, source, *words):
        (folder / "source.c").write_text(source)
        run(found, "-shared", "-fPIC", "-o", folder / name, folder / "source.c", *words)
        return folder / name

    return build


PLAIN = "int equigrad_value(void) { return 1; }\n"


def test_a_wheel_without_fault_has_none(compiler, tmp_path):
    faults, line = check_wheel.faults_of(small_wheel(tmp_path, [compiler("plain.so", PLAIN)]))
    assert faults == [] and "0.0 MB" in line


def faults_of(*arguments, **options):
    return "; ".join(check_wheel.faults_of(small_wheel(*arguments, **options))[0])


def test_planted_faults_of_libraries_are_seen(compiler, tmp_path):
    plain = compiler("plain.so", PLAIN)
    other = compiler("libequigrad_other.so", PLAIN, "-Wl,-soname,libequigrad_other.so.7")
    needs_other = compiler("needs.so", PLAIN, "-Wl,--no-as-needed", other)
    assert "needs libequigrad_other.so.7, which is neither" in faults_of(tmp_path, [needs_other])
    forbidden = compiler("libarchive-1234.so.13", PLAIN)
    assert "it holds libarchive-1234.so.13" in faults_of(tmp_path, [plain, forbidden])
    for word in ("curl", "ssl", "crypto", "icudata", "xml2", "openblas"):
        assert f"it holds lib{word}.so" in faults_of(tmp_path, [plain, compiler(f"lib{word}.so", PLAIN)])


def test_symbols_of_a_newer_system_are_seen(compiler, tmp_path, monkeypatch):
    """A library that needs a version of this machine's glibc, held against an older limit."""
    uses_glibc = compiler("uses.so", "#include <stdio.h>\nint equigrad_value(void) { return puts(\"\"); }\n")
    assert faults_of(tmp_path, [uses_glibc]) == ""
    monkeypatch.setitem(check_wheel.NEWEST, "GLIBC", (2, 2, 4))
    assert "linux-gnu.so needs GLIBC_2.2.5, which Ubuntu 22.04 does not have" in faults_of(tmp_path, [uses_glibc])


def test_planted_faults_of_tags_and_size_are_seen(compiler, tmp_path, monkeypatch):
    plain = compiler("plain.so", PLAIN)
    assert "is for a glibc after 2.34" in faults_of(tmp_path, [plain], tag="cp311-cp311-manylinux_2_36_x86_64")
    assert "is not of the form" in faults_of(tmp_path, [plain], tag="cp311-cp311-linux_x86_64")
    assert "the tag wants _core.abi3.so" in faults_of(tmp_path, [plain], tag="cp312-abi3-manylinux_2_34_x86_64")
    assert faults_of(tmp_path, [plain], tag="cp312-abi3-manylinux_2_34_x86_64", module="_core.abi3.so") == ""
    planted = faults_of(tmp_path, [plain, plain], tag="cp311-cp311-manylinux_2_34_aarch64")
    assert "plain.so is for x86_64" in planted
    monkeypatch.setattr(check_wheel, "MOST_BYTES", plain.stat().st_size - 1)
    assert "MB installed; at most" in faults_of(tmp_path, [plain])
