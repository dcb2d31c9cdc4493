"""What is at the places of nested Arrow arrays: see `statistics`."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keras_mmil.records import arrow, statistics
from keras_mmil.records.paths import child
from keras_mmil.records.statistics import Bags, Observed, Records, Values

__all__ = ["observe"]

_ISO = (
    r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])"
    r"([T ]([01]\d|2[0-3]):[0-5]\d(:[0-5]\d([.,]\d+)?)?(Z|[+-]\d\d(:?[0-5]\d)?)?)?$"
)
_LOOK = 5 * statistics.MAX_VALUES  # of so many values, if they are there, distinct ones first


def observe(array: pa.Array, path: str = "") -> Observed:
    """What was seen at a place, and at all places in it.

    Args:
        array: of any type that stands for parts of records; may be a slice.
        path: that of the place, for errors.

    Raises:
        TypeError: if a type stands for no part of a record.
        ValueError: if bytes are no text.
    """
    by_type = {}
    for type_, part in arrow.alternatives(array, path).items():
        values = arrow.present(part, path).values
        if len(values):
            by_type[type_] = _SEEN[type_](values, path)
    return Observed(len(array), by_type)


def _records(values: pa.Array, path: str) -> Records:
    if pa.types.is_map(values.type):
        keys, items, _ = arrow.entries(values)
        return Records(len(values), keys=_texts(keys, path), each=observe(items, path))
    names = [field.name for field in values.type]
    if len(set(names)) < len(names):
        raise ValueError(f"Expected fields of different names. Received: {names} at {path!r}")
    columns = values.flatten()
    fields = {
        name: observe(column, child(path, name))
        for name, column in zip(names, columns, strict=True)
    }
    return Records(len(values), fields)


def _bags(values: pa.Array, path: str) -> Bags:
    largest = pc.max(pc.list_value_length(values)).as_py()
    return Bags(len(values), observe(values.flatten(), path), largest)


def _numbers(values: pa.Array, path: str) -> Values:
    x = values.to_numpy().astype(np.float64)
    is_integer = pa.types.is_integer(values.type)
    mean = x.mean()
    counts = _counts(values)
    if counts is not None and not is_integer:
        counts = {int(x) if x.is_integer() else x: n for x, n in counts.items()}
    return Values(
        count=len(x),
        counts=counts,
        mean=float(mean),
        squares=float(np.square(x - mean).sum()),
        n_integers=len(x) if is_integer else int((x == np.floor(x)).sum()),
        **_ends(values, counts),
    )


def _times(values: pa.Array, path: str) -> Values:
    return replace(_numbers(values, path), n_integers=0)


def _booleans(values: pa.Array, path: str) -> Values:
    counts = _counts(values)
    return Values(len(values), counts, **_ends(values, counts))


def _texts(values: pa.Array, path: str) -> Values:
    counts = None
    if pc.max(pc.utf8_length(values)).as_py() <= statistics.LONGEST:
        counts = _counts(values)
    seen, n = values, 1  # of each distinct text once, where that is less
    if counts is not None:
        seen, n = pa.array(list(counts), pa.large_string()), np.array(list(counts.values()))
    is_time = pc.match_substring_regex(seen, _ISO).to_numpy(zero_copy_only=False)
    n_words = pc.count_substring_regex(seen, r"\S+").to_numpy(zero_copy_only=False)
    shown = values if counts is not None else pc.utf8_slice_codeunits(values, 0, statistics.LONGEST)
    return Values(
        count=len(values),
        counts=counts,
        n_times=int((is_time * n).sum()),
        n_words=int((n_words * n).sum()),
        **_ends(shown, counts),
    )


_SEEN = {
    "number": _numbers,
    "boolean": _booleans,
    "text": _texts,
    "time": _times,
    "record": _records,
    "bag": _bags,
}


def _counts(values: pa.Array) -> dict | None:
    """How often each value occurs, None if there are too many distinct ones."""
    if len(values) > _LOOK and len(pc.unique(values[:_LOOK])) > statistics.MAX_VALUES:
        return None
    found = pc.value_counts(values)
    if len(found) > statistics.MAX_VALUES:
        return None
    values, n = found.flatten()
    return dict(zip(values.to_pylist(), n.to_pylist(), strict=True))


def _ends(values: pa.Array, counts: dict | None) -> dict:
    """The smallest values, and the largest one."""
    if counts is not None:
        in_order = sorted(counts)
        return {"smallest": tuple(in_order[: statistics.N_SMALLEST]), "largest": in_order[-1]}
    least, most = pc.min_max(values).values()
    smallest, left = [least.as_py()], values
    while len(smallest) < statistics.N_SMALLEST:
        left = left.filter(pc.greater(left, least))
        if not len(left):
            break
        least = pc.min(left)
        smallest.append(least.as_py())
    return {"smallest": tuple(smallest), "largest": most.as_py()}
