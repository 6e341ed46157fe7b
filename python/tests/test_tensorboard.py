"""Event files of `equigrad train`, read by TensorBoard's own reader."""

import json
import os
import pathlib
import subprocess

import pytest

pytest.importorskip("tensorboard", reason="tensorboard is not installed: the event files were not read by it")
event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")

program = os.environ.get("EQUIGRAD_PROGRAM")
pytestmark = pytest.mark.skipif(not program, reason="EQUIGRAD_PROGRAM does not name the program equigrad")


def train(*arguments):
    subprocess.run([program, "train", *map(str, arguments), "--quiet"], check=True, timeout=300)


def metrics(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def scalars(run):
    """{tag: {step: value}}; a step that comes twice is an error."""
    accumulator = event_accumulator.EventAccumulator(str(run), size_guidance={"scalars": 0})
    accumulator.Reload()
    found = {}
    for tag in accumulator.Tags()["scalars"]:
        events = accumulator.Scalars(tag)
        found[tag] = {event.step: event.value for event in events}
        assert len(found[tag]) == len(events), tag
        times = [event.wall_time for event in events]
        assert times == sorted(times)
    return found


def check(run):
    found = scalars(run)
    expected = {}
    for record in metrics(run):
        for name, value in record.items():
            if name not in ("split", "step", "variants"):
                expected.setdefault(f"{record['split']}/{name}", {})[record["step"]] = pytest.approx(value, rel=1e-6)
    assert found == expected


VIT = ["vit", "--data", "shapes", "--size", 16, "--train-limit", 64, "--test-limit", 16, "--dim", 8, "--layers", 1,
       "--heads", 2, "--mlp", 8, "--patch", 8, "--batch", 8, "--evaluate-every", 4, "--checkpoint-every", 3]


def test_vit(tmp_path):
    run = tmp_path / "run"
    train(*VIT, "--steps", 8, "--out", run)
    check(run)
    assert {"train/loss", "train/accuracy", "train/lr", "test/loss", "test/accuracy"} <= set(scalars(run))


def test_a_run_that_goes_on_shows_each_step_once(tmp_path):
    run = tmp_path / "run"
    train(*VIT, "--steps", 8, "--schedule", "constant", "--out", run)
    train("vit", "--resume", run, "--steps", 11)
    train("vit", "--resume", run / "checkpoints" / "step-00000009", "--steps", 10)  # gives up steps 10 and 11
    check(run)
    assert sorted(scalars(run)["train/loss"]) == list(range(1, 11))


def test_text(tmp_path):
    (tmp_path / "story.txt").write_text("a lion, a mouse and a net of rope. " * 40)
    train("gpt2", "--data", tmp_path / "story.txt", "--dim", 8, "--layers", 1, "--heads", 2, "--context", 16,
          "--batch", 4, "--warmup", 2, "--steps", 6, "--out", tmp_path / "run")
    check(tmp_path / "run")


def test_watched_while_it_grows(tmp_path):
    """A reader that is open while the run is resumed drops what the run has given up."""
    run = tmp_path / "run"
    train(*VIT, "--steps", 8, "--schedule", "constant", "--out", run)
    accumulator = event_accumulator.EventAccumulator(str(run), size_guidance={"scalars": 0})
    accumulator.Reload()
    assert len(accumulator.Scalars("train/loss")) == 8
    train("vit", "--resume", run / "checkpoints" / "step-00000006", "--steps", 9)
    accumulator.Reload()
    assert [event.step for event in accumulator.Scalars("train/loss")] == list(range(1, 10))
    assert pathlib.Path(run / "metrics.csv").read_text().count("\n") == 1 + len(metrics(run))
