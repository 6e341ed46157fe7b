"""Model folders as Hugging Face's libraries write and read them, and texts that their language models continue."""

from os import PathLike
from typing import Any, Callable, Sequence

from . import _core
from ._core.data import Tokenizer
from ._core.hub import *
from ._core.hub import GeneratedText, Model, load_with_report
from ._core.nn import Vit
from ._core.random import Key


def load(
    folder: str | PathLike[str],
    dtype: str = "f32",
    fresh_head: bool = False,
    key: Key | int = 0,
    image_size: tuple[int, int] | None = None,
) -> Model:
    """Reads a model folder, in evaluation.

    A head that the file lacks begins with random weights from `key` where fresh_head is true. image_size: height and
    width of the images to come, where they are not the config's. Raises FileError that lists what is missing,
    unexpected or of another shape; load_with_report() gives the report too.
    """
    return load_with_report(folder, dtype, fresh_head, key, image_size)[0]


def _config_end_ids(model: Model) -> list[int]:
    ids = model.config.get("eos_token_id")
    return [] if ids is None else list(ids) if isinstance(ids, list) else [ids]


def generate_text(
    model: Model,
    tokenizer: Tokenizer | None,
    prompt: str | Sequence[int],
    *,
    max_new_tokens: int = 100,
    temperature: float = 0.0,
    top_k: int = 0,
    top_p: float = 1.0,
    end_ids: Sequence[int] | None = None,
    stops: Sequence[str] = (),
    key: Key | int = 0,
    on_text: Callable[[str], Any] | None = None,
) -> GeneratedText:
    """Continues a prompt, a text or its ids, until the length, an end token or a stop string.

    end_ids: None for the eos_token_id of the model's config; end_ids(folder) looks at generation_config.json first.
    on_text is called with new text as soon as its characters are whole. temperature 0 takes the likeliest token;
    without a tokenizer there are ids and no text.
    """
    if isinstance(prompt, str):
        if tokenizer is None:
            raise TypeError("generate_text: a prompt that is a text needs a tokenizer; give ids")
        prompt = tokenizer.encode(prompt).ids
    ends = _config_end_ids(model) if end_ids is None else end_ids
    return _core.hub._generate_text(
        model, tokenizer, prompt, max_new_tokens, temperature, top_k, top_p, ends, stops, key, on_text
    )


def save(
    model: Any,
    folder: str | PathLike[str],
    class_names: Sequence[str] | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> None:
    """Writes an nn.ViT as a model folder, which load(), the program and transformers (or timm) read; a hub.Model too.

    class_names: None for the numbers. mean, std: of each channel, how pixels (0 to 1) are scaled before the model sees
    them; 0.5 each unless both are given. Raises ValueError for a ViT that no other library has.
    """
    if isinstance(model, Model):
        model.save(folder)
        return
    if not isinstance(model, Vit):
        raise TypeError(
            f"hub.save: {type(model).__name__} has no model folder here; nn.ViT and hub.Model have. "
            "eg.save(model, path) keeps the weights of any module"
        )
    config = model.config
    names = [str(i) for i in range(config.classes)] if class_names is None else list(class_names)
    if (mean is None) != (std is None):
        one, other = ("mean", "std") if std is None else ("std", "mean")
        raise _core.ValueError(f"hub.save: {one} is given without {other}; pixels are scaled by both")
    for what, values in (("mean", mean), ("std", std)):
        if values is not None and len(values) != config.channels:
            raise _core.ValueError(
                f"hub.save: {what} has {len(values)} values, the model's images {config.channels} channels"
            )
    half = [0.5] * config.channels
    _core.training.save_vit(model, names, half if mean is None else mean, half if std is None else std, folder)
