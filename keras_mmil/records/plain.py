"""Python's own nested objects as Arrow arrays, also where values of several types are mixed."""

import dataclasses
import datetime
import itertools
import math
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keras_mmil.records import arrow
from keras_mmil.records.exact import WIDE
from keras_mmil.records.paths import child

__all__ = ["in_batches", "name_of", "records_to_arrow", "to_arrow"]

_ROWS = 10_000  # records of a batch
_FIELDS = 1000  # of records that stay records in an array with many cells
_CELLS = 2**26  # records times different keys at a place, in an array with a column for each key
_EXACT = 2.0**53  # up to there floats tell integers apart
_TIMES = datetime.datetime, datetime.date, np.datetime64
_NUMBERS = Real, Decimal, datetime.timedelta, datetime.time
_BAGS = list, tuple, set, frozenset, np.ndarray
_BOOLEANS = {bool, np.bool_}
_MISSING = type(None), type(np.ma.masked)


def to_arrow(values: Sequence[Any], path: str = "", is_wide: bool = False) -> pa.Array:
    """Values of one place as an array, the fields of records in the order of their appearance.

    Values of several types are kept apart: see `arrow.mixed`.

    Args:
        values: None and NaN are missing.
        path: that of the place, for errors.
        is_wide: whether records may have so many different keys that an array with a column for
            each of them were too large: such records are maps then.

    Raises:
        TypeError: if a value is no part of a record; it names the path, and the value's type.
        ValueError: if bytes are no text, a key comes twice, or records are too many and too
            different.
    """
    if is_wide:
        return _by_type(values, path, is_wide)
    try:
        array = pa.array(values, from_pandas=True)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return _by_type(values, path)  # slower: what Arrow does not know, or not side by side
    return _by_type(values, path) if _is_changed(array, lambda: values) else array


def records_to_arrow(
    records: Sequence[Any],
    named: Callable[[int], str] = "record {}".format,
    is_wide: bool = False,
) -> pa.Array:
    """Records as an array: see `to_arrow`.

    Args:
        named: what a record is called in errors, by its position.
        is_wide: as of `to_arrow`.

    Raises:
        TypeError, ValueError: as `to_arrow`, with the number of the record.
    """
    try:
        return to_arrow(records, is_wide=is_wide)
    except (RecursionError, TypeError, ValueError):
        for i, record in enumerate(records):
            try:
                to_arrow([record], is_wide=is_wide)
            except (TypeError, ValueError) as error:
                raise type(error)(f"{error}, in {named(i)}") from error
            except RecursionError as error:
                raise ValueError(
                    f"Expected fewer levels of nesting. Received: too many in {named(i)}"
                ) from error
        raise


def in_batches(records: Iterable[Any]) -> Iterator[pa.Array]:
    """Records as arrays of some of them: see `records_to_arrow`."""
    records, first = iter(records), 0
    while some := list(itertools.islice(records, _ROWS)):

        def named(i: int, first: int = first) -> str:
            return f"record {first + i}"

        yield records_to_arrow(some, named)
        first += len(some)


def _by_type(values: Sequence[Any], path: str, is_wide: bool = False) -> pa.Array:
    found: dict[str, pa.Array] = {}
    types = [_type_of(value, path) for value in values]
    for type_ in dict.fromkeys(filter(None, types)):
        of_type = [
            value if here == type_ else None for value, here in zip(values, types, strict=True)
        ]
        found[type_] = _ARRAYS[type_](of_type, path, is_wide)
    if not found:
        return pa.nulls(len(values))
    return next(iter(found.values())) if len(found) == 1 else arrow.mixed(found)


def _is_suspect(type_: pa.DataType) -> bool:
    """Whether there are types at a place for which Arrow takes values of others."""
    if pa.types.is_struct(type_):
        return any(_is_suspect(field.type) for field in type_)
    return bool(
        pa.types.is_list(type_) or pa.types.is_floating(type_) or pa.types.is_temporal(type_)
    )


def _is_changed(array: pa.Array, values: Callable[[], Iterable[Any]]) -> bool:
    """Whether Arrow has made an array of values of several types.

    It takes booleans behind floats for numbers, numbers beside times for times, times behind dates
    for dates, and named tuples for lists.
    """
    if not _is_suspect(array.type):
        return False
    if pa.types.is_struct(array.type):
        columns = zip(array.type, array.flatten(), strict=True)
        return any(_is_changed(x, _column(values, field.name)) for field, x in columns)
    if pa.types.is_list(array.type):
        if any(hasattr(type_, "__match_args__") for type_ in set(map(type, values()))):
            return True
        return _is_changed(
            array.flatten(), lambda: [x for bag in values() if isinstance(bag, _BAGS) for x in bag]
        )
    if pa.types.is_temporal(array.type):
        return len({type(x) for x in values() if x is not None}) > 1
    zero_or_one = pc.is_in(array.cast(pa.float64()), pa.array([0.0, 1.0]))
    if not pc.any(zero_or_one, min_count=0).as_py():
        return False
    return not _BOOLEANS.isdisjoint(map(type, values()))


def _column(values: Callable[[], Iterable[Any]], name: str) -> Callable[[], Iterable[Any]]:
    return lambda: [value.get(name) for value in values() if isinstance(value, Mapping)]


def _type_of(value: Any, path: str) -> str | None:
    """The type of a value; None for what is missing."""
    if isinstance(value, _MISSING):
        return None
    if isinstance(value, str | bytes | uuid.UUID):
        return "text"
    if isinstance(value, bool | np.bool_):
        return "boolean"
    if _fields_of(value) is not None:
        return "record"
    if isinstance(value, _BAGS):
        return "bag"
    if type(value).__name__ == "NAType" or value != value:  # NaN, and pandas's NaT
        return None
    if isinstance(value, _TIMES):
        return "time"
    if isinstance(value, _NUMBERS):
        return "number"
    raise TypeError(
        "Expected dicts, lists, numbers, booleans, strings, dates, times and None. "
        f"Received: {type(value).__name__} at {path or 'the top'}"
    )


def _fields_of(value: Any) -> Mapping[Any, Any] | None:
    """The fields of a dict, a dataclass, a named tuple or a NumPy record; None of anything else."""
    if isinstance(value, Mapping):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, tuple) and hasattr(value, "__match_args__"):  # a named tuple
        return dict(zip(value.__match_args__, value, strict=True))
    if isinstance(value, np.void) and value.dtype.names:
        return {name: value[name] for name in value.dtype.names}
    return None


def _numbers(values: list[Any], path: str, is_wide: bool) -> pa.Array:
    if all(x is None or _is_whole(x) for x in values):  # exact, where all are integers
        integers = [None if x is None else int(x) for x in values]
        for type_ in (pa.int64(), WIDE):
            try:
                return pa.array(integers, type_)
            except (pa.ArrowException, OverflowError):
                pass  # too large
    return pa.array([math.nan if x is None else _number(x) for x in values], from_pandas=True)


def _is_whole(value: Any) -> bool:
    if isinstance(value, int):
        return True
    if type(value) is float:
        return value.is_integer() and abs(value) <= _EXACT
    if isinstance(value, Decimal):
        return value.is_finite() and value == value.to_integral_value()
    return isinstance(value, np.integer) and not isinstance(value, np.timedelta64)


def _number(value: Any) -> float:
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, np.timedelta64):
        return float(value / np.timedelta64(1, "s"))
    if isinstance(value, datetime.time):
        return value.hour * 3600 + value.minute * 60 + value.second + value.microsecond / 1e6
    try:
        return float(value)
    except OverflowError:  # an int beyond all floats
        return math.inf if value > 0 else -math.inf


def _texts(values: list[Any], path: str, is_wide: bool) -> pa.Array:
    found = [x for x in values if isinstance(x, bytes)]
    texts: Mapping[bytes, str] = {}
    if found:
        read = arrow.texts_of_bytes(pa.array(found, pa.large_binary()), path)
        texts = dict(zip(found, read.to_pylist(), strict=True))
    return pa.array(
        [
            None if x is None else texts[x] if isinstance(x, bytes) else _unicode(str(x))
            for x in values
        ],
        pa.large_string(),
    )


def name_of(key: Any) -> str:
    """The name of a field as a text, also where its key is a number."""
    return _unicode(key.decode(errors="replace") if isinstance(key, bytes) else str(key))


def _unicode(text: str) -> str:
    """A text without halves of surrogate pairs, which JSON can write but are no characters."""
    return text.encode(errors="replace").decode()


def _booleans(values: list[Any], path: str, is_wide: bool) -> pa.Array:
    return pa.array([None if x is None else bool(x) for x in values], pa.bool_())


def _times(values: list[Any], path: str, is_wide: bool) -> pa.Array:
    return pa.array([None if x is None else _utc(x) for x in values], pa.timestamp("us"))


def _utc(value: Any) -> Any:
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    if isinstance(value, datetime.datetime):
        if value.tzinfo is not None:
            value = value.astimezone(datetime.UTC).replace(tzinfo=None)
        return value
    return datetime.datetime(value.year, value.month, value.day)


def _records(values: list[Any], path: str, is_wide: bool) -> pa.Array:
    is_missing = np.array([value is None for value in values])
    present: list[Mapping[Any, Any]] = [_fields_of(value) or {} for value in values]
    names = dict.fromkeys(name for value in present for name in value)
    if is_wide and len(names) * len(values) > _CELLS:
        return _maps(values, present, len(names), path)
    columns: dict[str, pa.Array] = {}
    named: dict[str, Any] = {}
    for name in names:
        key = name_of(name)
        column = [value.get(name) for value in present]
        if key in columns:
            raise ValueError(
                "Expected keys that differ as texts. "
                f"Received: {named[key]!r} and {name!r} at {path or 'the top'}"
            )
        named[key] = name
        columns[key] = to_arrow(column, child(path, key), is_wide)
    if not columns:
        return pa.array([None if missing else {} for missing in is_missing], pa.struct([]))
    return pa.StructArray.from_arrays(
        list(columns.values()), list(columns), mask=pa.array(is_missing)
    )


def _maps(values: list[Any], present: list[Mapping[Any, Any]], n_keys: int, path: str) -> pa.Array:
    """Records that have too many different keys for columns, whose keys are data anyway."""
    if n_keys <= _FIELDS:
        raise ValueError(
            f"Expected at most {_CELLS:,} records times different keys at a place. "
            f"Received: {len(values):,} with {n_keys:,} keys at {path or 'the top'}"
        )
    pairs = [  # by key in each record, however they are batched
        pair
        for value in present
        for pair in sorted((name_of(name), i) for i, name in enumerate(value))
    ]
    of_record = np.repeat(np.arange(len(present)), [len(value) for value in present])
    inner = [list(value.values()) for value in present]
    items = to_arrow([inner[r][i] for r, (_, i) in zip(of_record, pairs, strict=True)], path, True)
    keys = [key for key, _ in pairs]
    offsets = np.concatenate([[0], np.cumsum([len(value) for value in present])])
    starts = pa.array(offsets, pa.int32(), mask=np.array([*(x is None for x in values), False]))
    return pa.MapArray.from_arrays(starts, pa.array(keys, pa.string()), items)


def _bags(values: list[Any], path: str, is_wide: bool) -> pa.Array:
    lists = [None if value is None else list(value) for value in values]
    sizes = [0 if value is None else len(value) for value in lists]
    members = to_arrow([x for value in lists if value for x in value], path, is_wide)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    mask = pa.array([value is None for value in lists])
    return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), members, mask=mask)


_ARRAYS = {
    "number": _numbers,
    "boolean": _booleans,
    "text": _texts,
    "time": _times,
    "record": _records,
    "bag": _bags,
}
