"""Nested bags from the rows of a table, such as the measurements at the visits of patients."""

from itertools import pairwise

import keras
import numpy as np

from keras_mmil import ragged

__all__ = ["from_table"]


def from_table(table, groups, features, label=None):
    """Nested bags of the rows of a table.

    Args:
        table: pandas DataFrame, dict of columns, or structured NumPy array. The rows may be in
            any order; the rows of a bag stay in theirs.
        groups: list of K columns, from the top-bags inwards, whose values say which bags a row
            belongs to: `["patient", "visit"]` for patients as bags of visits. The values of an
            inner column need to be distinct only within the bags around them.
        features: list of numeric columns, the features of a row; or a single column, whose values
            are the instances themselves, such as the ids that `keras_mmil.Bags` takes.
        label: column of labels, which are constant within a top-bag.

    Returns:
        Tuple of
        - `x`: RaggedTensor `[B, (n), (m), features]` of `keras.config.floatx()`, or
          `[B, (n), (m)]` of the dtype of a single column.
        - `y`: array `[B]` of the labels of the top-bags, None without `label`.
        - `ids`: array `[B]` of the values of the first of `groups`, sorted.

    Raises:
        KeyError: if a column is missing.
        TypeError: if a feature is not numeric.
        ValueError: if there are no groups or features, the columns differ in length, a value is
            missing or not finite, or labels differ within a top-bag.

    Example:

    >>> table = {"patient": [7, 7, 3], "visit": [1, 2, 1], "dose": [5.0, 6.0, 8.0]}
    >>> x, _, patients = from_table(table, groups=["patient", "visit"], features=["dose"])
    >>> x, patients
    (<tf.RaggedTensor [[[[8.0]]], [[[5.0]], [[6.0]]]]>, array([3, 7]))
    """
    if isinstance(groups, str) or not len(groups):
        raise ValueError(f"Expected a list of one column or more. Received: groups={groups!r}")
    keys = [_complete_column(table, name) for name in groups]
    values = _features(table, features)
    labels = None if label is None else _complete_column(table, label)
    sizes = {len(column) for column in [*keys, values, *([] if label is None else [labels])]}
    if len(sizes) > 1:
        raise ValueError(f"Expected columns of one length. Received: lengths {sorted(sizes)}")

    codes = [np.unique(key, return_inverse=True)[1] for key in keys]
    order = np.lexsort(codes[::-1])  # the last key sorts first
    starts = _starts_of_groups([code[order] for code in codes])
    n_rows = len(order)
    lengths = [
        np.diff(np.searchsorted(inner, np.append(outer, n_rows)))
        for outer, inner in pairwise([*starts, np.arange(n_rows)])
    ]
    x = ragged.from_flat(values[order], lengths)
    ids = keys[0][order][starts[0]]
    if label is None:
        return x, None, ids
    of_top_bag = labels[order][starts[0]]
    differs = labels[order] != np.repeat(of_top_bag, np.diff(np.append(starts[0], n_rows)))
    if differs.any():
        row = order[differs.argmax()]
        raise ValueError(
            f"Expected one label for each top-bag. Received: several values of {label!r} for "
            f"{groups[0]}={keys[0][row]}"
        )
    return x, of_top_bag, ids


def _starts_of_groups(codes):
    """Where the groups of each level start, given the sorted codes of their columns."""
    is_start = np.zeros(len(codes[0]), bool)
    is_start[:1] = True
    starts = []
    for code in codes:
        is_start[1:] |= code[1:] != code[:-1]
        starts.append(np.flatnonzero(is_start))
    return starts


def _features(table, names):
    """Values of a single column `[rows]`, or of several `[rows, features]`."""
    if isinstance(names, str):
        return _numeric_column(table, names)
    if not len(names):
        raise ValueError(f"Expected a list of one column or more. Received: features={names!r}")
    columns = [_numeric_column(table, name) for name in names]
    lengths = dict(zip(names, map(len, columns), strict=True))
    if len(set(lengths.values())) > 1:
        raise ValueError(f"Expected columns of one length. Received: lengths {lengths}")
    return np.stack(columns, axis=1).astype(keras.config.floatx())


def _numeric_column(table, name):
    values = _complete_column(table, name)
    if values.dtype.kind not in "biuf":
        raise TypeError(f"Expected numbers. Received: column {name!r} of dtype {values.dtype}")
    ragged.check_finite(values, name)
    return values


def _complete_column(table, name):
    """The values `[rows]` of a column, none of which are missing."""
    try:
        column = table[name]
    except (KeyError, ValueError, IndexError) as error:  # ValueError from a structured array
        names = getattr(getattr(table, "dtype", table), "names", None) or list(table)
        raise KeyError(f"Expected a column of {list(names)}. Received: {name!r}") from error
    values = np.asarray(column)
    if hasattr(column, "isna"):
        missing = np.asarray(column.isna())
    else:
        missing = (values != values) | np.equal(values, None)  # NaN and NaT differ from themselves
    if missing.any():
        raise ValueError(
            f"Expected no missing values, found {missing.sum()} in column {name!r}. "
            f"Received: {values[missing][0]} in row {missing.argmax()}"
        )
    return values
