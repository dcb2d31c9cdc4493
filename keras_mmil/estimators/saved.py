"""Estimators of whatever class in folders."""

import json
from pathlib import Path

from keras_mmil._support.types import PathLike
from keras_mmil.estimators._storage import STATE
from keras_mmil.estimators.classifier import NestedClassifier
from keras_mmil.estimators.regressor import NestedRegressor

__all__ = ["is_saved", "load"]

_CLASSES = {each.__name__: each for each in (NestedClassifier, NestedRegressor)}


def is_saved(folder: PathLike) -> bool:
    """Whether an estimator was saved in a folder."""
    return (Path(folder) / STATE).is_file()


def load(folder: PathLike) -> NestedClassifier | NestedRegressor:
    """Read an estimator that was saved.

    Raises:
        FileNotFoundError: if there is none.
        ValueError: if it is damaged.
    """
    path = Path(folder) / STATE
    try:
        name = json.loads(path.read_text(encoding="utf-8"))["class"]
        kind = _CLASSES[name]
    except (KeyError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(
            f"Expected a saved estimator, one of {sorted(_CLASSES)}. Received: {folder}, {error}"
        ) from error
    return kind.load(folder)
