"""The course: its notebooks run from start to end, the stubs are unfinished, the solutions are right, and mistakes are named."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

COURSE = Path(__file__).parents[2] / "docs" / "course"
NOTEBOOKS = sorted((COURSE / "notebooks").glob("0*.py"))
ENVIRONMENT = {**os.environ, "MPLBACKEND": "Agg", "PYTHONDONTWRITEBYTECODE": "1"}


def run(*arguments, cwd):
    return subprocess.run(
        [sys.executable, *map(str, arguments)], cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, timeout=600
    )


def verdicts(result):
    return re.findall(r"^\d \w+ +(right|wrong|open) ", result.stdout, flags=re.MULTILINE)


def test_there_are_six_notebooks():
    assert [path.name[:2] for path in NOTEBOOKS] == ["01", "02", "03", "04", "05", "06"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path, tmp_path):
    result = run(path, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert not list(tmp_path.iterdir())  # it leaves nothing behind


@pytest.mark.parametrize("matplotlib", [True, False])
def test_matrices_are_drawn_or_printed(matplotlib, tmp_path):
    if matplotlib:
        pytest.importorskip("matplotlib")
    program = "import numpy, draw; draw.matrices({'a': numpy.eye(2), 'b': -numpy.eye(2)}); draw.curves({'loss': [2.0, 1.0]}, log=True)"
    hidden = "import sys; sys.modules['matplotlib'] = None; "
    result = run("-c", ("" if matplotlib else hidden) + program, cwd=COURSE / "notebooks")
    assert result.returncode == 0, result.stderr
    assert ("matplotlib is not installed" in result.stdout) != matplotlib
    assert matplotlib or ("+1.00" in result.stdout and "loss" in result.stdout)


def test_notebooks_as_ipynb(tmp_path):
    result = run(COURSE / "make_notebooks.py", tmp_path / "out", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "out" / "draw.py").is_file()
    for path in NOTEBOOKS:
        notebook = json.loads((tmp_path / "out" / f"{path.stem}.ipynb").read_text())
        assert notebook["nbformat"] == 4 and len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
        kinds = [cell["cell_type"] for cell in notebook["cells"]]
        assert kinds[0] == "markdown" and kinds.count("code") >= 4 and kinds.count("markdown") >= 4
        for cell in notebook["cells"]:
            text = "".join(cell["source"])
            assert text.strip() and "# %%" not in text
            if cell["cell_type"] == "code":
                compile(text, path.name, "exec")
                assert cell["outputs"] == [] and cell["execution_count"] is None
            else:
                assert not any(line.startswith("# %%") or line == "#" for line in text.splitlines())
        lines = [line for line in path.read_text().splitlines() if line.strip() and not line.startswith("#")]
        code = [
            c for cell in notebook["cells"] if cell["cell_type"] == "code" for c in "".join(cell["source"]).splitlines()
        ]
        assert lines == [line for line in code if line.strip() and not line.startswith("#")]


def test_a_converted_notebook_runs_cell_by_cell(tmp_path):
    assert run(COURSE / "make_notebooks.py", tmp_path, cwd=tmp_path).returncode == 0
    cells = json.loads((tmp_path / f"{NOTEBOOKS[0].stem}.ipynb").read_text())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    program = f"import sys; sys.path.insert(0, '.')\nscope = {{}}\nfor cell in {code!r}: exec(cell, scope)"
    result = run("-c", program, cwd=tmp_path)
    assert result.returncode == 0, result.stderr


def test_every_stub_is_open(tmp_path):
    result = run(COURSE / "check.py", cwd=tmp_path)
    assert result.returncode == 1 and verdicts(result) == ["open"] * 6, result.stdout


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("folder", [COURSE / "solutions", Path(__file__).parent / "course"], ids=["ours", "others"])
def test_every_solution_is_right(folder, seed, tmp_path):
    result = run(COURSE / "check.py", "all", folder, "--seed", seed, cwd=tmp_path)
    assert result.returncode == 0 and verdicts(result) == ["right"] * 6, result.stdout


# (exercise, part of its solution, what stands there instead, what the verdict must say)
MISTAKES = [
    (1, "y * (cotangent - (cotangent * y).sum(-1, keepdim=True))", "y * cotangent", "a sum is missing"),
    (
        1,
        "y * (cotangent - (cotangent * y).sum(-1, keepdim=True))",
        "y * (1 - y) * cotangent",
        "the diagonal of the Jacobian alone",
    ),
    (1, "(cotangent * y).sum(-1, keepdim=True)", "(cotangent * y).sum()", "along the last axis alone"),
    (1, "(cotangent * y).sum(-1, keepdim=True)", "cotangent.sum(-1, keepdim=True)", "dl/dx sums to 0"),
    (1, "return y * (cot", "return -1.0 * y * (cot", "the sign is wrong"),
    (1, "return y * (cot", "return 2.0 * y * (cot", "the rows sum to 0, as they must"),
    (1, "return y * (", "return (y * y) / y * (", "do not divide by it"),
    (1, "return y * (cot", "y = y.detach()\n    return y * (cot", "the second is wrong"),
    (
        1,
        "y * (cotangent - (cotangent * y).sum(-1, keepdim=True))",
        "eg.ops.softmax_backward(cotangent, y)",
        "library's own derivative",
    ),
    (1, "y * (cotangent - (cotangent * y).sum(-1, keepdim=True))", "cotangent.numpy()", "give an eg.Tensor"),
    (
        2,
        "len({p[h * size + i] // size for i in range(size)}) == 1",
        "sorted(p[h * size + i] % size for i in range(size)) == list(range(size))",
        "heads, p =",
    ),
    (
        2,
        "len({p[h * size + i] // size for i in range(size)}) == 1",
        "all(p[h * size + i] // size == h for i in range(size))",
        "whole heads may change places",
    ),
    (2, "return all(", "return True or all(", "elements end in two heads"),
    (2, "return 0, size", "return 0, 1", "both are in one head"),
    (2, "return 0, size", "return 3, 3", "the identity breaks nothing"),
    (2, "return None", "return 0, 1", "give None"),
    (2, "if heads == 1 or size == 1:", "if True:", "there are permutations that break"),
    (3, "*(2 * a + i for i in v)", "*(2 * a + i for i in qk)", "in the part of the values"),
    (
        3,
        '"attention.proj.weight": [residual, v]',
        '"attention.proj.weight": [v, residual]',
        "its rows and columns are wrong",
    ),
    (
        3,
        '"mlp.fc2.weight": [residual, hidden]',
        '"mlp.fc2.weight": [residual, range(len(hidden))]',
        "its columns are wrong",
    ),
    (3, '"norm2.bias": [residual]', '"norm2.bias": [range(len(residual))]', "norm2.bias did not move"),
    (3, '        "mlp.fc1.bias": [hidden],\n', "", "missing: mlp.fc1.bias"),
    (
        3,
        "state[name][np.ix_(*permutations)]",
        "state[name][np.ix_(*map(np.argsort, permutations))]",
        "moved with the inverse permutations",
    ),
    (3, "    a = len(qk)\n", "    a = len(qk)\n    state['norm1.bias'] *= 2.0\n", "leave `state` as it is"),
    (
        4,
        "    twin.load_state_dict(element.move_state(model.state_dict()))\n",
        "    twin.load_state_dict(model.state_dict())\n",
        "do the twin's weights begin",
    ),
    (
        4,
        'step(twin, theirs, element.move("x", x), labels, rate)',
        "step(twin, theirs, x, labels, rate)",
        "first input is not",
    ),
    (
        4,
        "optimizer.step(tape.gradient(loss, model.parameters()), rate)",
        "tape.gradient(loss, model.parameters())",
        "weights did not change",
    ),
    (
        4,
        "optimizer.step(tape.gradient(loss, model.parameters()), rate)",
        "optimizer.step(tape.gradient(loss, model.parameters()), 2 * rate)",
        "at the given rate",
    ),
    (4, "for x, labels in batches", "for x, labels in batches[:-1]", "one pair of losses a step"),
    (4, '{"sgd", "momentum", "muon"}', '{"sgd", "momentum"}', "muon: you say it does not follow"),
    (4, '{"sgd", "momentum", "muon"}', '{"sgd", "momentum", "muon", "adam"}', "adam: you say it follows"),
    (4, '{"sgd", "momentum", "muon"}', '{"sgd", "mommentum"}', "there is no rule 'mommentum'"),
    (5, "mask - mask.max(axis=1, keepdims=True)", "mask", "does not see a number that is added to a whole row"),
    (
        5,
        "mask - mask.max(axis=1, keepdims=True)",
        "np.isfinite(mask)",
        "finite numbers count|added to a column is seen",
    ),
    (
        5,
        "np.array_equal(seen[np.ix_(p, p)], seen)",
        "p[0] == 0 and np.array_equal(seen[np.ix_(p, p)], seen)",
        "which you leave out",
    ),
    (5, "np.array_equal(seen[np.ix_(p, p)], seen)", "True", "does not commute with it"),
    (
        5,
        "mask[i, i] = mask[i, (i + 1) % n] = 0.0",
        "mask[i, i] = mask[i, (i + 1) % n] = mask[i, (i - 1) % n] = 0.0",
        "has reflections too|elements, not",
    ),
    (5, "mask[i, i] = mask[i, (i + 1) % n] = 0.0", "mask[i, : i + 1] = 0.0", "the rotation by 1 is not in the group"),
    (5, "mask[i, i] = mask[i, (i + 1) % n] = 0.0", "pass", "has no softmax"),
    (
        6,
        'np.sort(state["mlp.fc1.weight"], axis=0).T',
        'state["mlp.fc1.weight"].T',
        "as they are: .* is no permutation|of 24 features are right",
    ),
    (
        6,
        'np.sort(state["mlp.fc1.weight"], axis=0).T',
        'state["norm1.weight"][:, None]',
        "flat norms: .*a matrix has rows or columns",
    ),
    (
        6,
        "return [int(j) for j in distances.argmin(axis=1)]",
        "return [int(j) for j in distances.argmin(axis=0)]",
        "the inverse of the secret",
    ),
    (
        6,
        "return [int(j) for j in distances.argmin(axis=1)]",
        "return [int(j) for j in (distances == 0.0).argmax(axis=1)]",
        "tuned weights|is no permutation",
    ),
    (6, "return [int(j) for j in distances.argmin(axis=1)]", "return [0] * 24", "is no permutation"),
    (
        6,
        "return [int(j) for j in distances.argmin(axis=1)]",
        "return distances[99]",
        r"it stops with IndexError.*\(line 13 of",
    ),
]


@pytest.mark.parametrize("number, old, new, says", MISTAKES, ids=[f"{m[0]}-{m[3][:30]}" for m in MISTAKES])
def test_a_mistake_is_named(number, old, new, says, tmp_path):
    solution = next((COURSE / "solutions").glob(f"{number}_*.py"))
    text = solution.read_text()
    assert old in text
    work = tmp_path / solution.name
    work.write_text(text.replace(old, new))
    result = run(COURSE / "check.py", number, work, "--seed", 7, cwd=tmp_path)
    assert result.returncode == 1 and verdicts(result) == ["wrong"], result.stdout + result.stderr
    assert re.search(says, result.stdout, flags=re.DOTALL), result.stdout


def test_what_check_refuses(tmp_path):
    assert "there is no file" in run(COURSE / "check.py", 3, tmp_path / "none.py", cwd=tmp_path).stderr
    assert "say which" in run(COURSE / "check.py", "all", COURSE / "check.py", cwd=tmp_path).stderr
    assert run(COURSE / "check.py", 9, cwd=tmp_path).returncode == 2
