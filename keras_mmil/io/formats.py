"""The formats of files, loaded when they are needed."""

import importlib
from typing import Any

from keras_mmil.io.manifest import FORMATS

__all__ = ["module_of"]


def module_of(format: str) -> Any:
    """The module of a format, with the functions `writer` and `epoch`.

    Raises:
        ValueError: if there is no such format.
    """
    if format not in FORMATS:
        raise ValueError(f"Expected one of the formats {FORMATS}. Received: format={format!r}")
    return importlib.import_module(f"keras_mmil.io.{format}")
