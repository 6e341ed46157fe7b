"""Reports on runs, evaluation of models, and attacks, as the program has them."""

import json
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Union, overload

from . import _core, ops
from ._core import Tensor
from ._core import report as _report
from ._core import training as _training
from ._core.data import ImageDataset, Loader, open_dataset
from ._core.hub import Model as HubModel
from ._core.nn import Module
from ._pictures import Page
from .training import Record, Run, _images, _is_pair, _record, _require_finite, open_run

Folder = Union[str, os.PathLike[str]]


def _run_folder(run: Run | Folder, who: str = "report") -> str:
    if not isinstance(run, Run):
        return os.fspath(run)
    if run.folder is None:
        raise _core.ValueError(f"{who}: the run wrote no folder (out=None); give it one")
    return os.fspath(run.folder)


def report(
    runs: Run | Folder | Sequence[Run | Folder],
    out: Folder | None = None,
    *,
    data: Folder | None = None,
    data_dir: Folder | None = None,
    key: Folder | None = None,
    samples: int = 1000,
    seed: int = 0,
    theorems: bool = False,
) -> Page:
    """The page that `equigrad report` writes: numbers, curves and options of runs, and what their models do.

    out: a file that it is written to as well. data, key: where they are now, if they have moved. samples: test samples
    that each model is asked about (0: all). What could not be shown stands in .notes. theorems: the page of the main
    job (./run.sh) instead, of one run of a ViT with a plain variant: its curves, drift, images and attention, and all
    identities of the catalogue, which are measured for it.
    """
    listed = [runs] if isinstance(runs, (Run, str, os.PathLike)) else list(runs)
    if not listed:
        raise _core.ValueError("report: no run was given")
    if theorems:
        if len(listed) != 1:
            raise _core.ValueError(f"report: theorems=True is of one run, not of {len(listed)}")
        page = Page(_report.main_page(_run_folder(listed[0]), list(_core.system().items())))
        if out is not None:
            page.save(out)
        return page
    place, sets, secret = ("" if one is None else os.fspath(one) for one in (data, data_dir, key))
    html, notes = _report.runs_page([_run_folder(one) for one in listed], place, sets, secret, samples, seed)
    page = Page(html, notes)
    if out is not None:
        page.save(out)
    return page


@dataclass(frozen=True)
class Evaluation:
    """The mean loss (nats) over `count` samples, and the share of them that were right."""

    loss: float
    accuracy: float
    count: int

    def __str__(self) -> str:
        return f"loss {self.loss:.4f}, accuracy {100 * self.accuracy:.2f} % on {self.count} samples"


@overload
def evaluate(model: Run | Folder) -> Record: ...
@overload
def evaluate(
    model: Module | HubModel,
    data: Any,
    *,
    batch_size: int = 64,
    split: str = "test",
    size: int = 0,
    limit: int = 0,
    data_dir: Folder = "",
    mean: float | Sequence[float] | None = None,
    std: float | Sequence[float] | None = None,
) -> Evaluation: ...
def evaluate(
    model: Run | Folder | Module | HubModel,
    data: Any = None,
    *,
    batch_size: int = 64,
    split: str = "test",
    size: int = 0,
    limit: int = 0,
    data_dir: Folder = "",
    mean: float | Sequence[float] | None = None,
    std: float | Sequence[float] | None = None,
) -> Evaluation | Record:
    """Measures a model on test data.

    A run (or its folder): on the run's own test data, as it does itself, permuted as in training; gives a Record.
    A module or hub.Model of images: on a data set (its name, a folder, an ImageDataset, (images, labels), a Loader) or
    any iterable of (inputs, labels); gives an Evaluation. The module's output is logits [B, classes]. It is measured in
    evaluation, and left as it was. mean, std: how pixels are scaled, where they are not the data set's usual numbers.
    """
    if isinstance(model, (Run, str, os.PathLike)):
        return _evaluate_run(model, data)
    if data is None:
        raise TypeError("evaluate: data is needed: a data set's name, a folder, an ImageDataset, or (images, labels)")
    module = model.module if isinstance(model, HubModel) else model
    if not isinstance(module, Module):
        raise TypeError(f"evaluate: model is a {type(model).__name__}; give a module, a hub.Model or a run")
    batches = _batches(data, batch_size, split, size, limit, data_dir, mean, std)
    modes = [(one, one.training) for one in module.modules()]
    module.eval()
    try:
        with _core.pause():
            return _measured(model, batches)
    finally:
        for one, was in modes:  # the outer ones first, which set those inside
            one.train(was)


def _evaluate_run(run: Run | Folder, data: Any) -> Record:
    if data is not None:
        raise TypeError("evaluate: a run is measured on its own test data; for other data give run.model")
    _run_folder(run, "evaluate")
    trainer = (run if isinstance(run, Run) else open_run(run))._opened("evaluate")
    return _record(json.loads(trainer.test()))


def _batches(
    data: Any,
    batch_size: int,
    split: str,
    size: int,
    limit: int,
    data_dir: Folder,
    mean: float | Sequence[float] | None,
    std: float | Sequence[float] | None,
) -> Iterable[tuple[Any, Any]]:
    if isinstance(data, Loader):
        return ((batch.images, batch.labels) for batch in (data.batch(0, i) for i in range(len(data))))
    if isinstance(data, (str, os.PathLike)):
        data = open_dataset(os.fspath(data), split, data_dir=os.fspath(data_dir), size=size, limit=limit)
    if isinstance(data, ImageDataset) or _is_pair(data):
        images = _images("data", data, "evaluate")
        assert images is not None
        loader = Loader(images, batch_size=batch_size, shuffle=False, workers=0, mean=mean, std=std)
        return ((batch.images, batch.labels) for batch in (loader.batch(0, i) for i in range(len(loader))))
    if isinstance(data, Iterable):
        return data
    raise TypeError(
        f"evaluate: data is a {type(data).__name__}; give a data set, (images, labels) or batches of (inputs, labels)"
    )


def _measured(model: Any, batches: Iterable[tuple[Any, Any]]) -> Evaluation:
    loss, right, count = 0.0, 0, 0
    for inputs, labels in batches:
        if isinstance(model, HubModel):
            outputs = model(pixel_values=inputs)
            if "logits" not in outputs:
                raise _core.ValueError(f"evaluate: {model.architecture} gives no logits; it has no classifier")
            logits = outputs["logits"]
        else:
            logits = model(inputs if isinstance(inputs, Tensor) else _core.tensor(inputs))
        if not isinstance(logits, Tensor) or logits.ndim != 2:
            raise _core.ValueError("evaluate: the model must give logits [B, classes]")
        labels = labels if isinstance(labels, Tensor) else _core.tensor(labels)
        labels = labels.to("i64") if labels.dtype == "u8" else labels
        rows = logits.shape[0]
        loss += ops.cross_entropy(logits, labels).item() * rows
        right += int((ops.argmax(logits) == labels).to("f64").sum().item())
        count += rows
    if count == 0:
        raise _core.ValueError("evaluate: there are no samples")
    return Evaluation(loss / count, right / count, count)


class Attacks:
    """Results of attacks: cells are dicts (attack, scheme, base, keys, defence, model, status, findings).

    str() is the program's text, a notebook shows the page with tables and pictures, markdown is the table of main
    rates. holds: no finding is below the least rate that theory guarantees.
    """

    def __init__(self, found: dict[str, Any]) -> None:
        self.cells: list[dict[str, Any]] = found["cells"]
        self.markdown: str = found["markdown"]
        self.page = Page(found["html"])
        self._text: str = found["text"]

    @property
    def holds(self) -> bool:
        return all(cell["status"] != "fail" for cell in self.cells)

    def rate(self, scheme: str, attack: str | None = None, base: str | None = None) -> float:
        """The main rate of the first cell that fits; nan where there was nothing to attack."""
        for cell in self.cells:
            if cell["scheme"] == scheme and attack in (None, cell["attack"]) and base in (None, cell["base"]):
                return float(cell["findings"][0]["value"]) if cell["findings"] else math.nan
        raise KeyError(f"no cell has scheme {scheme!r}, attack {attack!r}, base {base!r}")

    def save(self, path: Folder) -> None:
        """Writes the page."""
        self.page.save(path)

    def _repr_html_(self) -> str:
        return self.page._repr_html_()

    def __str__(self) -> str:
        return self._text

    def __len__(self) -> int:
        return len(self.cells)

    def __repr__(self) -> str:
        return f"<attacks: {len(self.cells)} cells, {'all hold' if self.holds else 'some fail'}; print() shows them>"


def attack(
    name: str = "all",
    *,
    model: Folder | None = None,
    scheme: str = "",
    base: str = "",
    keys: str = "",
    defences: str | Sequence[str] = "",
    data: Folder | None = None,
    data_dir: Folder = "",
    noise: float = 0.3,
    delta: float = 0.05,
    tokens: int = 16,
    layer: int = -1,
    size: int = 0,
    pictures: int = 1000,
    learned: bool = False,
    steps: int = 400,
    pretraining: int = 0,
    rounds: int = 4,
    seed: int = 0,
) -> Attacks:
    """Runs attacks on permuted weights and data, as `equigrad attack` does: what an honest-but-curious cloud recovers.

    name: an attack of attacks(), or all. model: a model folder; without one randomly initialised models. scheme: one
    of attack_schemes(). base: published, tuned or secret, what the attacker knows of the weights. keys: fixed or
    fresh. "" stands for each of them. Permutation is obfuscation, not encryption.
    """
    given = {
        "name": name,
        "model": "" if model is None else os.fspath(model),
        "scheme": scheme,
        "base": base,
        "keys": keys,
        "defences": defences if isinstance(defences, str) else ",".join(defences),
        "data": "" if data is None else os.fspath(data),
        "data_dir": os.fspath(data_dir),
        "noise": noise,
        "delta": delta,
        "tokens": tokens,
        "layer": layer,
        "size": size,
        "pictures": pictures,
        "learned": learned,
        "steps": steps,
        "pretraining": pretraining,
        "rounds": rounds,
    }
    for option, value in given.items():
        _require_finite("attack", option, value)
    return Attacks(json.loads(_report.attack(json.dumps(given, allow_nan=False), seed)))


def attacks() -> dict[str, dict[str, Any]]:
    """The attacks by name: what each sees, recovers and costs, its source, whether it learns."""
    return {one["name"]: one for one in json.loads(_report.attack_lists())["attacks"]}


def attack_schemes() -> dict[str, str]:
    """The schemes that are attacked, by name, and what each permutes."""
    return {one["name"]: one["what"] for one in json.loads(_report.attack_lists())["schemes"]}


def attack_defences() -> dict[str, str]:
    """What the edge can do beside a scheme, by name."""
    return {one["name"]: one["what"] for one in json.loads(_report.attack_lists())["defences"]}
