"""Python's own nested objects as Arrow arrays, also where values of several types are mixed."""

import datetime
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keras_mmil.records import arrow
from keras_mmil.records.paths import child

__all__ = ["in_batches", "name_of", "records_to_arrow", "to_arrow"]

_ROWS = 10_000  # records of a batch
_TIMES = datetime.datetime, datetime.date, np.datetime64
_NUMBERS = Real, Decimal, datetime.timedelta, datetime.time
_BAGS = list, tuple, set, frozenset, np.ndarray
_BOOLEANS = {bool, np.bool_}
_MISSING = type(None), type(np.ma.masked)


def to_arrow(values: Sequence[Any], path: str = "") -> pa.Array:
    """Values of one place as an array, the fields of records in the order of their appearance.

    Values of several types are kept apart: see `arrow.mixed`.

    Args:
        values: None and NaN are missing.
        path: that of the place, for errors.

    Raises:
        TypeError: if a value is no part of a record; it names the path, and the value's type.
    """
    try:
        array = pa.array(values, from_pandas=True)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return _by_type(values, path)  # slower: what Arrow does not know, or not side by side
    return _by_type(values, path) if _is_changed(array, lambda: values) else array


def records_to_arrow(records: Sequence[Any], first: int = 0) -> pa.Array:
    """Records as an array: see `to_arrow`.

    Args:
        first: number of the first of them, for errors.

    Raises:
        TypeError, ValueError: as `to_arrow`, with the number of the record.
    """
    try:
        return to_arrow(records)
    except (RecursionError, TypeError, ValueError):
        for number, record in enumerate(records, first):
            try:
                to_arrow([record])
            except (TypeError, ValueError) as error:
                raise type(error)(f"{error}, in record {number}") from error
            except RecursionError as error:
                raise ValueError(
                    f"Expected fewer levels of nesting. Received: too many in record {number}"
                ) from error
        raise


def in_batches(records: Iterable[Any]) -> Iterator[pa.Array]:
    """Records as arrays of some of them: see `records_to_arrow`."""
    records, first = iter(records), 0
    while some := list(itertools.islice(records, _ROWS)):
        yield records_to_arrow(some, first)
        first += len(some)


def _by_type(values: Sequence[Any], path: str) -> pa.Array:
    found: dict[str, pa.Array] = {}
    types = [_type_of(value, path) for value in values]
    for type_ in dict.fromkeys(filter(None, types)):
        of_type = [
            value if here == type_ else None for value, here in zip(values, types, strict=True)
        ]
        found[type_] = _ARRAYS[type_](of_type, path)
    if not found:
        return pa.nulls(len(values))
    return next(iter(found.values())) if len(found) == 1 else arrow.mixed(found)


def _holds(is_type: Callable[[pa.DataType], bool], type_: pa.DataType) -> bool:
    if pa.types.is_nested(type_):
        return any(_holds(is_type, type_.field(i).type) for i in range(type_.num_fields))
    return is_type(type_)


def _is_changed(array: pa.Array, values: Callable[[], Iterable[Any]]) -> bool:
    """Whether Arrow has made an array of values of several types.

    It takes booleans behind floats for numbers, numbers beside times for times, and times behind
    dates for dates.
    """
    if not _holds(_is_suspect, array.type):
        return False
    if pa.types.is_struct(array.type):
        columns = zip(array.type, array.flatten(), strict=True)
        return any(_is_changed(x, _column(values, field.name)) for field, x in columns)
    if pa.types.is_list(array.type):
        return _is_changed(
            array.flatten(), lambda: [x for bag in values() if isinstance(bag, _BAGS) for x in bag]
        )
    if pa.types.is_temporal(array.type):
        return len({type(x) for x in values() if x is not None}) > 1
    zero_or_one = pc.is_in(array.cast(pa.float64()), pa.array([0.0, 1.0]))
    if not pc.any(zero_or_one, min_count=0).as_py():
        return False
    return not _BOOLEANS.isdisjoint(map(type, values()))


def _is_suspect(type_: pa.DataType) -> bool:
    return bool(pa.types.is_floating(type_) or pa.types.is_temporal(type_))


def _column(values: Callable[[], Iterable[Any]], name: str) -> Callable[[], Iterable[Any]]:
    return lambda: [value.get(name) for value in values() if isinstance(value, Mapping)]


def _type_of(value: Any, path: str) -> str | None:
    """The type of a value; None for what is missing."""
    if isinstance(value, _MISSING):
        return None
    if isinstance(value, str | bytes):
        return "text"
    if isinstance(value, bool | np.bool_):
        return "boolean"
    if isinstance(value, Mapping):
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


def _numbers(values: list[Any], path: str) -> pa.Array:
    if all(
        x is None or isinstance(x, int) or (type(x) is float and x.is_integer()) for x in values
    ):
        try:
            return pa.array(values, pa.int64())  # exact, where all are integers
        except (pa.ArrowException, OverflowError):
            pass
    return pa.array([math.nan if x is None else _number(x) for x in values], from_pandas=True)


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


def _texts(values: list[Any], path: str) -> pa.Array:
    try:
        texts = [x.decode() if isinstance(x, bytes) else x for x in values]
    except UnicodeDecodeError as error:
        raise ValueError(
            f"Expected text in UTF-8. Received: bytes at {path or 'the top'}"
        ) from error
    return pa.array([None if x is None else _unicode(x) for x in texts], pa.large_string())


def name_of(key: Any) -> str:
    """The name of a field as a text, also where its key is a number."""
    return _unicode(key.decode(errors="replace") if isinstance(key, bytes) else str(key))


def _unicode(text: str) -> str:
    """A text without halves of surrogate pairs, which JSON can write but are no characters."""
    return text.encode(errors="replace").decode()


def _booleans(values: list[Any], path: str) -> pa.Array:
    return pa.array([None if x is None else bool(x) for x in values], pa.bool_())


def _times(values: list[Any], path: str) -> pa.Array:
    return pa.array([None if x is None else _utc(x) for x in values], pa.timestamp("us"))


def _utc(value: Any) -> Any:
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    if isinstance(value, datetime.datetime):
        if value.tzinfo is not None:
            value = value.astimezone(datetime.UTC).replace(tzinfo=None)
        return value
    return datetime.datetime(value.year, value.month, value.day)


def _records(values: list[Any], path: str) -> pa.Array:
    is_missing = np.array([value is None for value in values])
    present = [{} if value is None else value for value in values]
    names = dict.fromkeys(name for value in present for name in value)
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
        columns[key] = to_arrow(column, child(path, key))
    if not columns:
        return pa.array([None if missing else {} for missing in is_missing], pa.struct([]))
    return pa.StructArray.from_arrays(
        list(columns.values()), list(columns), mask=pa.array(is_missing)
    )


def _bags(values: list[Any], path: str) -> pa.Array:
    lists = [None if value is None else list(value) for value in values]
    sizes = [0 if value is None else len(value) for value in lists]
    members = to_arrow([x for value in lists if value for x in value], path)
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
