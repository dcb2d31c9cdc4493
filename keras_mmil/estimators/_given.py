"""Labels and weights as they are given to an estimator."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from keras_mmil._support.checks import check_weights
from keras_mmil._support.types import Array, Bools, Floats
from keras_mmil.records.targets import warn_of_missing

__all__ = ["Target", "labels_of", "path_of", "weights_of"]

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


def labels_of(given: Any, n: int) -> tuple[Array, Bools]:
    """Labels of those records that have one, and which do.

    Args:
        given: labels of the records, of which None and NaN are missing: [records], or
            [records, labels].
        n: how many records there are.

    Raises:
        ValueError: if there are not as many.
    """
    # Of a list as it is: NumPy would make texts of None and NaN among texts.
    labels = np.asarray(given) if hasattr(given, "__array__") else np.array(given, object)
    if labels.ndim == 0 or len(labels) != n:
        found = f"{len(labels)} labels" if labels.ndim else repr(given)
        raise ValueError(f"Expected one label for each of {n} records. Received: {found}")
    if labels.dtype.kind not in "fO":
        return labels, np.ones(n, bool)
    missing: Bools = np.array([_is_missing(x) for x in labels.ravel().tolist()], bool)
    are_there: Bools = np.array(~missing.reshape(n, missing.size // max(n, 1)).any(axis=1))
    left = labels[are_there]
    warn_of_missing(are_there, "y")
    # Those that are left are of one type.
    return np.array(left.tolist()) if labels.dtype.kind == "O" else left, are_there


def _is_missing(label: Any) -> bool:
    # The NA of pandas, which need not be installed, is neither equal to itself nor unequal.
    return label is None or type(label).__name__ == "NAType" or label != label
