"""Labels and weights as an estimator gets them, and the split into training and validation."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import train_test_split

from keras_mmil._support.checks import check_number, check_weights
from keras_mmil._support.types import Array, Bools, Floats, Ints
from keras_mmil.records.targets import warn_of_missing

__all__ = ["Target", "labels_of", "path_of", "split", "weights_of"]

# Labels of the records: an array, or the path of a field in them, or a tuple of several.
Target: TypeAlias = str | tuple[str, ...] | npt.ArrayLike


def path_of(y: Any) -> str | list[str] | None:
    """The path or paths of the labels; None for the labels themselves."""
    if isinstance(y, tuple) and y and all(isinstance(path, str) for path in y):
        return list(y)
    return y if isinstance(y, str) else None


def labels_of(y: Any, n: int) -> tuple[Array, Bools]:
    """The labels of those of n records that have one (not None or NaN), and which do."""
    # A list is not converted directly: NumPy would turn None and NaN among strings into strings.
    labels = np.asarray(y) if hasattr(y, "__array__") else np.array(y, object)
    if labels.ndim == 0 or len(labels) != n:
        received = f"{len(labels)} labels" if labels.ndim else repr(y)
        raise ValueError(f"Expected one label for each of {n} records. Received: {received}")
    if labels.dtype.kind not in "fO":
        return labels, np.ones(n, bool)
    missing: Bools = np.array([_is_missing(x) for x in labels.ravel().tolist()], bool)
    has_label: Bools = np.array(~missing.reshape(n, missing.size // max(n, 1)).any(axis=1))
    labels = labels[has_label]
    warn_of_missing(has_label, "y")
    # Those that are left have one type.
    return np.array(labels.tolist()) if labels.dtype.kind == "O" else labels, has_label


def weights_of(sample_weight: npt.ArrayLike | None, has_label: Bools) -> Floats:
    """The weights of the records that have a label."""
    n = len(has_label)
    if not has_label.any():
        raise ValueError(f"Expected labels of some records. Received: none of {n}")
    if sample_weight is None:
        return np.ones(n, np.float32)[has_label]
    weights = np.asarray(check_weights(sample_weight, n), np.float32)
    if weights.ndim != 1:
        raise ValueError(f"Expected one weight for each of {n} records. Received: {weights.shape=}")
    return weights[has_label]


def split(y: Array, fraction: Any, seed: int, *, stratify: bool) -> tuple[Ints, Ints | None]:
    """Positions of the records for training, and of those held out for validation, if any are.

    If `stratify`, the same share of each class is held out, where that is possible.
    """
    n_valid = int(np.ceil(check_number("validation_split", fraction, 0, 1) * len(y)))
    if not n_valid:
        return np.arange(len(y)), None
    classes, counts = np.unique(y, return_counts=True)
    can_stratify = counts.min() > 1 and len(classes) <= min(n_valid, len(y) - n_valid)
    train, valid = train_test_split(
        np.arange(len(y)),
        test_size=n_valid,
        random_state=seed,
        stratify=y if stratify and can_stratify else None,
    )
    return np.sort(train), np.sort(valid)


def _is_missing(label: Any) -> bool:
    # pandas, which need not be installed, has an NA that is neither equal to itself nor unequal.
    return label is None or type(label).__name__ == "NAType" or label != label
