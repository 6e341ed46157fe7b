"""Training runs: the trainers of the program `equigrad`, with callbacks.

run = eg.train("vit", data="digits", steps=200, dim=48, heads=4, layers=2, mlp=96)
run.metrics.test["accuracy"]                   # arrays
run.plot("loss")                               # a picture in a notebook
run.model(images)                              # an nn.Vit
eg.train(resume=run.folder, steps=400)         # goes on, with the bits of a run that was never stopped
"""

import copy
import html
import json
import math
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Union

import numpy as np
import numpy.typing as npt

from . import _core, _dtypes
from ._core import training as _training
from ._core.data import ArrayDataset, ImageDataset
from ._core.nn import Module
from ._pictures import Picture, line_chart
from ._progress import Progress, clock

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._core.training import TrainOptions

# Other libraries' names of options.
_OTHER_NAMES = {
    **dict.fromkeys(("batch_size", "per_device_train_batch_size"), "batch"),
    **dict.fromkeys(("learning_rate", "base_lr"), "lr"),
    **dict.fromkeys(("num_layers", "n_layers", "n_layer", "depth", "num_hidden_layers"), "layers"),
    **dict.fromkeys(("hidden_size", "embed_dim", "d_model", "n_embd", "hidden_dim"), "dim"),
    **dict.fromkeys(("num_heads", "n_heads", "n_head", "num_attention_heads"), "heads"),
    **dict.fromkeys(("mlp_dim", "intermediate_size", "ffn_dim"), "mlp"),
    **dict.fromkeys(("max_steps", "total_steps", "num_steps"), "steps"),
    **dict.fromkeys(("num_epochs", "max_epochs", "num_train_epochs"), "epochs"),
    **dict.fromkeys(("output_dir", "default_root_dir", "save_dir"), "out"),
    **dict.fromkeys(("warmup_steps", "num_warmup_steps"), "warmup"),
    **dict.fromkeys(("patch_size",), "patch"),
    **dict.fromkeys(("image_size", "img_size"), "size"),
    **dict.fromkeys(("scheduler", "lr_scheduler_type", "lr_schedule"), "schedule"),
    **dict.fromkeys(("validation_data", "val_data", "eval_dataset", "test_data"), "test"),
    **dict.fromkeys(("verbose", "disable_tqdm", "enable_progress_bar"), "progress"),
    **dict.fromkeys(("dropout_rate", "hidden_dropout_prob"), "dropout"),
    **dict.fromkeys(("grad_clip", "gradient_clip_val", "max_grad_norm", "clip_norm"), "clip"),
    **dict.fromkeys(("max_length", "block_size", "max_len", "seq_len"), "context"),
    **dict.fromkeys(("eval_steps", "validation_freq", "val_check_interval"), "evaluate_every"),
    **dict.fromkeys(("save_steps", "save_freq"), "checkpoint_every"),
    **dict.fromkeys(("gradient_accumulation_steps", "accumulate_grad_batches"), "accumulate"),
    **dict.fromkeys(("resume_from_checkpoint", "ckpt_path"), "resume"),
    **dict.fromkeys(("num_workers", "dataloader_num_workers"), "workers"),
}

Model = Literal["vit", "deit", "bert", "mlm", "gpt2", "llama", "difm"]
Images = Union[ImageDataset, tuple[Any, Any]]
Data = Union[str, os.PathLike[str], Images]
_Sets = tuple[Union[ImageDataset, None], Union[ImageDataset, None]]
_IN_MEMORY = " (in memory)"  # the end of such data's name in a config


@dataclass(frozen=True)
class VariantRecord:
    """What one model did in a step or an evaluation; nan for what was not measured."""

    loss: float = math.nan
    accuracy: float = math.nan
    auc: float = math.nan
    drift: float = math.nan
    ema_loss: float = math.nan
    ema_accuracy: float = math.nan


@dataclass(frozen=True)
class Record(VariantRecord):
    """A step (split "train") or an evaluation ("test"): the main model's numbers, and in variants those of every model.

    epoch counts from 0; per_second is images, tokens, texts or rows. str() is a line for people.
    """

    split: str = "train"
    step: int = 0
    epoch: int = 0
    lr: float = math.nan
    per_second: float = math.nan
    variants: Mapping[str, VariantRecord] = field(default_factory=dict)

    def __str__(self) -> str:
        words = f"{self.split} step {self.step}: loss {self.loss:.4f}"
        if not math.isnan(self.accuracy):
            words += f", accuracy {100 * self.accuracy:.2f} %"
        if not math.isnan(self.auc):
            words += f", AUC {self.auc:.4f}"
        if not math.isnan(self.drift):
            words += f", drift {self.drift:.1e}"
        return words


def _numbers(line: Mapping[str, Any]) -> dict[str, float]:
    known = {one.name for one in fields(VariantRecord)}
    return {name: math.nan if line[name] is None else float(line[name]) for name in known & line.keys()}


def _record(line: Mapping[str, Any]) -> Record:
    rate = next((value for name, value in line.items() if name.endswith("_per_s")), None)
    return Record(
        split=line["split"],
        step=line["step"],
        epoch=line["epoch"],
        lr=line["lr"],
        per_second=math.nan if rate is None else rate,
        variants={name: VariantRecord(**_numbers(one)) for name, one in line.get("variants", {}).items()},
        **_numbers(line),
    )


class Curves(Mapping[str, npt.NDArray[Any]]):
    """Numbers of all steps, or of all evaluations: an array by name, nan where something was not measured.

    Of several models the numbers of each are called after its permutation: "none.loss", "both.drift".
    """

    def __init__(self, lines: Sequence[Mapping[str, Any]]) -> None:
        flat = [_flat(line) for line in lines]
        names = dict.fromkeys(name for line in flat for name in line)
        self._arrays = {
            name: np.array(
                [line.get(name, math.nan) for line in flat], dtype="int64" if name in ("step", "epoch") else "float64"
            )
            for name in names
        }

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        if name not in self._arrays:
            raise KeyError(
                f"'{name}' was not measured"
                + (_core.did_you_mean(name, list(self._arrays)) or f"; there are {list(self._arrays)}")
            )
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def __repr__(self) -> str:
        return f"<curves of {len(self.get('step', ()))} points: {', '.join(self._arrays)}>"


def _flat(line: Mapping[str, Any]) -> dict[str, float]:
    flat = {
        name: math.nan if value is None else value
        for name, value in line.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool) or value is None
    }
    for mode, values in line.get("variants", {}).items():
        flat |= {f"{mode}.{name}": math.nan if value is None else value for name, value in values.items()}
    return flat


class Metrics:
    """What a run measured: train of every step, test of every evaluation."""

    def __init__(self, lines: Sequence[Mapping[str, Any]]) -> None:
        self.train = Curves([line for line in lines if line["split"] == "train"])
        self.test = Curves([line for line in lines if line["split"] == "test"])

    def __repr__(self) -> str:
        return f"<metrics: train {self.train!r}, test {self.test!r}>"


def _lines_of(folder: Path) -> list[dict[str, Any]]:
    """The records of a run folder. A last line that is torn, as a killed process leaves it, is left out."""
    path = folder / "metrics.jsonl"
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")
    records: list[dict[str, Any]] = []
    for number, line in enumerate(lines):
        try:
            if line:
                records.append(json.loads(line))
        except json.JSONDecodeError as error:
            if number == len(lines) - 1:
                break
            raise _core.FileError(f"{path}:{number + 1}: {error}") from None
    return records


class Callback:
    """Called during a run; derive from it and define what you need. run.stop() ends the run after the present step."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        known = [name for name in vars(Callback) if name.startswith("on_")]
        for name in vars(cls):
            if name.startswith("on_") and name not in known and not hasattr(Callback, name):
                raise TypeError(
                    f"{cls.__name__}: a Callback has no {name}, which would never be called"
                    + (_core.did_you_mean(name, known) or f"; there are {', '.join(known)}")
                )

    def on_begin(self, run: "Run") -> None:
        """Before the first step."""

    def on_step(self, run: "Run", record: Record) -> None:
        """After every step."""

    def on_evaluation(self, run: "Run", record: Record) -> None:
        """After every evaluation on the test data."""

    def on_epoch(self, run: "Run", record: Record) -> None:
        """After the last step of an epoch, and its evaluation: the record of that step."""

    def on_checkpoint(self, run: "Run", folder: Path) -> None:
        """When a checkpoint is complete."""

    def on_end(self, run: "Run") -> None:
        """When the run is complete; not after an interruption."""


Step = Callable[["Run", Record], Any]


class _Functions(Callback):
    def __init__(self, on_step: Step | None, on_epoch: Step | None, on_evaluation: Step | None) -> None:
        self._step, self._epoch, self._evaluation = on_step, on_epoch, on_evaluation

    def on_step(self, run: "Run", record: Record) -> None:
        if self._step is not None:
            self._step(run, record)

    def on_epoch(self, run: "Run", record: Record) -> None:
        if self._epoch is not None:
            self._epoch(run, record)

    def on_evaluation(self, run: "Run", record: Record) -> None:
        if self._evaluation is not None:
            self._evaluation(run, record)


class Run:
    """A training run: its options, numbers and models. train() makes one; open_run() opens the folder of one."""

    def __init__(self, kind: str, config: dict[str, Any], folder: Path | None, lines: list[dict[str, Any]]) -> None:
        self.kind = kind
        self.config = config
        self.folder = folder
        self.notes: list[str] = []
        self.step = max((line["step"] for line in lines), default=0)
        self.total_steps = self.steps_per_epoch = 0
        self.seconds = 0.0
        self.skipped = 0
        self.best_step: int | None = None
        self.complete = False
        self._lines = lines
        self._metrics: Metrics | None = None
        self._trainer: Any = None
        self._data: _Sets = (None, None)  # where they are in memory
        self._models: dict[str, Module] | None = None
        self._plain: Module | None = None

    @property
    def metrics(self) -> Metrics:
        """What was measured so far, as arrays: run.metrics.train["loss"], run.metrics.test["accuracy"]."""
        if self._metrics is None:
            self._metrics = Metrics(self._lines)
        return self._metrics

    @property
    def test(self) -> Record | None:
        """The last evaluation on the test data; None before the first."""
        return next((_record(line) for line in reversed(self._lines) if line["split"] == "test"), None)

    @property
    def model(self) -> Module:
        """The main model, a copy, in evaluation: of a run that permutes columns with its weights moved back, so that it
        computes by itself what the run computed with the key."""
        self._open_models()
        if self._plain is None:
            modes, trainer = self._modes(), self._trainer
            main = len(modes) - 1
            self._plain = copy.deepcopy(self._module(main))
            if trainer is not None:
                self._plain.load_state_dict(trainer.plain_weights(main))
        return self._plain

    @property
    def models(self) -> dict[str, Module]:
        """Copies of every model as it was trained, by what is permuted ("none", "rows", "columns", "both"), the main
        one last."""
        self._open_models()
        if self._models is None:
            self._models = {mode: copy.deepcopy(self._module(i)) for i, mode in enumerate(self._modes())}
        return self._models

    def _modes(self) -> list[str]:
        return list(self._trainer.modes) if self._trainer is not None else list(self._models or {})

    def _module(self, variant: int) -> Module:
        if self._trainer is None:
            return list((self._models or {}).values())[variant]
        return self._trainer.module(variant)

    def _open_models(self) -> None:
        if self._trainer is not None or self._models is not None:
            return
        if self.folder is None:
            raise _core.ValueError("run.model: the run was interrupted and wrote no folder; there is no model")
        self._trainer = self._opened("run.model")
        self._close()

    def _opened(self, who: str) -> Any:
        """The trainer of the folder, which takes no lock."""
        if self.folder is None:
            raise _core.ValueError(f"{who}: the run wrote no folder (out=None)")
        if self._data[0] is None and str(self.config.get("data", "")).endswith(_IN_MEMORY):
            raise _core.ValueError(
                f"{who}: {self.folder} was trained on data in memory; "
                f"open it with eg.open_run({os.fspath(self.folder)!r}, data=..., test=...)"
            )
        try:
            return _training.open(self.kind, "{}", os.fspath(self.folder), True, *self._data)
        except _core.FileError as error:
            raise _damaged(self.folder, error) from None

    def _close(self) -> None:
        """Takes the models out of the trainer, which holds the lock of the folder."""
        if self._trainer is not None:
            try:
                _ = self.models, self.model
            finally:
                self._drop()

    def _drop(self) -> None:
        """Frees the folder, whoever holds the trainer: an error's traceback does, and a notebook keeps the last one."""
        trainer, self._trainer = self._trainer, None
        if trainer is not None:
            trainer.close()

    def stop(self) -> None:
        """Ends the run after the present step, as if it were the last one: with an evaluation and all results.

        From any thread; in on_begin: after the first step.
        """
        if self._trainer is None:
            raise _core.ValueError("run.stop(): the run does not train")
        self._trainer.end()

    def plot(self, *metrics: str, x: str = "step", log: bool = False) -> Picture:
        """A chart of the named numbers of all steps and evaluations (default: the loss); x is "step" or "epoch"."""
        lines: list[tuple[str, Any, Any]] = []
        if x not in ("step", "epoch"):
            raise _core.ValueError(f"plot: x is 'step' or 'epoch', not {x!r}")
        for name in metrics or ("loss",):
            before = len(lines)
            for split, curves in (("train", self.metrics.train), ("test", self.metrics.test)):
                if name in curves and x in curves and np.isfinite(curves[name]).any():
                    lines.append((f"{name}, {split}", curves[x], curves[name]))
            if len(lines) == before:
                known = sorted({*self.metrics.train, *self.metrics.test})
                raise _core.ValueError(
                    f"plot: '{name}' was not measured"
                    + (_core.did_you_mean(name, known) or f"; there are {', '.join(known)}")
                )
        return line_chart(lines, title=", ".join(metrics or ("loss",)), x_label=x, log_y=log)

    def __repr__(self) -> str:
        where = f" in {self.folder}" if self.folder is not None else ""
        test = self.test
        return f"<run of {self.kind}{where}: step {self.step}" + (f", {test}>" if test is not None else ">")

    def _repr_html_(self) -> str:
        picture = self.plot().svg if len(self.metrics.train) else ""
        return f"<div>{html.escape(repr(self)[1:-1])}</div>{picture}"


def train_options(model: Model | None = None) -> dict[str, dict[str, Any]]:
    """The options of a model (of all of them) by name: "default", "help", and the "models" that have it."""
    models = json.loads(_training.options())
    if model is not None and model not in models:
        raise _core.ValueError(
            f"train_options: there is no model '{model}'" + _core.did_you_mean(str(model), list(models))
        )
    found: dict[str, dict[str, Any]] = {}
    for kind, rows in models.items():
        for row in rows if model in (None, kind) else ():
            if row["name"] in ("data", "resume"):  # arguments of their own
                continue
            one = found.setdefault(
                _python_name(row["name"]), {"default": row["default"], "help": row["help"], "models": []}
            )
            one["models"].append(kind)
    return found


def _python_name(key: str) -> str:
    return "from_" if key == "from" else key


def _plain(name: str, value: Any) -> Any:
    """An option as JSON has it, which knows no nan."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if name == "dtype" and (dtype := _dtypes.name_of(value)) is not None:
        return str(dtype)
    if isinstance(value, np.generic):
        return _plain(name, value.item())
    if isinstance(value, (list, tuple)):
        return [_plain(name, one) for one in value]
    _require_finite("train", name, value)
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    raise TypeError(f"train: {name} is a {type(value).__name__}, which is no text, number or path")


def _require_finite(who: str, name: str, value: Any) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise _core.ValueError(f"{who}: {name} is {value}; give a finite number")


def _options(model: str, config: Any, options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any], bool]:
    """(what the config gives by key, what the call gives, whether the run is to have no folder)."""
    if config is not None and not isinstance(config, Mapping):
        try:
            config = json.loads(Path(os.fspath(config)).read_text(encoding="utf-8"))
        except OSError as error:
            raise _core.FileError(f"train: {os.fspath(config)}: {error.strerror}") from None
        except ValueError as error:
            raise _core.ValueError(f"train: {os.fspath(config)} is no JSON: {error}") from None
    kind = (config or {}).get("model", "bert" if model == "mlm" else model)
    if kind != ("bert" if model == "mlm" else model):
        raise _core.ValueError(f"train: the config is of a {kind}, not of a {model}")
    # What a run says of itself is no wish: a config with every option is a run's, and its folder is taken.
    of_a_run = config is not None and {_python_name(name) for name in config} >= train_options(model).keys()
    own = {"model", "resume", "out", "overwrite"} if of_a_run else {"model"}
    base = {name: value for name, value in (config or {}).items() if name not in own}
    if base.pop("resume", ""):
        raise _core.ValueError("train: 'resume' is not taken from a config; give resume=")
    nowhere = options.get("out", "") is None
    if options.get("out") is not None and os.fspath(options["out"]) == "":
        raise _core.ValueError("train: out is ''; give a folder, or out=None for none, or leave it out")
    given = {
        ("from" if name == "from_" else name): value
        for name, value in options.items()
        if value is not None and not (isinstance(value, str) and value == "")
    }
    return (
        {name: _plain(name, value) for name, value in base.items()},
        {name: _plain(name, value) for name, value in given.items()},
        nowhere,
    )


def _is_pair(data: Any) -> bool:
    """Whether it is (images, labels), as a tuple or a list, and not two batches of (inputs, labels)."""

    def is_two(one: Any) -> bool:
        return isinstance(one, (tuple, list)) and len(one) == 2

    def is_batch(one: Any) -> bool:
        return is_two(one) and getattr(one[0], "shape", ()) != ()

    return is_two(data) and not (is_batch(data[0]) and is_batch(data[1]))


def _numbers_of_classes(labels: Any) -> list[str] | None:
    """The names "0", "1", ... of classes up to the largest label: a test set need not have an image of each."""
    array = np.asarray(labels.cpu() if isinstance(labels, _core.Tensor) else labels)
    if array.dtype.kind not in "iu" or array.size == 0 or not 0 <= array.min() <= array.max() < 1_000_000:
        return None  # refused by the dataset, which says why
    return [str(i) for i in range(int(array.max()) + 1)]


def _images(what: str, data: Any, who: str = "train") -> ImageDataset | None:
    """Images in memory; None for a name or a path."""
    if isinstance(data, ImageDataset):
        return data
    if _is_pair(data):
        shape = getattr(data[0], "shape", ())
        if len(shape) == 4 and shape[3] in (1, 3) and shape[1] not in (1, 3):
            raise _core.ShapeError(
                f"{who}: {what} has images {list(shape)}; give [N, channels, H, W]: images.transpose(0, 3, 1, 2)"
            )
        try:
            return ArrayDataset(data[0], data[1], class_names=_numbers_of_classes(data[1]))
        except _core.Error as error:
            raise type(error)(f"{who}: {what}: {error}") from None
    if data is None or isinstance(data, (str, os.PathLike)):
        return None
    raise TypeError(
        f"{who}: {what} is a {type(data).__name__}; give a name, a path, a dataset, or (images, labels) with "
        "images u8 [N, C, H, W]"
    )


def _sources(model: str, data: Any, test: Any, given: dict[str, Any], who: str = "train") -> _Sets:
    train_set, test_set = _images("data", data, who), _images("test", test, who)
    if _is_pair(data) and _is_pair(test):
        # The classes of both: a test set need not have one of each.
        names = max(train_set.class_names, test_set.class_names, key=len)
        train_set, test_set = (ArrayDataset(*pair, class_names=names) for pair in (data, test))
    if train_set is not None and test_set is not None:
        _require_every_class(who, _Labels("data", data, train_set), _Labels("test", test, test_set))
    if data is not None and train_set is None:
        given["data"] = os.fspath(data)
    if test is not None and test_set is None:
        raise TypeError(f"{who}: test goes with data in memory; a data set's name or path has its own test part")
    if (train_set is None) != (test_set is None):
        given_one, missing = ("data", "test") if test_set is None else ("test", "data")
        raise _core.ValueError(
            f"{who}: {given_one} is in memory, so {missing} must be given as well: {missing}=(images, labels)"
        )
    if train_set is not None:
        if model not in ("vit", "deit"):
            raise _core.ValueError(f"{who}: {model} takes no images; data is a name or a path")
        given["data"] = train_set.name + _IN_MEMORY
    return train_set, test_set


class _Labels:
    """The labels of a set in memory, and whether its classes were given no names."""

    def __init__(self, what: str, data: Any, images: ImageDataset) -> None:
        self.what = what
        self.numbered = _is_pair(data) or getattr(images, "_numbered", False)
        self.there: set[int] = set()
        if self.numbered and _is_pair(data):
            labels = data[1].cpu() if isinstance(data[1], _core.Tensor) else data[1]
            self.there = {int(label) for label in np.unique(np.asarray(labels))}
        elif self.numbered:
            self.there = {images.label(i) for i in range(len(images))}


def _require_every_class(who: str, *sets: _Labels) -> None:
    """A label that stands nowhere is most likely a wrong number: labels that begin at 1, or ids of something else."""
    if not all(one.numbered for one in sets):
        return
    there: set[int] = set().union(*(one.there for one in sets))
    largest = max(there, default=0)
    missing = next((label for label in range(largest) if label not in there), None)
    if missing is not None:
        whose = next(one.what for one in sets if largest in one.there)
        labels = "labels" if whose == "data" else "labels of test"
        raise _core.ValueError(
            f"{who}: {labels} go up to {largest}, and no image has label {missing}; number the classes from 0 on "
            "(np.unique(labels, return_inverse=True)[1]), or name them all: "
            "eg.data.ArrayDataset(images, labels, class_names=[...])"
        )


def _check_functions(**functions: Any) -> None:
    for name, function in functions.items():
        if function is not None and not callable(function):
            raise TypeError(f"train: {name} is a {type(function).__name__}; give a function of (run, record)")


def _listed(callbacks: Callback | Sequence[Callback]) -> list[Callback]:
    if callable(callbacks) and not isinstance(callbacks, Callback):
        raise TypeError("train: callbacks is a function; give it as on_step=, on_epoch= or on_evaluation=")
    found = [callbacks] if isinstance(callbacks, Callback) else list(callbacks)
    for one in found:
        if not isinstance(one, Callback):
            raise TypeError(f"train: callbacks holds a {type(one).__name__}; derive from eg.Callback, or give on_step=")
    return found


class _Teller:
    """Passes on what the trainer tells."""

    def __init__(self, run: Run, callbacks: Sequence[Callback], progress: Progress, unit: str) -> None:
        self.run, self.callbacks, self.progress, self.unit = run, callbacks, progress, unit
        self.last: Record | None = None

    def words(self) -> str:
        if self.last is None:
            return ""
        words = f"loss {self.last.loss:.4f}"
        if not math.isnan(self.last.accuracy):
            words += f"  accuracy {100 * self.last.accuracy:.1f} %"
        return words + f"  {self.last.per_second:.0f} {self.unit}/s"

    def __call__(self, what: str, value: str) -> None:
        run = self.run
        if what in ("step", "test"):
            line = json.loads(value)
            run._lines.append(line)
            run._metrics = None
            run._models = run._plain = None
            run.step = line["step"]
            record = _record(line)
            if what == "step":
                self.last = record
                self.progress.update(run.step, run.total_steps, self.words())
                for one in self.callbacks:
                    one.on_step(run, record)
            else:
                self.progress.say(str(record))
                for one in self.callbacks:
                    one.on_evaluation(run, record)
        elif what == "epoch" and self.last is not None:
            for one in self.callbacks:
                one.on_epoch(run, self.last)
        elif what == "testing":
            self.progress.update(run.step, run.total_steps, f"evaluating {100 * float(value):.0f} %")
        elif what == "skipped":
            self.progress.say(f"skipped step {run.step}: {value}")
        elif what == "checkpoint":
            for one in self.callbacks:
                one.on_checkpoint(run, Path(value))


def train(
    model: Model | None = None,
    data: Data | None = None,
    *,
    test: Images | None = None,
    resume: str | os.PathLike[str] | Run | None = None,
    config: Mapping[str, Any] | str | os.PathLike[str] | None = None,
    callbacks: Callback | Sequence[Callback] = (),
    on_step: Step | None = None,
    on_epoch: Step | None = None,
    on_evaluation: Step | None = None,
    progress: bool | None = None,
    **options: "Unpack[TrainOptions]",
) -> Run:
    """Trains a model as `equigrad train MODEL` does, with the same bits, and gives the run.

    model: vit, deit (images), bert (labelled texts), mlm (bert on masked words), gpt2, llama (texts), difm (tables).
    data: what the program takes (a data set's name, a file, a folder), or images in memory, an ImageDataset or
    (images, labels); those need test= too. Options are the program's, with _ for -: train_options(model) lists them
    (from_ stands for --from). One of steps and epochs is needed. out: the run folder, by default the first free one of
    out/MODEL, out/MODEL-2, ...; out=None writes nothing. config: options as a dict or a JSON file.

    on_step, on_epoch and on_evaluation are called as f(run, record); callbacks are objects of classes that derive from
    Callback. run.stop() in one of them ends the run after the step. progress: None shows a bar on a terminal and in a
    notebook; True writes lines elsewhere as well.

    Ctrl-C, and an error in a callback, end the run after the present step; a run with a folder leaves a checkpoint.
    resume=FOLDER (a run or one of its checkpoints) resumes there. The result has the bits of an uninterrupted
    run.
    """
    folder = resume.folder if isinstance(resume, Run) else None if resume is None else Path(os.fspath(resume))
    if isinstance(resume, Run) and folder is None:
        raise _core.ValueError("train: the run that is to be resumed wrote no folder (out=None)")
    if folder is not None:
        try:
            found = _training.model_of_run(os.fspath(folder))
        except _core.FileError as error:
            raise _damaged(folder, error) from None
        if model is not None and model != found:
            raise _core.ValueError(f"train: {folder} is a run of {found}, not of {model}")
        model = found  # type: ignore[assignment]
    if model is None:
        raise TypeError("train: which model? vit, deit, bert, mlm, gpt2, llama or difm, or resume=FOLDER")
    if not isinstance(model, str):
        raise TypeError(
            f"train: model is a {type(model).__name__}; it names what is trained: 'vit', 'bert', ... "
            "(a module of your own is trained with a tape and an optimizer: docs/python.md)"
        )
    _check_functions(on_step=on_step, on_epoch=on_epoch, on_evaluation=on_evaluation)
    listed = [_Functions(on_step, on_epoch, on_evaluation), *_listed(callbacks)]
    base, given, nowhere = _options(model, config, dict(options))
    images = _sources(model, data, test, given)
    if str(base.get("data", "")).endswith(_IN_MEMORY) and "data" not in given:
        raise _core.ValueError("train: the config is of a run on data in memory; give data= and test= again")
    if folder is not None and images[0] is None and "data" not in given:
        _require_data_on_disk(folder)
    for name in given.keys() & _OTHER_NAMES.keys():
        if _OTHER_NAMES[name] in {"progress", "resume", "test"} | train_options(model).keys():
            raise _core.ValueError(f"train: there is no option '{name}'; here it is {_OTHER_NAMES[name]}")
    wishes = json.dumps({"config": base, "given": given}, allow_nan=False)
    try:
        trainer = _training.open(model, wishes, os.fspath(folder) if folder is not None else "", nowhere, *images)
    except _core.Error as error:
        raise _in_python(error if folder is None else _damaged(folder, error)) from None
    return _trained(model, trainer, images, listed, Progress(progress))


def _in_python(error: _core.Error) -> _core.Error:
    """The error with the program's flags as arguments: --out X is out='X' here."""

    def argument(flag: re.Match[str]) -> str:
        name, value = flag[1].replace("-", "_"), flag[2]
        if value is not None:
            return f"{name}={shlex.split(value)[0]!r}"
        return f"{name}=True" if known.get(name, {}).get("default") is False else name

    known = train_options()
    words = re.sub(r"(?<![\w-])--([a-z][a-z-]*)(?: ('[^']*'|\S+)(?= to go on| can be used))?", argument, str(error))
    return error if words == str(error) else type(error)(words)


def _damaged(folder: Path, error: _core.Error) -> _core.Error:
    """The error, with what to do where it is of a checkpoint of the folder."""
    if not isinstance(error, _core.FileError) or "step-" not in str(error):
        return error
    return _core.FileError(
        f"{folder}: its checkpoints are damaged; copy the run from elsewhere, or train again with "
        f"out={os.fspath(folder)!r}, overwrite=True ({error})"
    )


def _config_of(folder: Path) -> dict[str, Any]:
    """The options of a run, as config.json has them; none where there is no such file."""
    path = folder / "config.json"
    if not path.exists():
        return {}
    try:
        config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # of JSON, or of UTF-8
        raise _core.FileError(
            f"{path} is damaged; eg.train(resume={os.fspath(folder)!r}) writes it again from the last checkpoint ({error})"
        ) from None
    return config


def _require_data_on_disk(folder: Path) -> None:
    try:
        config = _config_of(folder)
    except _core.FileError:
        return  # the checkpoint has the options too
    if str(config.get("data", "")).endswith(_IN_MEMORY):
        raise _core.ValueError(f"train: {folder} was trained on data in memory; give data= and test= again")


def _trained(model: str, trainer: Any, images: _Sets, callbacks: Sequence[Callback], progress: Progress) -> Run:
    folder = Path(trainer.out) if trainer.out else None
    kept = (
        [line for line in _lines_of(folder) if line["step"] <= trainer.step]
        if folder is not None and trainer.step
        else []
    )
    run = Run(model, json.loads(trainer.options), folder, kept)
    run._trainer, run._data = trainer, images
    run.notes = list(trainer.notes)
    run.step, run.total_steps, run.steps_per_epoch = trainer.step, trainer.total_steps, trainer.steps_per_epoch
    teller = _Teller(run, callbacks, progress, trainer.unit)
    progress.say(f"{trainer.summary}; {run.total_steps} steps" + (f", in {folder}" if folder is not None else ""))
    for note in run.notes:
        progress.say(f"note: {note}")
    progress.begin(run.step)
    began = run.step > 0  # before that, the folder may hold another run's checkpoints
    try:
        for one in callbacks:
            one.on_begin(run)
        began = True
        result = json.loads(trainer.run(teller))
    except KeyboardInterrupt:
        run.step = trainer.step  # the last step may have ended without being told
        run._drop()
        progress.end(run.step, run.total_steps, "interrupted")
        there = folder is not None and began and any((folder / "checkpoints").glob("step-*"))
        data = ", data=..., test=..." if images[0] is not None else ""
        hint = f"; resume with eg.train(resume={os.fspath(folder)!r}{data})" if folder is not None and there else ""
        raise KeyboardInterrupt(f"train: interrupted after step {run.step} of {run.total_steps}{hint}") from None
    except _core.Error as error:
        run._drop()
        progress.end(run.step, run.total_steps, "stopped by an error")
        raise _in_python(error) from None
    except BaseException:
        run._drop()
        progress.end(run.step, run.total_steps, "stopped by an error")
        raise
    run.seconds, run.skipped, run.best_step = result["seconds"], result["skipped"], result["best"]
    run.complete = True
    if folder is not None:  # where an evaluation was made once more, its earlier line is gone
        run._lines, run._metrics = _lines_of(folder), None
    progress.end(run.step, run.total_steps, f"{teller.words()}  done in {clock(run.seconds)}")
    try:
        for one in callbacks:
            one.on_end(run)
    finally:  # the folder's lock goes in any case
        run._close()
    return run


def open_run(folder: str | os.PathLike[str], data: Images | None = None, test: Images | None = None) -> Run:
    """The run in a folder that train() or the program made: options, numbers and, with its data at hand, models.

    data, test: the images of a run that was trained on data in memory, for its models and eg.evaluate.
    """
    path = Path(os.fspath(folder))
    try:
        kind = _training.model_of_run(os.fspath(path))
    except _core.FileError as error:
        raise _damaged(path, error) from None
    run = Run(kind, _config_of(path), path, _lines_of(path))
    run._data = _sources(kind, data, test, {}, "open_run")
    run.complete = (path / "complete.json").exists()  # which is away while a run trains
    return run
