"""What is at the places of nested Arrow arrays: see `statistics`."""

from collections.abc import Callable
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keras_mmil._support.arrow_lists import lengths_and_members
from keras_mmil._support.types import Array
from keras_mmil.records import arrow, keyed, statistics
from keras_mmil.records.paths import child, position
from keras_mmil.records.statistics import (
    TYPES,
    Bags,
    ByKey,
    Observed,
    Reading,
    Records,
    Scalar,
    Seen,
    Values,
)

__all__ = ["observe"]

_EXACT = 2.0**53  # floats below it tell integers apart


def observe(array: pa.Array, path: str = "") -> Observed:
    """What was seen at a place, and at all places in it.

    Args:
        array: of any type that stands for parts of records; may be a slice.
        path: that of the place, for errors.

    Raises:
        TypeError: if a type stands for no part of a record.
        ValueError: if bytes are no text.
    """
    found: dict[str, Seen] = {}
    for type_, alternative in arrow.alternatives(array, path).items():
        values = arrow.present(alternative, path).values
        if len(values):
            found[type_] = _SEEN[type_](values, path)
    return Observed(len(array), {type_: found[type_] for type_ in TYPES if type_ in found})


def _records(values: pa.Array, path: str) -> Records:
    if pa.types.is_map(values.type):
        keys, items, _ = keyed.entries(values, path)
        in_keys = observe(keys, path).by_type.get("text", Values())
        if not isinstance(in_keys, Values) or in_keys.count < len(keys):
            raise TypeError(f"Expected keys that are texts. Received: others at {path!r}")
        return Records(len(values), {}, ByKey(in_keys, observe(items, path)))
    names = [field.name for field in values.type]
    if len(set(names)) < len(names):
        raise ValueError(f"Expected fields of different names. Received: {names} at {path!r}")
    fields: dict[str, Observed] = {}
    for field, column in zip(values.type, values.flatten(), strict=True):
        fields[field.name] = observe(column, child(path, field.name))
        fields[field.name].key = (field.metadata or {}).get(arrow.KEY, b"").decode()
    return Records(len(values), fields)


def _bags(values: pa.Array, path: str) -> Bags:
    lengths, members = lengths_and_members(values)
    seen = observe(members, path)
    here = Bags(
        _numbers(pa.array(lengths), path),
        seen,
        is_fixed=pa.types.is_fixed_size_list(values.type),
    )
    n, n_filled = here.largest, int(np.count_nonzero(lengths))
    are_scalars = seen.by_type.keys().isdisjoint(("record", "bag"))
    if are_scalars and 2 <= n <= statistics.MAX_POSITIONS and len(members) == n * n_filled:
        at = np.arange(0, len(members), n)
        here.positions = tuple(
            observe(members.take(pa.array(at + i)), position(path, i)) for i in range(n)
        )
    return here


def _numbers(values: pa.Array, path: str) -> Values:
    x = arrow.as_floats(values)
    is_whole = x == np.floor(x)
    seen = _measured(values, x, int(is_whole.sum()))
    if pa.types.is_integer(values.type):
        seen.n_integers = len(x)
        seen.n_wide = int(np.count_nonzero(np.abs(x) >= _EXACT))
    elif pa.types.is_decimal(values.type):
        is_wide, is_whole = arrow.digits_lost(values)
        seen.n_integers, seen.n_wide = int(is_whole.sum()), int(is_wide.sum())
    return seen


def _times(values: pa.Array, path: str) -> Values:
    return _measured(values, values.to_numpy(), 0)


def _measured(values: pa.Array, x: Array, n_integers: int) -> Values:
    counts = _counts(values)
    mean = x.mean()
    squares = float(np.square(x - mean).sum())
    smallest, largest = _ends(values, counts)
    return Values(len(x), counts, smallest, largest, float(mean), squares, n_integers)


def _booleans(values: pa.Array, path: str) -> Values:
    counts = _counts(values)
    return Values(len(values), counts, *_ends(values, counts))


def _texts(values: pa.Array, path: str) -> Values:
    counts = _counts(values)
    if counts is not None and max(map(len, counts)) > statistics.LONGEST:
        counts = None
    if counts is None:
        values = values.cast(pa.large_string())
        shown = pc.utf8_slice_codeunits(values, 0, statistics.LONGEST)
        n_words = pc.sum(pc.count_substring_regex(values, statistics.WORD), min_count=0).as_py()
        smallest, largest = _ends(shown, None)
        readings = _readings(values)
    else:  # each distinct text once
        distinct, n = pa.array(list(counts), pa.large_string()), list(counts.values())
        n_words = np.dot(arrow.as_numpy(pc.count_substring_regex(distinct, statistics.WORD)), n)
        smallest, largest = _ends(values, counts)
        readings = {}
    return Values(
        count=len(values),
        counts=counts,
        smallest=smallest,
        largest=largest,
        n_words=int(n_words),
        readings=readings,
    )


def _readings(values: pa.Array) -> dict[str, Reading]:
    """Texts that are not counted in each form that some of them have."""
    is_short = pc.less_equal(pc.utf8_length(values), statistics.LONGEST)
    distinct, n = pc.value_counts(values.filter(is_short)).flatten()
    longer = values.filter(pc.invert(is_short))
    first = pc.min(longer).as_py()[: statistics.LONGEST] if len(longer) else None
    return statistics.readings(distinct.to_pylist(), n.to_pylist(), first)


_SEEN: dict[str, Callable[[pa.Array, str], Seen]] = {
    "number": _numbers,
    "boolean": _booleans,
    "text": _texts,
    "time": _times,
    "record": _records,
    "bag": _bags,
}


def _counts(values: pa.Array) -> dict[Scalar, int] | None:
    """How often each value occurs, None if there are too many distinct ones."""
    if pa.types.is_integer(values.type):
        least, most = (bound.as_py() for bound in pc.min_max(values).values())
        if most - least < statistics.MAX_VALUES:  # faster than hashing
            x = values.to_numpy()
            wide = x if x.dtype == np.uint64 else x.astype(np.int64)
            n_of = np.bincount((wide - wide.dtype.type(least)).astype(np.int64)).tolist()
            return {least + i: n for i, n in enumerate(n_of) if n}
    look = 2 * statistics.MAX_VALUES  # in so many values first, where there are many more
    if len(values) > 5 * look and len(pc.unique(values[:look])) > statistics.MAX_VALUES:
        return None
    found = pc.value_counts(values)
    counts: dict[Scalar, int] = {}
    if len(found) <= 2 * statistics.MAX_VALUES:  # 0.0 and -0.0 are two there, and here one
        distinct, n = found.flatten()
        for value, n_equal in zip(distinct.to_pylist(), n.to_pylist(), strict=True):
            value = _plain(value)
            counts[value] = counts.get(value, 0) + n_equal
    return counts if 0 < len(counts) <= statistics.MAX_VALUES else None


def _plain(value: Scalar) -> Scalar:
    """A value without decimals, and whole numbers that floats tell apart as integers."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        return int(value)
    return value


def _ends(
    values: pa.Array, counts: dict[Scalar, int] | None
) -> tuple[tuple[Scalar, ...], Scalar | None]:
    """The smallest values, and the largest one."""
    if counts is not None:
        in_order = sorted(counts)
        return tuple(in_order[: statistics.N_SMALLEST]), in_order[-1]
    if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        x = values.to_numpy()
        return _smallest(x), x.max().item()
    least, most = pc.min_max(values).values()
    smallest, left = [least], values
    while len(smallest) < statistics.N_SMALLEST:
        left = left.filter(pc.greater(left, smallest[-1]))
        if not len(left):
            break
        smallest.append(pc.min(left))
    return tuple(_plain(each.as_py()) for each in smallest), _plain(most.as_py())


def _smallest(x: Array) -> tuple[Scalar, ...]:
    smallest, largest = [x.min()], x.max()
    while len(smallest) < statistics.N_SMALLEST and smallest[-1] < largest:
        smallest.append(x.min(where=x > smallest[-1], initial=largest))
    return tuple(value.item() for value in smallest)
