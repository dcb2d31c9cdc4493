"""Gradient boosting on records made flat: a few aggregates of the values at each path."""

import numpy as np
import tensorflow as tf
from sklearn.ensemble import HistGradientBoostingClassifier

from keras_mmil._support.types import MISSING_INT, MISSING_TEXT

__all__ = ["Flat", "boosting"]

_MOST_CATEGORIES = 254  # that scikit-learn's boosting tells apart


class Flat:
    """Records as a table, of aggregates of the values of every path.

    Of numbers, booleans and times: how many are there, mean, least and greatest. Of categories and
    texts: how many are there, and the most frequent one; of equally frequent ones the least. A
    record without any has NaN.

    Args:
        x: what `schema.read` makes of the training records, without labels. Of each path, the 254
            values that are most frequent in most records are told apart; others are NaN.

    Attributes:
        names: of the columns, such as "atoms.charge mean".
        is_categorical: of each column, list of bool.
    """

    def __init__(self, x):
        self._codes = {
            path: _codes(_modes(tensor)) for path, tensor in x.items() if not _is_number(tensor)
        }
        self.names, self.is_categorical = [], []
        for path in x:
            is_number = path not in self._codes
            kinds = ("count", "mean", "min", "max") if is_number else ("count", "mode")
            self.names += [f"{path} {kind}" for kind in kinds]
            self.is_categorical += [kind == "mode" for kind in kinds]

    def table(self, x):
        """The aggregates of records: float64 [records, columns]."""
        columns = []
        for path, tensor in x.items():
            values, records = _places(tensor)
            n = tensor.shape[0]
            columns.append(np.bincount(records, minlength=n))
            if path not in self._codes:
                columns += _summaries(values, records, n)
            else:
                known = self._codes[path]
                columns.append([known.get(value, np.nan) for value in _modes(tensor)])
        return np.stack(columns, axis=1).astype(float)


def boosting(train, test, seed):
    """Test accuracy of gradient boosting, with scikit-learn's defaults, on flat records.

    Args:
        train, test: pairs of what `schema.read` returns with a target: inputs and labels.
        seed: of the model.
    """
    (x, y), (x_test, y_test) = train, test
    flat = Flat(x)
    model = HistGradientBoostingClassifier(
        categorical_features=flat.is_categorical, random_state=seed
    )
    return model.fit(flat.table(x), y).score(flat.table(x_test), y_test)


def _is_number(tensor):
    return tensor.dtype.is_floating


def _places(tensor):
    """The values of a path that are there, and the number of the record that each is in."""
    records = np.arange(tensor.shape[0])
    if isinstance(tensor, tf.RaggedTensor):
        for splits in tensor.nested_row_splits:
            records = np.repeat(records, np.diff(splits))
        tensor = tensor.flat_values
    values = tensor.numpy()
    if _is_number(tensor):
        is_there = ~np.isnan(values)
    else:  # one by one, as NumPy takes "\0" for an empty text
        missing = _missing(tensor)
        is_there = np.array([value != missing for value in values.tolist()], bool)
    return values[is_there], records[is_there]


def _missing(tensor):
    return MISSING_TEXT.encode() if tensor.dtype == tf.string else MISSING_INT


def _summaries(values, records, n):
    """Mean, least and greatest value of each record; NaN where there are none."""
    is_empty = np.bincount(records, minlength=n) == 0
    least, greatest = np.full(n, np.inf), np.full(n, -np.inf)
    np.minimum.at(least, records, values)
    np.maximum.at(greatest, records, values)
    with np.errstate(invalid="ignore"):
        mean = np.bincount(records, values, n) / np.bincount(records, minlength=n)
    return [np.where(is_empty, np.nan, column) for column in (mean, least, greatest)]


def _modes(tensor):
    """The most frequent value of each record: list, None where there is none."""
    values, records = _places(tensor)
    kinds, codes = np.unique(values, return_inverse=True)
    modes = [None] * tensor.shape[0]
    if not len(kinds):
        return modes
    pairs, counts = np.unique(records * len(kinds) + codes, return_counts=True)
    # The most frequent one of a record comes last.
    for pair in pairs[np.lexsort((-pairs, counts))]:
        modes[pair // len(kinds)] = kinds[pair % len(kinds)]
    return modes


def _codes(modes):
    """Numbers for the values that are most often the mode, by value."""
    found, counts = np.unique([mode for mode in modes if mode is not None], return_counts=True)
    kept = found[np.argsort(-counts, kind="stable")][:_MOST_CATEGORIES]
    return {value: code for code, value in enumerate(kept)}
