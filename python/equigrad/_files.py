"""Saves tensors by name, and reads them again."""

from os import PathLike, fspath, path as paths
from typing import Any, Mapping

from ._core import FileError, Tensor, ValueError
from ._core.data import load_safetensors, save_safetensors
from ._core.nn import Module


def save(what: Module | Mapping[str, Any], path: str | PathLike[str]) -> None:
    """Writes a module's state_dict(), or tensors by name, as safetensors.

    The file is complete or not there. Raises TypeError for anything else; a model that is to become a folder with its
    config is eg.hub's. Raises ValueError where the name promises another format.
    """
    ending = fspath(path).rpartition(".")[2].lower()
    if ending in ("npz", "npy", "pt", "pth", "pkl", "pickle", "bin", "ckpt", "h5"):
        raise ValueError(f"save: the file is safetensors, and its name ends with .{ending}; call it NAME.safetensors")
    if isinstance(what, Module):
        what = what.state_dict()
    if not isinstance(what, Mapping):
        raise TypeError(f"save: give a module or tensors by name, not {type(what).__name__}: eg.save({{'x': x}}, path)")
    for name, value in what.items():
        if isinstance(value, Mapping):
            raise TypeError(
                f"save: '{name}' is a dict; name its tensors in one: "
                f"eg.save({{f'{name}.{{k}}': v for k, v in {name}.items()}}, path)"
            )
        if isinstance(value, (bool, int, float)):
            raise TypeError(f"save: '{name}' is a number; eg.tensor({value!r}) is saved, and .item() reads it again")
    save_safetensors(path, dict(what))


def load(path: str | PathLike[str], widen: bool = False) -> dict[str, Tensor]:
    """Reads tensors by name: model.load_state_dict(eg.load(path)).

    widen: F16 and BF16 become f32, other integers i64. Raises FileError for a damaged file and for other formats.
    """
    try:
        return load_safetensors(path, widen=widen)
    except FileError as error:
        if not paths.isfile(path):
            raise
        words = str(error).removeprefix(f"{fspath(path)!s}: ")
        raise FileError(
            f"{fspath(path)!s}: the file is damaged or of another format; write it with eg.save, or fetch it again ({words})"
        ) from None
