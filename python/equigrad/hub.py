"""Model folders as Hugging Face's libraries write and read them."""

from typing import Any

from ._core.hub import *
from ._core.hub import Model, load_with_report


def load(folder: str, dtype: str = "f32", **options: Any) -> Model:
    """Reads a model folder, in evaluation. Options: fresh_head, key, image_size.

    A head that the file lacks begins with random weights from `key` where fresh_head is true. Raises FileError that
    lists what is missing, unexpected or of another shape; load_with_report() gives the report too.
    """
    return load_with_report(str(folder), dtype, **options)[0]
