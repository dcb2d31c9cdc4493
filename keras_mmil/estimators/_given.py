"""Labels and weights as they are given to an estimator."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from keras_mmil._support.labels import check_weights
from keras_mmil._support.types import Floats

__all__ = ["Target", "path_of", "weights_of"]

# Labels of the records: an array, or the path of a field in them, or a tuple of several.
Target: TypeAlias = str | tuple[str, ...] | npt.ArrayLike


def weights_of(given: npt.ArrayLike | None, n: int) -> Floats:
    """The weights of n records."""
    if given is None:
        return np.ones(n, np.float32)
    found = np.asarray(check_weights(given, n), np.float32)
    if found.ndim != 1:
        raise ValueError(f"Expected one weight for each of {n} records. Received: {found.shape=}")
    return found


def path_of(y: Any) -> str | list[str] | None:
    """The path or the paths that labels are at; None for labels themselves."""
    if isinstance(y, tuple) and y and all(isinstance(path, str) for path in y):
        return list(y)
    return y if isinstance(y, str) else None
