"""Training runs: the program's bits, callbacks, interruption, resuming, options."""

import gc
import inspect
import json
import os
import re
import signal
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import equigrad as eg
import numpy as np
import pytest

SMALL_VIT = {
    "size": 16,
    "batch": 16,
    "dim": 16,
    "heads": 2,
    "layers": 1,
    "mlp": 24,
    "train_limit": 96,
    "test_limit": 32,
}
SMALL_TEXT = {"batch": 4, "dim": 16, "heads": 2, "layers": 1, "mlp": 24, "context": 16}
WORDS = "the cat sat on the mat and the dog ran to the cat . ".split()


def text(folder):
    path = folder / "text.txt"
    path.write_text(" ".join(WORDS[(7 * i * i + i) % len(WORDS)] for i in range(600)))
    return path


def labelled(folder):
    path = folder / "reviews.csv"
    rows = [
        f"{i % 2},{' '.join(WORDS[(i * k) % len(WORDS)] for k in range(1, 8))} {'good' if i % 2 else 'bad'}"
        for i in range(80)
    ]
    path.write_text("label,text\n" + "\n".join(rows) + "\n")
    return path


def table(folder):
    path = folder / "clicks.csv"
    rows = [f"{i % 2},{i % 5},{'ab'[i % 2]}{i % 3}" for i in range(120)]
    path.write_text("bought,age,town\n" + "\n".join(rows) + "\n")
    return path


# Model, what is learnt from, options.
KINDS = {
    "vit": (lambda folder: "shapes", SMALL_VIT),
    "vit-twin": (lambda folder: "shapes", {**SMALL_VIT, "permute": "both", "twin": True, "dtype": "f64"}),
    "deit": (lambda folder: "digits", {name: value for name, value in SMALL_VIT.items() if name != "size"}),
    "bert": (labelled, SMALL_TEXT),
    "mlm": (text, SMALL_TEXT),
    "gpt2": (text, {**SMALL_TEXT, "permute": "columns"}),
    "llama": (text, SMALL_TEXT),
    "difm": (table, {"batch": 16, "label": "bought", "hidden": "8"}),
}


def trained(kind, folder, out, **options):
    data, usual = KINDS[kind]
    return eg.train(kind.split("-")[0], data(folder), out=out, **{**usual, **options})


def files_of(run_folder):
    """Bytes of what a run leaves, but for speeds and times."""
    return {
        str(path.relative_to(run_folder)): path.read_bytes()
        for path in sorted(Path(run_folder).rglob("*"))
        if path.suffix in (".safetensors",) or path.name in ("tokenizer.json", "table.json", "vocab.txt")
    }


def numbers_of(run_folder):
    lines = [json.loads(line) for line in (Path(run_folder) / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if not k.endswith("_per_s") and k != "seconds"} for line in lines]


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_has_the_bits_of_the_program(kind, tmp_path):
    program = os.environ.get("EQUIGRAD_PROGRAM")
    if not program:
        pytest.skip("the program is not there (EQUIGRAD_PROGRAM)")
    run = trained(kind, tmp_path, tmp_path / "python", steps=5, evaluate_every=2, seed=3)
    data, options = KINDS[kind]
    words = [program, "train", *({"mlm": ["bert", "--task", "mlm"]}.get(kind, [kind.split("-")[0]]))]
    words += [
        "--data",
        str(data(tmp_path)),
        "--steps",
        "5",
        "--evaluate-every",
        "2",
        "--seed",
        "3",
        "--out",
        str(tmp_path / "program"),
    ]
    for name, value in options.items():
        words += [f"--{name.replace('_', '-')}"] + ([] if value is True else [str(value)])
    subprocess.run([*words, "--quiet"], check=True, cwd=tmp_path)
    ours, theirs = files_of(tmp_path / "python"), files_of(tmp_path / "program")
    assert ours.keys() == theirs.keys() and any(name.endswith("model.safetensors") for name in ours)
    assert [name for name in ours if ours[name] != theirs[name]] == []
    assert numbers_of(tmp_path / "python") == numbers_of(tmp_path / "program")
    other = trained(kind, tmp_path, tmp_path / "other", steps=5, evaluate_every=2, seed=4)  # another seed, other bits
    assert files_of(other.folder) != theirs
    assert run.config["seed"] == 3


@pytest.mark.parametrize("kind", KINDS)
def test_every_model_trains_stops_and_resumes_with_the_same_bits(kind, tmp_path):
    whole = trained(kind, tmp_path, tmp_path / "whole", steps=6)
    assert whole.complete and whole.step == whole.total_steps == 6 and whole.kind == kind.split("-")[0]
    assert np.isfinite(whole.metrics.train["loss"]).all() and len(whole.metrics.train["loss"]) == 6
    assert whole.test.step == 6 and np.isfinite(whole.test.loss)

    class Wish(Exception):
        pass

    def leave(run, record):
        if record.step == 3:
            raise Wish()

    with pytest.raises(Wish):
        trained(kind, tmp_path, tmp_path / "part", steps=6, on_step=leave)
    assert (tmp_path / "part" / "checkpoints" / "step-00000003" / "state.json").exists()
    part = eg.train(resume=tmp_path / "part")
    ours, others = files_of(part.folder), files_of(whole.folder)
    assert others and [name for name in others if ours.get(name) != others[name]] == []
    assert part.metrics.train["step"].tolist() == [1, 2, 3, 4, 5, 6]
    assert whole.metrics.train["loss"].tolist() == part.metrics.train["loss"].tolist()
    for a, b in zip(whole.model.parameters(), part.model.parameters()):
        assert eg.same_bits(a, b)
    with pytest.raises(eg.ValueError, match="holds a run"):
        trained(kind, tmp_path, tmp_path / "part", steps=6)


def test_callbacks_are_told_in_order(tmp_path):
    told = []

    class Telling(eg.Callback):
        def on_begin(self, run):
            told.append(("begin", run.step))

        def on_step(self, run, record):
            told.append(("step", record.step))

        def on_evaluation(self, run, record):
            told.append(("test", record.step))
            assert run.test == record and record.split == "test"

        def on_epoch(self, run, record):
            told.append(("epoch", record.step, record.epoch))

        def on_checkpoint(self, run, folder):
            told.append(("checkpoint", folder.name))

        def on_end(self, run):
            told.append(("end", run.step))

    run = eg.train(
        "vit",
        "shapes",
        epochs=2,
        **{**SMALL_VIT, "train_limit": 32},
        out=tmp_path / "run",
        callbacks=Telling(),
        best="off",
    )
    assert run.steps_per_epoch == 2
    assert told == [
        ("begin", 0),
        ("step", 1), ("step", 2), ("test", 2), ("epoch", 2, 0),
        ("step", 3), ("step", 4), ("checkpoint", "step-00000004"), ("test", 4), ("epoch", 4, 1),
        ("end", 4),
    ]  # fmt: skip
    with pytest.raises(
        TypeError, match="a Callback has no on_epoch_end, which would never be called; did you mean on_epoch?"
    ):
        type("Keras", (eg.Callback,), {"on_epoch_end": lambda self, epoch, logs: None})
    functions = []
    eg.train(
        "vit", "shapes", epochs=1, **{**SMALL_VIT, "train_limit": 32}, out=None,
        on_step=lambda run, record: functions.append("step"), on_epoch=lambda run, record: functions.append("epoch"),
        on_evaluation=lambda run, record: functions.append("test"),
    )  # fmt: skip
    assert functions == ["step", "step", "test", "epoch"]


def test_a_stop_that_is_asked_for_ends_the_run_with_its_results(tmp_path):
    def enough(run, record):
        if record.step == 4:
            run.stop()

    run = trained("gpt2", tmp_path, tmp_path / "run", steps=50, on_step=enough)
    assert run.complete and run.step == 4 and run.test.step == 4
    assert (run.folder / "model" / "model.safetensors").exists()
    tests = run.metrics.test["step"].tolist()
    assert tests == [4]  # once, where an evaluation was due as well
    again = trained(
        "gpt2", tmp_path, tmp_path / "again", steps=50, evaluate_every=4, on_evaluation=lambda run, record: run.stop()
    )
    assert again.metrics.test["step"].tolist() == [4]
    longer = eg.train(resume=run, steps=6)
    assert longer.step == 6
    with pytest.raises(eg.ValueError, match="does not train"):
        run.stop()


def test_a_stop_before_the_first_step_ends_the_run_after_it(tmp_path):
    class AtOnce(eg.Callback):
        def on_begin(self, run):
            run.stop()

    run = trained("gpt2", tmp_path, tmp_path / "run", steps=50, callbacks=AtOnce())
    assert run.step == 1 and run.complete and run.test.step == 1
    assert eg.train(resume=run, callbacks=AtOnce()).step == 2
    assert trained("gpt2", tmp_path, None, steps=3, callbacks=eg.Callback()).step == 3


def test_a_stop_from_another_thread(tmp_path):
    seen = []

    def begin(run, record):
        if not seen:
            seen.append(run)
            threading.Thread(target=run.stop).start()

    run = trained("gpt2", tmp_path, None, steps=100000, on_step=begin)
    assert 1 <= run.step < 100000 and run.folder is None


CTRL_C = """
import signal, sys, equigrad as eg
print("ready", flush=True)
try:
    eg.train("vit", "shapes", steps=100000, schedule="constant", size=16, batch=16, dim=16, heads=2, layers=1, mlp=24, train_limit=96, test_limit=32,
             out=sys.argv[1], on_step=lambda run, record: print(record.step, flush=True))
except KeyboardInterrupt as stopped:
    print(stopped)
"""


def test_ctrl_c_leaves_a_whole_checkpoint(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", CTRL_C, str(tmp_path / "run")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while process.stdout.readline().strip() != "3":
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0 and "Traceback" not in err
    words = re.search(r"train: interrupted after step (\d+) of 100000; resume with eg.train\(resume='(.*)'\)", out)
    step = int(words.group(1))
    run = eg.train(resume=words.group(2), steps=step + 2)
    assert run.metrics.train["step"].tolist() == list(range(1, step + 3))
    whole = trained("vit", tmp_path, None, steps=step + 2, schedule="constant")
    assert all(eg.same_bits(a, b) for a, b in zip(run.model.parameters(), whole.model.parameters()))
    assert err == ""  # no bar in a pipe


def test_errors_in_callbacks_and_their_checkpoint(tmp_path):
    def wrong(run, record):
        if record.step == 2:
            raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine") as raised:
        trained("gpt2", tmp_path, tmp_path / "run", steps=5, on_step=wrong)
    assert eg.train(resume=tmp_path / "run", steps=2).step == 2  # while the traceback lives, as in a notebook
    assert raised.value.__traceback__ is not None
    assert eg.open_run(tmp_path / "run").step == 2
    with pytest.raises(ZeroDivisionError):  # the last evaluation's
        trained("gpt2", tmp_path, tmp_path / "late", steps=2, on_evaluation=lambda run, record: 1 / 0)
    with pytest.raises(TypeError, match="derive from eg.Callback"):
        trained("gpt2", tmp_path, None, steps=5, callbacks=[print])


def test_an_error_at_the_end_leaves_the_folder_free(tmp_path):
    class Wrong(eg.Callback):
        def on_end(self, run):
            self.run = run
            raise ZeroDivisionError("mine")

    wrong = Wrong()
    with pytest.raises(ZeroDivisionError, match="mine") as raised:
        trained("gpt2", tmp_path, tmp_path / "run", steps=2, callbacks=wrong)
    assert eg.train(resume=tmp_path / "run", steps=3).step == 3  # while the error and its run live
    assert raised.value.__traceback__ is not None and wrong.run.step == 2 and wrong.run.model.parameter_count() > 0


def test_an_interruption_says_how_to_go_on_where_that_can_be_done(tmp_path):
    class Leaving(eg.Callback):
        def on_begin(self, run):
            raise KeyboardInterrupt

    def leave(run, record):
        raise KeyboardInterrupt

    for how, out, resumable in [
        ({"callbacks": Leaving()}, tmp_path / "early", False),
        ({"on_step": leave}, None, False),
        ({"on_step": leave}, tmp_path / "late", True),
        ({"callbacks": Leaving(), "overwrite": True}, tmp_path / "late", False),
    ]:
        with pytest.raises(KeyboardInterrupt) as raised:
            trained("gpt2", tmp_path, out, steps=3, **how)
        assert ("resume with eg.train(resume=" in str(raised.value)) == resumable, out
        assert f"train: interrupted after step {int('on_step' in how)} of 3" in str(raised.value)
    with pytest.raises(KeyboardInterrupt, match="resume with"):
        eg.train(resume=tmp_path / "late", callbacks=Leaving())
    assert eg.train(resume=tmp_path / "late").step == 3


def test_a_folder_knows_whether_its_run_is_complete(tmp_path):
    def leave(run, record):
        if record.step == 3:
            raise KeyboardInterrupt

    def complete():
        return eg.open_run(tmp_path / "run").complete

    trained("gpt2", tmp_path, tmp_path / "run", steps=2)
    assert complete()
    with pytest.raises(KeyboardInterrupt):  # it has the model of step 2 still
        eg.train(resume=tmp_path / "run", steps=5, on_step=leave)
    assert (tmp_path / "run" / "model").exists() and not complete()
    eg.train(resume=tmp_path / "run", on_step=lambda run, record: run.stop())
    assert complete()  # ended early, with its results
    eg.train(resume=tmp_path / "run")
    assert complete()
    with pytest.raises(KeyboardInterrupt):
        trained("gpt2", tmp_path, tmp_path / "run", steps=5, overwrite=True, on_step=leave)
    assert not complete()


def test_images_in_memory(tmp_path, rng):
    images = rng.integers(0, 255, (48, 1, 8, 8)).astype("uint8")
    labels = np.arange(48) % 3
    images[labels == 1, :, :4] = 255
    images[labels == 2, :, 4:] = 255
    options = {
        "batch": 16,
        "dim": 16,
        "heads": 2,
        "layers": 1,
        "mlp": 24,
        "patch": 4,
        "lr": 5e-3,
        "schedule": "constant",
    }
    train_set, test_set = (images, labels), (images[:24], labels[:24])
    run = eg.train("vit", train_set, test=test_set, epochs=40, out=tmp_path / "run", **options)
    assert run.test.accuracy > 0.8
    found = eg.evaluate(run.model, test_set)
    assert (
        found.count == 24 and abs(found.accuracy - run.test.accuracy) < 1e-9 and abs(found.loss - run.test.loss) < 1e-5
    )
    with pytest.raises(eg.ValueError, match="in memory; give data= and test= again"):
        eg.train(resume=run.folder, epochs=41)
    longer = eg.train(resume=run.folder, data=train_set, test=test_set, epochs=41)
    assert longer.step == 41 * 3
    with pytest.raises(eg.ValueError, match="data"):  # another one
        eg.train(resume=run.folder, data=(images[::-1].copy(), labels), test=test_set, epochs=42)
    dataset = eg.data.ArrayDataset(images, labels, class_names=["none", "top", "bottom"])
    again = eg.train(
        "vit",
        dataset,
        test=eg.data.ArrayDataset(images[:24], labels[:24], class_names=["none", "top", "bottom"]),
        epochs=1,
        out=None,
        **options,
    )
    assert eg.same_bits(again.metrics.train["loss"][:3], run.metrics.train["loss"][:3])
    with pytest.raises(eg.ValueError, match="test must be given as well"):
        eg.train("vit", train_set, epochs=1, **options)
    with pytest.raises(TypeError, match="own test part"):
        eg.train("vit", "shapes", test="shapes", epochs=1)
    with pytest.raises(eg.ValueError, match="gpt2 takes no images"):
        eg.train("gpt2", train_set, test=test_set, steps=1)
    few = eg.train(
        "vit", train_set, test=(images[:2], labels[:2]), epochs=1, out=None, **options
    )  # without the last class
    assert few.config["epochs"] == 1 and few.model.classifier.weight.shape[0] == 3
    for wrong, words in [
        ((images / 255.0, labels), r"\(255 \* images\)"),
        ((images, np.eye(3)[labels]), "argmax"),
        ((images.transpose(0, 2, 3, 1), labels), r"give \[N, channels, H, W\]: images.transpose\(0, 3, 1, 2\)"),
    ]:
        with pytest.raises(eg.Error, match=words):
            eg.train("vit", wrong, test=test_set, epochs=1, **options)
    with pytest.raises(TypeError, match=r"\(images, labels\)"):
        eg.train("vit", np.zeros(3), epochs=1)


@pytest.mark.parametrize(
    ("words", "error", "options"),
    [
        ("there is no option 'lrr'; did you mean lr?", ValueError, {"lrr": 1e-3}),
        ("'held_out' is an option of bert, mlm, gpt2, llama, difm, not of vit", ValueError, {"held_out": 0.2}),
        ("'lr' must be a number, not \"fast\"", ValueError, {"lr": "fast"}),
        ("'layers' must be a whole number, not 1.5", ValueError, {"layers": 1.5}),
        ("'augment' must be true or false, not 1", ValueError, {"augment": 1}),
        ("permute", ValueError, {"permute": "rwos"}),
        ("lr must be positive, not -1", ValueError, {"lr": -1}),
        ("train: warmup is 5, and the run has 3 steps: the learning rate would never", ValueError, {"warmup": 5, "steps": 3}),
        ("mixup must be", ValueError, {"mixup": -0.5}),
        ("label_smoothing must be", ValueError, {"label_smoothing": 1.5}),
        ("train: out is ''; give a folder, or out=None for none", ValueError, {"out": ""}),
        ("dim 15 is not a multiple of heads 2", ValueError, {"dim": 15, "heads": 2}),
        ("steps", ValueError, {"epochs": 2}),
        ("twin needs a permutation to compare with: give permute", ValueError, {"twin": True}),
        ("drop_every has no effect", ValueError, {"drop_every": 5}),
        ("optimizer", ValueError, {"optimizer": "adamv"}),
        ("lr is a dict", TypeError, {"lr": {}}),
        ("train: lr is nan; give a finite number", ValueError, {"lr": float("nan")}),
        ("train: clip is inf; give a finite number", ValueError, {"clip": np.float32("inf")}),
        ("train: lr is nan; give a finite number", ValueError, {"config": {"lr": float("nan")}}),
        ("/nowhere/at/all: neither a dataset", (OSError, ValueError), {"data": "/nowhere/at/all"}),
        ("there is no model 'vti'; did you mean vit?", ValueError, {"model": "vti"}),
        ("which model?", TypeError, {"model": None}),
        ("there is no option 'batch_size'; here it is batch", ValueError, {"batch_size": 8}),
        ("there is no option 'num_train_epochs'; here it is epochs", ValueError, {"num_train_epochs": 8}),
        ("there is no option 'block_size'; eg.train_options('vit') lists them", ValueError, {"block_size": 8}),
        ("a module of your own is trained with a tape", TypeError, {"model": eg.nn.Linear(2, 2)}),
    ],
)
def test_bad_options_are_named_in_one_sentence(words, error, options, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EQUIGRAD_DATA", raising=False)
    options = {"steps": 1, "size": 16, **options}
    with pytest.raises(error) as caught:
        eg.train(**{"model": "vit", "data": "shapes", **options})
    message = str(caught.value)
    assert words in message and "\n" not in message and "nanobind" not in message
    assert list(tmp_path.iterdir()) == []  # nothing was begun


def test_messages_name_options_not_flags(monkeypatch):
    monkeypatch.delenv("EQUIGRAD_DATA", raising=False)
    with pytest.raises(OSError, match="the folder that holds it with data_dir or EQUIGRAD_DATA"):
        eg.train("vit", "cifar10", steps=1)


def test_messages_name_arguments_as_python_writes_them(tmp_path):
    place = tmp_path / "a run"
    trained("gpt2", tmp_path, place, steps=1)
    with pytest.raises(eg.ValueError) as caught:
        trained("gpt2", tmp_path, place, steps=1)
    words = str(caught.value)
    assert "--" not in words
    assert words.endswith(f"give another out, or resume={str(place)!r} to go on, or overwrite=True")
    trained("gpt2", tmp_path, place, steps=1, overwrite=True)
    for out, known in [(place, "give another out, or overwrite=True"), (tmp_path / "b c", "can be used again")]:
        with pytest.raises(eg.ValueError, match="smaller lr") as caught:  # from inside the run
            trained("gpt2", tmp_path, out, steps=9, lr=1e30, overwrite=True, checkpoint_every=1 if out == place else 0)
        assert "--" not in str(caught.value) and known in str(caught.value)
    assert f"out={str(out)!r} can be used again" in str(caught.value)


def test_a_run_without_steps_says_what_is_missing():
    with pytest.raises(eg.ValueError, match="steps.*epochs|epochs.*steps"):
        eg.train("vit", "shapes", size=16)


def test_other_libraries_names_lead_to_options():
    for name, ours in eg.training._OTHER_NAMES.items():
        assert name not in eg.train_options()
        assert ours in eg.train_options() or ours in inspect.signature(eg.train).parameters, name


def test_options_are_listed_and_known_to_type_checkers():
    listed = eg.train_options("vit")
    assert listed["lr"]["default"] == 1e-3 and "earning rate" in listed["lr"]["help"] and "from_" in listed
    assert eg.train_options()["held_out"]["models"] == ["bert", "mlm", "gpt2", "llama", "difm"]
    stub = (Path(eg._core.__file__).parent / "_core" / "training.pyi").read_text()
    for name in set(eg.train_options()):
        assert f"\n    {name}: " in stub, name
    with pytest.raises(eg.ValueError, match="did you mean gpt2"):
        eg.train_options("gtp2")


def test_a_config_is_a_dict_or_a_file_and_options_go_before_it(tmp_path, monkeypatch):
    first = trained("vit", tmp_path, tmp_path / "first", steps=2)
    second = eg.train("vit", config=first.config, out=tmp_path / "second")
    third = eg.train("vit", config=tmp_path / "first" / "config.json", out=tmp_path / "third", steps=1)
    assert files_of(first.folder)["model.safetensors"] == files_of(second.folder)["model.safetensors"]
    assert third.step == 1 and third.config["dim"] == 16
    monkeypatch.chdir(tmp_path)
    for config in (first.config, eg.train(resume=first, steps=3).config, "first/config.json"):
        again = eg.train("vit", config=config)  # a run's own folder is not wished for
        assert again.folder.parent == Path("out") and again.config["dim"] == 16 and again.step >= 2
    named = eg.train("vit", "shapes", config={**SMALL_VIT, "steps": 1, "out": "named"})
    assert named.folder == Path("named")  # out= of a hand-written config is kept
    with pytest.raises(eg.ValueError, match="already holds a run"):
        eg.train("vit", "shapes", config={**SMALL_VIT, "steps": 1, "out": "named"})
    (tmp_path / "wrong.json").write_text("{")
    for config, error, words in [
        (tmp_path / "nothing.json", eg.FileError, "nothing.json: No such file"),
        (tmp_path / "wrong.json", eg.ValueError, "is no JSON"),
        ({"model": "gpt2"}, eg.ValueError, "the config is of a gpt2, not of a vit"),
        ({"lrr": 1}, eg.ValueError, "did you mean lr"),
        ({"lr": "fast"}, eg.ValueError, "train: config: 'lr' must be a number"),
        ({"resume": "out"}, eg.ValueError, "give resume="),
    ]:
        with pytest.raises(error, match=words):
            eg.train("vit", "shapes", config=config, steps=1)


def test_runs_without_a_name_take_the_next_free_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folders = [eg.train("vit", "shapes", steps=1, **SMALL_VIT).folder for _ in range(2)]
    assert folders == [Path("out/vit"), Path("out/vit-2")]
    assert eg.train("vit", "shapes", steps=1, out=None, **SMALL_VIT).folder is None
    assert not Path("out/vit-3").exists()


def test_the_lock_is_gone_when_the_run_is_over_and_memory_with_it(tmp_path):
    run = trained("vit", tmp_path, tmp_path / "run", steps=1)
    again = eg.train(resume=run.folder, steps=2)  # as long as `run` lives
    assert again.step == 2 and not (run.folder / "run.lock").exists()
    model = run.model
    del run, again
    gc.collect()
    assert model.eval()(eg.zeros((1, 3, 16, 16))).shape[0] == 1


def test_permuted_runs_give_the_plain_model_too(tmp_path):
    run = trained("vit-twin", tmp_path, tmp_path / "run", steps=4, drift_every=1)
    assert list(run.models) == ["none", "both"]
    permuted, plain = run.models["both"], run.models["none"]
    qkv = lambda model: model.blocks[0].attention.qkv.weight
    assert eg.relative_error(qkv(permuted), qkv(plain)) > 0.1
    assert eg.relative_error(qkv(run.model), qkv(plain)) < 1e-12
    assert np.nanmax(run.metrics.train["both.drift"]) < 1e-10
    assert abs(run.test.variants["none"].loss - run.test.loss) < 1e-10
    opened = eg.open_run(run.folder)
    assert eg.same_bits(qkv(opened.model), qkv(run.model)) and eg.same_bits(qkv(opened.models["both"]), qkv(permuted))
    found, again = eg.evaluate(run), eg.evaluate(run.folder)
    assert found.loss == again.loss and abs(found.loss - run.test.loss) < 1e-12


def test_models_in_callbacks_are_copies(tmp_path):
    seen = []

    def look(run, record):
        seen.append(run.model)
        run.model.classifier.weight[...] = 0.0

    with_look = trained("vit", tmp_path, None, steps=3, on_step=look)
    without = trained("vit", tmp_path, None, steps=3)
    assert all(eg.same_bits(a, b) for a, b in zip(with_look.model.parameters(), without.model.parameters()))
    assert not eg.same_bits(seen[0].blocks[0].attention.qkv.weight, seen[2].blocks[0].attention.qkv.weight)


def test_other_threads_run_while_a_run_trains(tmp_path):
    count, over = [0], threading.Event()

    def busy():
        while not over.is_set():
            count[0] += 1
            time.sleep(0.001)

    thread = threading.Thread(target=busy)
    thread.start()
    trained("vit", tmp_path, None, steps=40)
    over.set()
    thread.join()
    assert count[0] > 10


def test_training_beside_a_tape_of_the_callers(tmp_path):
    x = eg.ones(3)
    with eg.Tape() as tape:
        y = (x * x).sum()
    trained("vit", tmp_path, None, steps=1)
    assert tape.gradient(y, x).tolist() == [2.0] * 3


def test_plots_are_pictures(tmp_path):
    run = trained("vit", tmp_path, tmp_path / "run", steps=4, evaluate_every=2)
    picture = run.plot("loss", "accuracy")
    picture.save(tmp_path / "curves.svg")
    import xml.dom.minidom

    parsed = xml.dom.minidom.parseString((tmp_path / "curves.svg").read_text())
    assert len(parsed.getElementsByTagName("path")) == 4 and "accuracy, test" in picture.svg
    assert picture._repr_svg_() == picture.svg == str(picture)
    assert run._repr_html_().count("<svg") == 1 and "step 4" in repr(run)
    with pytest.raises(eg.ValueError, match="did you mean loss"):
        run.plot("los")
    with pytest.raises(eg.ValueError, match="x is 'step' or 'epoch', not 'steps'"):
        run.plot("loss", x="steps")
    assert "epoch" in run.plot("loss", x="epoch").svg
    with pytest.raises(KeyError, match="did you mean loss"):
        run.metrics.train["losss"]


def test_a_bar_is_drawn_on_terminals_alone(tmp_path):
    pty = pytest.importorskip("pty")
    parent, child = pty.openpty()
    program = f"import equigrad as eg; eg.train('vit', 'shapes', steps=6, out=None, **{SMALL_VIT!r})"
    subprocess.run([sys.executable, "-c", program], check=True, stderr=child, stdout=subprocess.PIPE, timeout=300)
    os.close(child)
    said = b""
    try:
        while chunk := os.read(parent, 65536):
            said += chunk
    except OSError:
        pass
    os.close(parent)
    assert b"step 6/6" in said and b"[####" in said and b"test step 6" in said
    piped = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=300)
    assert piped.stdout == piped.stderr == b""
    bars = [line.removeprefix("\x1b[K") for line in said.decode().split("\r") if line.startswith("\x1b[K[")]
    assert bars and max(map(len, bars)) < 80  # the terminal has no size of its own


def test_a_bar_fits_on_one_line_of_its_terminal(monkeypatch):
    pty, fcntl, termios = (pytest.importorskip(name) for name in ("pty", "fcntl", "termios"))
    from equigrad._progress import Progress

    parent, child = pty.openpty()
    for columns in (20, 80, 200):
        fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        with open(child, "w", closefd=False) as terminal:
            monkeypatch.setattr(sys, "stderr", terminal)
            Progress(None).update(123456, 999999, "loss 0.1234  accuracy 97.5 %  123456 images/s " + 9 * "and more ")
            monkeypatch.undo()
        drawn = os.read(parent, 4096).decode()
        assert drawn.startswith("\r\x1b[K[##")
        assert len(drawn) - len("\r\x1b[K") == min(columns - 1, 177) or columns == 200
        assert ("and more" in drawn) == (columns == 200)
    os.close(parent), os.close(child)


def test_a_notebook_gets_one_output_that_is_updated(tmp_path, monkeypatch):
    import types

    shown = []

    class Handle:
        def update(self, value):
            shown.append(value)

    def display(value, display_id):
        shown.append(value)
        return Handle()

    shell = types.SimpleNamespace(kernel=object())
    fake = types.ModuleType("IPython")
    fake.get_ipython = lambda: shell
    fake.display = types.SimpleNamespace(display=display, HTML=lambda text: text)
    monkeypatch.setitem(sys.modules, "IPython", fake)
    trained("vit", tmp_path, None, steps=2)
    assert shown and "step 2/2" in shown[-1] and "<progress" in shown[-1] and "test step 2" in shown[-1]


def test_runs_of_a_folder_that_was_killed_can_be_opened(tmp_path):
    run = trained("vit", tmp_path, tmp_path / "run", steps=2)
    with open(run.folder / "metrics.jsonl", "a") as file:
        file.write('{"split": "tr')
    opened = eg.open_run(run.folder)
    assert opened.step == 2 and opened.metrics.test["step"].tolist() == [2] and opened.config["dim"] == 16
    with pytest.raises(eg.FileError):
        eg.open_run(tmp_path / "nothing")


def test_callbacks_that_cannot_be_called_are_refused_before_a_folder_is_made(tmp_path):
    for wrong, words in (
        (dict(on_step=3), "on_step is a int; give a function"),
        (dict(on_epoch="x"), "on_epoch is a str; give a function"),
        (dict(callbacks=lambda run, record: None), "callbacks is a function; give it as on_step="),
    ):
        with pytest.raises(TypeError, match=words):
            eg.train("vit", "shapes", steps=1, out=tmp_path / "run", **wrong)
        assert not (tmp_path / "run").exists()


def test_a_signal_names_the_step_that_was_finished(tmp_path):
    """The signal comes before the last step is told: the run is one step further than its records."""

    def leave(run, record):
        if record.step == 2:
            signal.raise_signal(signal.SIGINT)  # taken at the next look

    with pytest.raises(KeyboardInterrupt) as raised:
        trained("gpt2", tmp_path, tmp_path / "run", steps=9, on_step=leave)
    (step,) = re.findall(r"interrupted after step (\d+) of 9; resume with eg.train\(resume=", str(raised.value))
    (checkpoint,) = (tmp_path / "run" / "checkpoints").glob("step-*")
    assert int(checkpoint.name.removeprefix("step-")) == int(step)
    images = np.random.default_rng(0).integers(0, 255, (32, 1, 8, 8)).astype("uint8"), np.arange(32) % 2
    small = {"patch": 4, "dim": 8, "heads": 2, "layers": 1, "mlp": 8, "batch": 8}
    with pytest.raises(KeyboardInterrupt, match=r"resume='.*', data=\.\.\., test=\.\.\.\)"):
        eg.train("vit", images, test=images, steps=9, out=tmp_path / "images", on_step=leave, **small)


def test_labels_that_are_no_classes_are_refused():
    images = np.zeros((12, 1, 8, 8), "uint8")
    small = {"steps": 1, "patch": 4, "dim": 8, "heads": 2, "layers": 1, "mlp": 8, "batch": 4, "out": None}
    for labels, missing in [(np.arange(12) * 10, 1), (np.arange(12) % 3 + 1, 0), (np.arange(12) % 2 * 2, 1)]:
        with pytest.raises(eg.ValueError, match=rf"no image has label {missing}; .*np.unique.*class_names"):
            eg.train("vit", (images, labels), test=(images[:2], labels[:2]), **small)
    with pytest.raises(eg.ValueError, match="a label is 11000, and there are 12 images; .*class_names"):
        eg.data.ArrayDataset(images, np.arange(12) * 1000)
    assert len(eg.data.ArrayDataset(images, np.arange(12) * 90).class_names) == 991  # a part of a large set
    labels = np.arange(12) % 3
    assert eg.train("vit", (images, labels), test=(images[:1], labels[:1]), **small).config["out"] == ""
    assert eg.train("vit", (images, labels % 2), test=(images, labels), **small).step == 1  # the classes of both
    named = eg.data.ArrayDataset(images, labels * 2, class_names=list("abcdef"))
    assert eg.train("vit", named, test=named, **small).model.config.classes == 6


def test_a_default_warm_up_beyond_the_run_is_a_note(tmp_path):
    run = trained("gpt2", tmp_path, None, steps=2)
    assert any("warm-up of 100 steps is longer than the run of 2" in note for note in run.notes)
    assert not any("warm-up" in note for note in trained("gpt2", tmp_path, None, steps=2, warmup=2).notes)


def test_a_damaged_run_says_what_to_do(tmp_path):
    out = tmp_path / "run"
    trained("gpt2", tmp_path, out, steps=2)
    config = out / "config.json"
    config.write_text(config.read_text()[:50])
    with pytest.raises(eg.FileError, match=r"config.json is damaged; eg.train\(resume=.*writes it again"):
        eg.open_run(out)
    assert eg.train(resume=out, steps=3).step == 3 and eg.open_run(out).config["steps"] == 3
    for state in (out / "checkpoints").glob("step-*/state.json"):
        state.write_text(state.read_text()[:50])
    for use in (lambda: eg.open_run(out), lambda: eg.train(resume=out, steps=4)):
        with pytest.raises(eg.FileError, match="run: its checkpoints are damaged; copy the run from elsewhere, or train again"):
            use()


def test_a_warm_up_longer_than_the_epochs_of_a_run_is_refused(tmp_path, monkeypatch):
    images, labels = np.zeros((12, 1, 8, 8), "uint8"), np.arange(12) % 2
    small = {"patch": 4, "dim": 8, "heads": 2, "layers": 1, "mlp": 8, "batch": 4}
    monkeypatch.chdir(tmp_path)
    for out in ({}, {"out": "run"}, {"out": None}):
        with pytest.raises(eg.ValueError, match="train: warmup is 7, and the run has 6 steps: the learning rate would never"):
            eg.train("vit", (images, labels), test=(images, labels), epochs=2, warmup=7, **out, **small)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []  # nothing was begun
    assert eg.train("vit", (images, labels), test=(images, labels), epochs=2, warmup=6, out="run", **small).step == 6


def test_labels_with_gaps_are_refused_in_datasets_without_names_too():
    images, labels = np.zeros((12, 1, 8, 8), "uint8"), np.arange(12) % 3
    small = {"steps": 1, "patch": 4, "dim": 8, "heads": 2, "layers": 1, "mlp": 8, "batch": 4, "out": None}
    gaps, whole = eg.data.ArrayDataset(images, labels * 2), eg.data.ArrayDataset(images, labels)
    for data, test in [(gaps, gaps), ((images, labels * 2), gaps), (gaps, (images, labels * 2))]:
        with pytest.raises(eg.ValueError, match="train: labels go up to 4, and no image has label 1; .*class_names"):
            eg.train("vit", data, test=test, **small)
    with pytest.raises(eg.ValueError, match="train: labels of test go up to 4, and no image has label 3"):
        eg.train("vit", whole, test=gaps, **small)
    with pytest.raises(eg.ValueError, match="train: test: ArrayDataset: a label is -1"):
        eg.train("vit", (images, labels), test=(images, labels - 1), **small)
    assert eg.train("vit", whole, test=whole, **small).step == 1
    named = eg.data.ArrayDataset(images, labels * 2, class_names=list("01234"))
    assert eg.train("vit", named, test=named, **small).step == 1


def test_evaluate_takes_labels_of_bytes():
    net = eg.nn.Sequential(eg.nn.Linear(3, 2, key=1))
    x, labels = np.ones((4, 3), "float32"), np.array([0, 1, 1, 0])
    assert eg.evaluate(net, [(x, labels.astype("uint8"))]) == eg.evaluate(net, [(x, labels)])
    with pytest.raises(eg.DTypeError, match=r'labels must be i64, it is u8; convert it with to\("i64"\)'):
        eg.cross_entropy(net(eg.tensor(x)), eg.tensor(labels.astype("uint8")))
