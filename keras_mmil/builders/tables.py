"""Nested bags from the rows of a table, such as the measurements at the visits of patients."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from keras_mmil import ragged
from keras_mmil._support.types import Array, Ints

if TYPE_CHECKING:
    import pandas

__all__ = ["Table", "from_table"]

Table: TypeAlias = "pandas.DataFrame | Mapping[str, npt.ArrayLike] | np.ndarray"
"""A table: a pandas DataFrame, a dict of columns, or a structured array."""

# Where bags are listed: the rows, or the table of parents of a group, by the group's name.
_Source: TypeAlias = str | None
_ROWS = None
# Kinds of columns that can be compared with each other.
_COMPARABLE = dict.fromkeys("biuf", "numbers")


def from_table(
    table: Table,
    groups: Sequence[str],
    features: str | Sequence[str],
    label: str | None = None,
    parents: Mapping[str, Table] | None = None,
) -> tuple[tf.RaggedTensor, Array | None, Array]:
    """Nested bags of the rows of a table.

    Args:
        table: pandas DataFrame, dict of columns, or structured NumPy array. The rows of a bag keep
            their order.
        groups: K columns, from the top-bags inwards, whose values identify the bags of a row:
            `["patient", "visit"]` for patients as bags of visits. The values of an inner column
            need to be distinct only within its outer bag.
        features: list of numeric columns, the features of a row; or a single column, whose values
            are the instances, such as ids for `keras_mmil.Bags`.
        label: column of labels, which are constant within a top-bag; of the top-bags' table in
            `parents` if it has the column, else of `table`.
        parents: dict from some of `groups` to tables of all bags of that level, one row each, of
            which some may be empty: `{"patient": patients, "visit": visits}`. They have the columns
            of `groups` up to that level; others are ignored. None if no bag is empty.

    Returns:
        Tuple of
        - `x`: RaggedTensor `[B, (n), (m), features]` of `keras.config.floatx()`, or
          `[B, (n), (m)]` of the dtype of a single column.
        - `y`: array `[B]` of the labels of the top-bags, None without `label`.
        - `ids`: array `[B]` of the values of the first of `groups`, sorted.

    Raises:
        KeyError: if a column is missing.
        TypeError: if a feature is not numeric, or a column of groups has different types in two
            tables.
        ValueError: if there are no groups or features, columns differ in length, a value is missing
            or not finite, labels differ within a top-bag or are missing, a row or a bag has no
            parent, or a parent is repeated.

    Example:

    >>> table = {"patient": [7, 7, 3], "visit": [1, 2, 1], "dose": [5.0, 6.0, 8.0]}
    >>> x, _, patients = from_table(table, groups=["patient", "visit"], features=["dose"])
    >>> x, patients
    (<tf.RaggedTensor [[[[8.0]]], [[[5.0]], [[6.0]]]]>, array([3, 7]))
    >>> x, _, patients = from_table(
    ...     table, ["patient", "visit"], ["dose"], parents={"patient": {"patient": [3, 5, 7]}}
    ... )
    >>> x, patients
    (<tf.RaggedTensor [[[[8.0]]], [], [[[5.0]], [[6.0]]]]>, array([3, 5, 7]))
    """
    if isinstance(groups, str) or not len(groups):
        raise ValueError(f"Expected a list of one column or more. Received: groups={groups!r}")
    groups, parents = list(groups), dict(parents or {})
    if unknown := [name for name in parents if name not in groups]:
        raise ValueError(f"Expected parents of some of {groups}. Received: parents of {unknown}")
    values = _features(table, features)
    keys: dict[_Source, list[Array]] = {
        group: _key_columns(parents[group], groups[: level + 1])
        for level, group in enumerate(groups)
        if group in parents
    }
    keys[_ROWS] = _key_columns(table, groups)
    in_parents = groups[0] in parents and label in _names(parents[groups[0]])
    in_rows = label is not None and (label in _names(table) or not in_parents)
    labels = _complete_column(table, label) if in_rows else np.empty(0)
    sizes = {len(column) for column in (*keys[_ROWS], values, *([labels] if in_rows else []))}
    if len(sizes) > 1:
        raise ValueError(f"Expected columns of one length. Received: lengths {sorted(sizes)}")

    numbers, bag_lengths, ids = _number_bags(keys, groups)
    order = np.argsort(numbers[-1][_ROWS], kind="stable")
    x = ragged.from_flat(values[order], bag_lengths)
    if label is None:
        return x, None, ids
    tops = numbers[0][_ROWS]
    if in_parents:
        _, of_parents = _key_columns(parents[groups[0]], [groups[0], label])
        y = of_parents[np.argsort(numbers[0][groups[0]])]
    else:
        with_rows, first = np.unique(tops, return_index=True)
        if len(with_rows) < len(ids):
            empty = np.setdiff1d(np.arange(len(ids)), with_rows)[0]
            raise ValueError(
                f"Expected labels of bags without rows as a column {label!r} of "
                f"parents[{groups[0]!r}]. Received: {groups[0]}={ids[empty]} without one"
            )
        y = labels[first]
    if in_rows and (labels != y[tops]).any():
        row = (labels != y[tops]).argmax()
        raise ValueError(
            f"Expected one label for each top-bag. Received: several values of {label!r} for "
            f"{groups[0]}={ids[tops[row]]}"
        )
    return x, y, ids


def _number_bags(
    keys: Mapping[_Source, list[Array]], groups: Sequence[str]
) -> tuple[list[dict[_Source, Ints]], list[Ints], Array]:
    """Number the bags of each level, in the order of their keys.

    Returns:
        For each level, a dict from sources to the number of each entry's bag; the lengths of the
        bags of each level; and the keys of the top-bags.
    """
    outer_bag: dict[_Source, Ints] = {
        source: np.zeros(len(columns[0]), np.int64) for source, columns in keys.items()
    }
    numbers: list[dict[_Source, Ints]] = []
    lengths: list[Ints] = []
    ids = []
    n_outer = 1
    for level, group in enumerate(groups):
        sources = [source for source, columns in keys.items() if len(columns) > level]
        values, codes = _distinct([keys[source][level] for source in sources], group)
        ids.append(values)
        outer = np.concatenate([outer_bag[source] for source in sources])
        bags, inverse = np.unique(outer * len(values) + codes, return_inverse=True)
        lengths.append(np.bincount(bags // max(len(values), 1), minlength=n_outer))
        ends = np.cumsum([len(outer_bag[source]) for source in sources])
        outer_bag = dict(zip(sources, np.split(inverse, ends[:-1]), strict=True))
        numbers.append(outer_bag)
        n_outer = len(bags)
        if group in keys:
            _check_parents(group, groups[: level + 1], keys, outer_bag, n_outer)
    lengths.append(np.bincount(outer_bag[_ROWS], minlength=n_outer))
    return numbers, lengths[1:], ids[0]


def _check_parents(
    group: str,
    names: Sequence[str],
    keys: Mapping[_Source, list[Array]],
    numbers: Mapping[_Source, Ints],
    n_bags: int,
) -> None:
    """Raise ValueError unless each bag occurs once in the table of parents."""
    times = np.bincount(numbers[group], minlength=n_bags)

    def first(source: _Source, is_wrong: npt.NDArray[np.bool_]) -> str:
        return ", ".join(
            f"{name}={column[is_wrong.argmax()]}"
            for name, column in zip(names, keys[source], strict=False)
        )

    repeated = times[numbers[group]] > 1
    if repeated.any():
        raise ValueError(
            f"Expected each bag once in parents[{group!r}]. "
            f"Received: {first(group, repeated)}, {times.max()} times"
        )
    for source, bags in numbers.items():
        unknown = times[bags] == 0
        if unknown.any():
            where = "a row" if source is _ROWS else f"parents[{source!r}]"
            raise ValueError(
                f"Expected rows and bags of parents[{group!r}] only. Received: {where} with "
                f"{first(source, unknown)}, and {unknown.sum()} such in all"
            )


def _distinct(columns: Sequence[Array], name: str) -> tuple[Array, Ints]:
    """The distinct values of a column of several tables, and the index of each value in them."""
    filled = [column for column in columns if len(column)] or columns[:1]
    kinds = {_COMPARABLE.get(column.dtype.kind, column.dtype.kind) for column in filled}
    joined = np.concatenate(filled)
    try:
        is_exact = all(  # as 2⁵³ + 1 is not, among floats
            (column.astype(joined.dtype).astype(column.dtype) == column).all() for column in filled
        )
        if len(kinds - {"O"}) > 1 or not is_exact:
            raise TypeError("they cannot be compared")
        return np.unique(joined, return_inverse=True)
    except TypeError as error:
        raise TypeError(
            f"Expected a column {name!r} of one kind in all tables. "
            f"Received: dtypes {[str(column.dtype) for column in filled]} ({error})"
        ) from error


def _key_columns(table: Table, names: Sequence[str]) -> list[Array]:
    """Columns of keys, without missing values and of one length."""
    columns = [_complete_column(table, name) for name in names]
    _check_lengths(names, columns)
    return columns


def _check_lengths(names: Sequence[str], columns: Sequence[Array]) -> None:
    lengths = dict(zip(names, map(len, columns), strict=True))
    if len(set(lengths.values())) > 1:
        raise ValueError(f"Expected columns of one length. Received: lengths {lengths}")


def _features(table: Table, names: str | Sequence[str]) -> Array:
    """Values of a single column `[rows]`, or of several `[rows, features]`."""
    if isinstance(names, str):
        return _numeric_column(table, names)
    if not len(names):
        raise ValueError(f"Expected a list of one column or more. Received: features={names!r}")
    columns = [_numeric_column(table, name) for name in names]
    _check_lengths(names, columns)
    return np.stack(columns, axis=1).astype(keras.config.floatx())


def _numeric_column(table: Table, name: str) -> Array:
    values = _complete_column(table, name)
    if values.dtype.kind not in "biuf":
        raise TypeError(f"Expected numbers. Received: column {name!r} of dtype {values.dtype}")
    ragged.check_finite(values, name)
    return values


def _complete_column(table: Any, name: str | None) -> Array:
    """The values `[rows]` of a column, which must not be missing."""
    try:
        column = table[name]
    except (KeyError, ValueError, IndexError) as error:  # ValueError from a structured array
        raise KeyError(f"Expected a column of {_names(table)}. Received: {name!r}") from error
    values = np.asarray(column)
    if hasattr(column, "isna"):
        missing = np.asarray(column.isna())
    else:
        # NaN and NaT differ from themselves.
        missing = (values != values) | np.equal(values, np.array(None))
    if missing.any():
        raise ValueError(
            f"Expected no missing values, found {missing.sum()} in column {name!r}. "
            f"Received: {values[missing][0]} in row {missing.argmax()}"
        )
    return values


def _names(table: Table) -> list[Any]:
    """The names of a table's columns."""
    return list((table.dtype.names or ()) if isinstance(table, np.ndarray) else table)
