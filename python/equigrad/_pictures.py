"""Charts, attention maps and pages that a notebook shows; without another library."""

import base64
import html
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike, fspath
from typing import Any, overload

import numpy as np

from . import _core
from ._core import Tensor
from ._core.nn import _with_attention
from ._core.report import chart as _chart
from ._core.report import heat_map as _heat_map

_STYLE = "<style>text{font:13px sans-serif;fill:currentColor}</style>"


def _write(path: str | PathLike[str], text: str) -> None:
    with open(fspath(path), "w", encoding="utf-8") as file:
        file.write(text)


class Picture:
    """A picture as SVG: a notebook shows it, save() writes it to a file, str() is its text."""

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def save(self, path: str | PathLike[str]) -> None:
        """Writes it to a file. Raises ValueError where its name ends as that of another kind of picture."""
        if fspath(path).lower().endswith((".png", ".jpg", ".jpeg", ".gif", ".pdf", ".webp")):
            raise _core.ValueError(f"save: the picture is SVG; call the file NAME.svg, not {fspath(path)}")
        _write(path, self.svg)

    def _repr_svg_(self) -> str:
        return self.svg

    def __str__(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"<picture: {len(self.svg)} bytes of SVG; save(path) writes it>"


class Page:
    """A page of HTML that needs nothing else: a notebook shows it in a frame, save() writes it to a file."""

    def __init__(self, html: str, notes: Sequence[str] = ()) -> None:
        self.html = html
        self.notes = list(notes)

    def save(self, path: str | PathLike[str]) -> None:
        """Writes it to a file, whose name usually ends with .html."""
        _write(path, self.html)

    def _repr_html_(self) -> str:
        # A frame: the page's styles stay its own.
        return f'<iframe srcdoc="{html.escape(self.html)}" style="width:100%;height:40em;border:0"></iframe>'

    def __str__(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return f"<page: {len(self.html)} bytes of HTML; save(path) writes it>"


def _numbers(values: Any, what: str) -> list[float]:
    """A list, an array or a tensor of one axis as floats."""
    try:
        array = np.asarray(values.tolist() if isinstance(values, Tensor) else values, dtype=float)
    except (TypeError, ValueError):
        raise TypeError(f"line_chart: {what} is a {type(values).__name__}; give numbers: a list, an array or a tensor") from None
    if array.ndim != 1:
        raise _core.ShapeError(f"line_chart: {what} has shape {array.shape}; give one axis, and each line by itself")
    listed: list[float] = array.tolist()
    return listed


def _line(name: str, x: Any, y: Any) -> tuple[str, list[float], list[float], bool]:
    """A line for the chart; x None counts from 0."""
    ys = _numbers(y, f"y of '{name}'" if name else "y")
    xs = [float(i) for i in range(len(ys))] if x is None else _numbers(x, f"x of '{name}'")
    if len(xs) != len(ys):
        raise _core.ValueError(f"line_chart: '{name}' has {len(xs)} numbers in x and {len(ys)} in y")
    return name, xs, ys, len(xs) < 40


def _lines(given: Any) -> list[tuple[str, list[float], list[float], bool]]:
    def is_pair(one: Any) -> bool:
        return isinstance(one, tuple) and len(one) == 2 and all(hasattr(part, "__len__") for part in one)

    if isinstance(given, Mapping):
        return [_line(str(name), *(y if is_pair(y) else (None, y))) for name, y in given.items()]
    named = isinstance(given, (list, tuple)) and [
        isinstance(one, (list, tuple)) and len(one) in (2, 3) and isinstance(one[0], str) for one in given
    ]
    if named and all(named):
        return [_line(one[0], *(one[1:] if len(one) == 3 else (None, one[1]))) for one in given]
    if named and any(named):
        raise TypeError(f"line_chart: line {named.index(False)} is not (name, x, y)")
    if isinstance(given, (list, tuple)) and not given:
        return []
    return [_line("", None, given)]


def line_chart(
    lines: Sequence[tuple[str, Any, Any]] | Mapping[str, Any] | Any,
    *,
    title: str = "",
    x_label: str = "step",
    y_label: str = "",
    log_y: bool = False,
) -> Picture:
    """A chart of lines, with their names below it.

    lines: (name, x, y) or (name, y) of each; or a dict of y, or of (x, y), by name; or one line alone. x and y are
    lists, arrays or tensors of one axis. Without x, numbers count from 0.
    """
    return Picture(_chart(title, x_label, y_label, _lines(lines), log_y))


class AttentionMaps(Sequence[Tensor]):
    """What attention computed in one call: maps[layer] is softmax's result [B, heads, T, T].

    A notebook shows the first sample.
    """

    def __init__(self, layers: list[dict[str, Tensor]], output: Any) -> None:
        self.layers = layers
        self.output = output

    @property
    def logits(self) -> list[Tensor]:
        """Of each layer scale Q K^T, before masks and softmax."""
        return [layer["logits"] for layer in self.layers]

    @overload
    def __getitem__(self, layer: int) -> Tensor: ...
    @overload
    def __getitem__(self, layer: slice) -> list[Tensor]: ...
    def __getitem__(self, layer: int | slice) -> Tensor | list[Tensor]:
        if isinstance(layer, slice):
            return [one["attention"] for one in self.layers[layer]]
        return self.layers[layer]["attention"]

    def __len__(self) -> int:
        return len(self.layers)

    def __iter__(self) -> Iterator[Tensor]:
        return (layer["attention"] for layer in self.layers)

    def picture(self, sample: int = 0, *, logits: bool = False, tokens: Sequence[str] | None = None) -> Picture:
        """A row for each layer, a map for each head: row i of a map says what token i looks at. tokens: their names."""
        maps = self.logits if logits else list(self)
        if not maps:
            raise _core.ValueError("attention_maps: the call ran no attention")
        side, gap, left, top = 120, 14, 64, 22
        body, width, y = "", 0, top
        for number, layer in enumerate(maps):
            heads = layer[sample].detach()
            body += f'<text x="{left - 8}" y="{y + side / 2}" text-anchor="end">layer {number}</text>'
            for head in range(heads.shape[0]):
                x = left + head * (side + gap)
                png = base64.b64encode(_heat_map(heads[head].to("f32"))).decode()
                if number == 0:
                    body += f'<text x="{x + side / 2}" y="{top - 8}" text-anchor="middle">head {head}</text>'
                body += (
                    f'<image x="{x}" y="{y}" width="{side}" height="{side}" preserveAspectRatio="none" '
                    f'style="image-rendering:pixelated" href="data:image/png;base64,{png}">'
                    f"<title>layer {number}, head {head}</title></image>"
                )
                width = max(width, x + side + gap)
            y += side + gap
        if tokens is not None:
            words = " ".join(f"{i} {word}" for i, word in enumerate(tokens))
            body += f'<text x="{left}" y="{y + 8}">{html.escape(words)}</text>'
            y += 20
        return Picture(
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y}" width="{width}" role="img" '
            f'aria-label="attention maps">{_STYLE}{body}</svg>'
        )

    def _repr_svg_(self) -> str:
        return self.picture().svg

    def __repr__(self) -> str:
        return f"<attention maps of {len(self)} layers: {[tuple(one.shape) for one in self]}>"


def attention_maps(model: Any, *args: Any, **kwargs: Any) -> AttentionMaps:
    """Calls model(*args, **kwargs) and gives what every attention inside computed, in the order of the calls.

    For every module with a MultiHeadAttention in it, your own too, for Set Transformers, DIFMs and hub.Models. The maps
    are computed once more on the explicit path, without dropout; gradients pass through them.
    """
    output, layers = _with_attention(lambda: model(*args, **kwargs))
    return AttentionMaps(layers, output)
