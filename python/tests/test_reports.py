"""Evaluation, reports and attacks from Python are the program's."""

import json
import os
import re
import subprocess
from pathlib import Path

import equigrad as eg
import numpy as np
import pytest

SMALL = {"size": 16, "batch": 16, "dim": 16, "heads": 2, "layers": 1, "mlp": 24, "train_limit": 96, "test_limit": 32}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return eg.train("vit", "shapes", steps=6, evaluate_every=3, out=tmp_path_factory.mktemp("runs") / "run", **SMALL)


def program():
    found = os.environ.get("EQUIGRAD_PROGRAM")
    if not found:
        pytest.skip("the program is not there (EQUIGRAD_PROGRAM)")
    return found


def test_evaluation_is_the_runs_own(run):
    found = eg.evaluate(run.model, "shapes", size=16, limit=32, batch_size=7)
    assert (
        found.count == 32 and abs(found.accuracy - run.test.accuracy) < 1e-9 and abs(found.loss - run.test.loss) < 1e-5
    )
    assert str(found).startswith("loss ") and "on 32 samples" in str(found)
    record = eg.evaluate(run)
    assert record.loss == run.test.loss and record.split == "test"
    loaded = eg.hub.load(run.folder / "model")
    assert abs(eg.evaluate(loaded, "shapes", size=16, limit=32).loss - run.test.loss) < 1e-5


def test_evaluation_takes_datasets_arrays_loaders_and_batches(run):
    dataset = eg.data.open_dataset("shapes", "test", size=16, limit=32)
    images = np.stack([dataset.pixels(i).numpy() for i in range(32)])
    labels = np.array([dataset.label(i) for i in range(32)])
    loader = eg.data.Loader(dataset, batch_size=8, shuffle=False)
    plain = eg.evaluate(run.model, dataset)
    classes = dataset.class_names
    for data in (
        loader,
        eg.data.ArrayDataset(images, labels, class_names=classes),
        (images, labels),
        [(b.images, b.labels) for b in loader],
    ):
        found = eg.evaluate(run.model, data)
        assert found.count == 32 and abs(found.loss - plain.loss) < 1e-5, data
    moved = eg.evaluate(run.model, dataset, mean=[0.0] * 3, std=[1.0] * 3)
    assert moved.loss != plain.loss
    with pytest.raises(TypeError, match="mean and std are given together"):
        eg.evaluate(run.model, dataset, mean=[0.0] * 3)


def test_evaluation_leaves_the_model_as_it_was(run):
    model = run.model.train()
    model.blocks[0].eval()
    eg.evaluate(model, "shapes", size=16, limit=16)
    assert model.training and not model.blocks[0].training and model.blocks[0].mlp.training is False
    with eg.Tape() as tape:
        eg.evaluate(model, "shapes", size=16, limit=16)
    assert len(tape) == 0
    model.eval()


def test_evaluation_says_what_it_cannot_do(run):
    for arguments, error, words in [
        ((run.model,), TypeError, "data is needed"),
        ((3, "shapes"), TypeError, "model is a int"),
        ((run, "shapes"), TypeError, "own test data"),
        ((eg.train("vit", "shapes", steps=1, out=None, **SMALL),), ValueError, "evaluate: the run wrote no folder"),
        ((run.model, 3), TypeError, "data is a int"),
        ((run.model, []), ValueError, "no samples"),
        ((run.model.patch_embedding, "shapes"), ValueError, "logits"),
        ((run.model, "shaps"), eg.Error, "shaps"),
    ]:
        with pytest.raises(error, match=words):
            eg.evaluate(*arguments)


def without_times(page):
    return re.sub(r"\d+(\.\d+)? ?(s|images/s|min)\b|\d[\d.,]*e?[+-]?\d*", "N", page)


def test_a_report_is_the_programs(run, tmp_path):
    page = eg.report(run, tmp_path / "python.html", samples=20)
    assert (tmp_path / "python.html").read_text() == page.html == str(page)
    assert "Curves" in page.html and "<svg" in page.html and page.notes == []
    assert page._repr_html_().startswith("<iframe srcdoc=") and "<script" not in page.html
    two = eg.report([run, run.folder.parent / "run"] if False else [run.folder])
    assert "the run run" in two.html
    subprocess.run(
        [program(), "report", str(run.folder), "--out", str(tmp_path / "program.html"), "--samples", "20", "--quiet"],
        check=True,
    )
    assert (tmp_path / "program.html").read_text() == page.html


def test_reports_of_several_runs_and_without_data(run, tmp_path, rng):
    images, labels = rng.integers(0, 255, (32, 1, 8, 8)).astype("uint8"), np.arange(32) % 2
    options = {"batch": 16, "dim": 16, "heads": 2, "layers": 1, "mlp": 24, "patch": 4}
    memory = eg.train("vit", (images, labels), test=(images, labels), steps=2, out=tmp_path / "memory", **options)
    page = eg.report([run, memory], samples=20)
    assert "2 runs side by side" in page.html and len(page.notes) == 1 and "in memory" in page.notes[0]
    with pytest.raises(eg.ValueError, match="wrote no folder"):
        eg.report(eg.train("vit", "shapes", steps=1, out=None, **SMALL))
    with pytest.raises(eg.ValueError, match="no run was given"):
        eg.report([])
    with pytest.raises(eg.FileError):
        eg.report(tmp_path / "nothing")


def test_the_main_jobs_page_is_of_a_run_with_a_plain_variant(run, tmp_path):
    variants = ["none", "rows", "columns", "both"]
    four = eg.train(
        "vit", "shapes", steps=4, out=tmp_path / "four", variants=variants, dtype="f64", drift_every=2, **SMALL
    )
    assert list(four.models) == variants
    page = eg.report(four, tmp_path / "page.html", theorems=True)
    assert (tmp_path / "page.html").read_text() == page.html and "<math" in page.html and "thm4.1" in page.html
    assert len(eg.verify("*")) >= 200 and page.html.count("<svg") >= 2
    with pytest.raises(eg.ValueError, match="trained no plain model beside a permuted one"):
        eg.report(run, theorems=True)
    with pytest.raises(eg.ValueError, match="of one run, not of 2"):
        eg.report([run, four], theorems=True)


def test_attacks_recover_what_theory_says(tmp_path):
    found = eg.attack("weights", base="published", keys="fixed", seed=3)
    assert found.holds and len(found) == len(eg.attack_schemes())
    assert found.rate("stip2") == 1.0 and "not encryption" in str(found)
    found.save(tmp_path / "attacks.html")
    assert "<table" in (tmp_path / "attacks.html").read_text() and found.markdown.startswith("| |")
    assert found._repr_html_().startswith("<iframe") and "all hold" in repr(found)
    secret = eg.attack("weights", base="secret", scheme="stip2", keys="fixed")
    assert np.isnan(secret.rate("stip2")) or secret.rate("stip2") < 1.0  # what is not known is not found
    with pytest.raises(KeyError):
        found.rate("nothing")


def test_attacks_are_the_programs(tmp_path):
    words = [
        program(),
        "attack",
        "weights",
        "--base",
        "published",
        "--keys",
        "fixed",
        "--scheme",
        "stip2",
        "--json",
        "-",
        "--quiet",
    ]
    theirs = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)["results"]
    ours = eg.attack("weights", base="published", keys="fixed", scheme="stip2").cells
    assert [{k: v for k, v in cell.items() if k != "findings"} for cell in ours] == [
        {k: v for k, v in cell.items() if k != "findings"} for cell in theirs
    ]


def test_wrong_attacks_are_named():
    for options, words in [
        ({"name": "weights", "noise": float("nan")}, "attack: noise is nan; give a finite number"),
        ({"name": "wieghts"}, "weights"),
        ({"scheme": "stip9"}, "stip9"),
        ({"base": "known"}, "known"),
        ({"keys": "often"}, "neither fixed nor fresh"),
        ({"defences": ["nois"]}, "nois"),
        ({"name": "vocabulary", "data": "shapes"}, "looks at no pictures"),
    ]:
        with pytest.raises(eg.ValueError, match=words):
            eg.attack(**options)
    assert "weights" in eg.attacks() and eg.attacks()["weights"]["sees"] and "noise" in eg.attack_defences()


def in_memory(rng):
    images, labels = rng.integers(0, 255, (24, 1, 8, 8)).astype("uint8"), rng.integers(0, 2, 24)
    return images, labels


def test_runs_on_data_in_memory_are_opened_with_it(tmp_path, rng):
    data, test = in_memory(rng), in_memory(rng)
    options = dict(steps=2, batch=8, patch=4, dim=8, heads=2, layers=1, mlp=8)
    run = eg.train("vit", data, test=test, out=tmp_path / "run", **options)
    assert eg.evaluate(run).loss == run.test.loss
    closed = eg.open_run(run.folder)
    assert closed.step == 2 and len(closed.metrics.train["loss"]) == 2
    for ask, who in [
        (lambda: closed.model, "run.model"),
        (lambda: eg.evaluate(run.folder), "evaluate"),
        (lambda: eg.evaluate(closed), "evaluate"),
    ]:
        with pytest.raises(eg.ValueError, match=f"{who}: .* was trained on data in memory; open it with eg.open_run"):
            ask()
    opened = eg.open_run(run.folder, data=data, test=test)
    assert eg.evaluate(opened).loss == run.test.loss
    assert all(eg.same_bits(a, b) for a, b in zip(opened.model.parameters(), run.model.parameters()))
    with pytest.raises(eg.ValueError, match="open_run: data is in memory, so test must be given"):
        eg.open_run(run.folder, data=data)


def test_a_pair_may_be_a_list_and_two_batches_a_tuple(run, rng):
    images, labels = rng.integers(0, 255, (8, 3, 16, 16)).astype("uint8"), rng.integers(0, 2, 8)
    pair = eg.evaluate(run.model, (images, labels))
    assert eg.evaluate(run.model, [images, labels]) == pair
    pixels = images.astype("float32") / 255
    batches = [(pixels[:4], labels[:4]), (pixels[4:], labels[4:])]
    found = eg.evaluate(run.model, batches)
    assert found.count == 8 and eg.evaluate(run.model, tuple(batches)) == found
    assert eg.evaluate(run.model, [list(batch) for batch in batches]) == found


def test_charts_of_ones_own_numbers():
    picture = eg.line_chart(
        [("a & b", [0, 1, 2], [1.0, 2.0, float("nan")]), ("c", [0, 1], [3.0, 4.0])], title="<mine>", y_label="y"
    )
    import xml.dom.minidom

    xml.dom.minidom.parseString(picture.svg)
    assert "a &amp; b" in picture.svg and "&lt;mine&gt;" in picture.svg
    text = [node.firstChild.data for node in xml.dom.minidom.parseString(picture.svg).getElementsByTagName("text")]
    assert text[0] == "<mine>" and text[-2:] == ["a & b", "c"]
    # Each name stands after a piece of its own line's colour.
    with pytest.raises(eg.ValueError, match="the picture is SVG"):
        picture.save("picture.PNG")
    strokes = re.findall(r'<path[^>]* stroke="(#\w+)"', picture.svg)
    assert re.findall(r'<line [^>]*stroke="(#\w+)"', picture.svg)[-2:] == strokes and len(set(strokes)) == 2
    many = eg.line_chart([(f"a long name of line {i}", [0, 1], [i, 2]) for i in range(9)]).svg
    height = float(re.search(r'viewBox="0 0 720 (\d+)"', many).group(1))
    assert height > 330 + 40 and max(float(y) for y in re.findall(r'<text x="\d+" y="(\d+)">', many)) < height


def test_a_chart_takes_lists_arrays_tensors_and_dicts():
    y = [3.0, 1.0, 2.0]
    wanted = eg.line_chart([("a", [0, 1, 2], y)]).svg
    for given in (
        [("a", y)],
        {"a": y},
        {"a": ([0, 1, 2], y)},
        {"a": np.array(y)},
        {"a": (eg.arange(3), eg.tensor(y))},
        [("a", range(3), eg.tensor(y).to("bf16"))],
    ):
        assert eg.line_chart(given).svg == wanted
    for alone in (y, tuple(y), np.array(y), eg.tensor(y)):
        assert eg.line_chart(alone).svg == eg.line_chart([("", [0, 1, 2], y)]).svg
