"""Python's nested objects as Arrow arrays, also where types are mixed, and back.

Records whose keys are data, such as ids, become entries of a key and a value here.
"""

import dataclasses
import datetime
import itertools
import math
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keras_mmil._support.types import Array
from keras_mmil.records import arrow
from keras_mmil.records.paths import child

__all__ = [
    "column_of_map",
    "entries",
    "in_batches",
    "joined",
    "name_of",
    "objects",
    "records_to_arrow",
    "to_arrow",
]

_ROWS = 10_000  # records of a batch
_FIELDS = 1000  # a record with more keys may become a map
_CELLS = 2**26  # records times different keys at a place, in an array with a column for each key
_TIMES = datetime.datetime, datetime.date, np.datetime64
_NUMBERS = Real, Decimal, datetime.timedelta, datetime.time
_BAGS = list, tuple, set, frozenset, np.ndarray
_BOOLEANS = {bool, np.bool_}
_MISSING = type(None), type(np.ma.masked)


def to_arrow(values: Sequence[Any], path: str = "", is_wide: bool = False) -> pa.Array:
    """The values of one place as an array; those of several types are kept apart.

    Args:
        values: None and NaN are missing.
        path: of the place, for errors.
        is_wide: make maps of records with so many different keys that columns would be too large.

    Raises:
        TypeError: if a value is no part of a record; it names the path and the value's type.
        ValueError: for bytes that are no text, a key that comes twice, or too many different keys.
    """
    if is_wide:
        return _by_type(values, path, is_wide)
    try:
        array = pa.array(values, from_pandas=True)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return _by_type(values, path)  # slower: what Arrow does not know, or several types
    return _by_type(values, path) if _is_changed(array, lambda: values) else array


def records_to_arrow(
    records: Sequence[Any], name: Callable[[int], str] = "record {}".format, is_wide: bool = False
) -> pa.Array:
    """Same as `to_arrow`; errors name the record by its position: `name(i)`."""
    try:
        return to_arrow(records, is_wide=is_wide)
    except (RecursionError, TypeError, ValueError):
        for i, record in enumerate(records):
            try:
                to_arrow([record], is_wide=is_wide)
            except (TypeError, ValueError) as error:
                raise type(error)(f"{error}, in {name(i)}") from error
            except RecursionError as error:
                raise ValueError(
                    f"Expected fewer levels of nesting. Received: too many in {name(i)}"
                ) from error
        raise


def _name_of_record(numbers: range, i: int) -> str:
    return f"record {numbers[i]}"


def in_batches(records: Iterable[Any]) -> Iterator[pa.Array]:
    """Records as arrays of `_ROWS` records: see `records_to_arrow`."""
    records, first = iter(records), 0
    while some := list(itertools.islice(records, _ROWS)):
        numbers = range(first, first + len(some))
        yield records_to_arrow(some, partial(_name_of_record, numbers))
        first += len(some)


def _by_type(values: Sequence[Any], path: str, is_wide: bool = False) -> pa.Array:
    types = [_type_of(value, path) for value in values]
    arrays: dict[str, pa.Array] = {}
    for type_ in dict.fromkeys(filter(None, types)):
        of_type = [
            value if here == type_ else None for value, here in zip(values, types, strict=True)
        ]
        arrays[type_] = _ARRAYS[type_](of_type, path, is_wide)
    if not arrays:
        return pa.nulls(len(values))
    return next(iter(arrays.values())) if len(arrays) == 1 else arrow.mixed(arrays)


def _is_suspect(type_: pa.DataType) -> bool:
    """Whether Arrow makes such a type of values of others, too."""
    if pa.types.is_struct(type_):
        return any(_is_suspect(field.type) for field in type_)
    return bool(
        pa.types.is_list(type_) or pa.types.is_floating(type_) or pa.types.is_temporal(type_)
    )


def _is_changed(array: pa.Array, values: Callable[[], Iterable[Any]]) -> bool:
    """Whether Arrow has converted values of one type to another.

    It makes numbers of booleans after floats, times of numbers beside times, dates of times after
    dates, and lists of named tuples.
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
    if all(x is None or _is_whole(x) for x in values):
        integers = [None if x is None else int(x) for x in values]
        for type_ in (pa.int64(), arrow.WIDE):
            try:
                return pa.array(integers, type_)
            except (pa.ArrowException, OverflowError):
                pass  # too large
    return pa.array([math.nan if x is None else _number(x) for x in values], from_pandas=True)


def _is_whole(value: Any) -> bool:
    if isinstance(value, int):
        return True
    if type(value) is float:
        return value.is_integer() and abs(value) <= arrow.WHOLE
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
    of_bytes = [x for x in values if isinstance(x, bytes)]
    texts: Mapping[bytes, str] = {}
    if of_bytes:
        decoded = arrow.texts_of_bytes(pa.array(of_bytes, pa.large_binary()), path)
        texts = dict(zip(of_bytes, decoded.to_pylist(), strict=True))
    return pa.array(
        [
            None if x is None else texts[x] if isinstance(x, bytes) else _unicode(str(x))
            for x in values
        ],
        pa.large_string(),
    )


def name_of(key: Any) -> str:
    """The name of a field as a text, even if its key is a number or bytes."""
    return _unicode(key.decode(errors="replace") if isinstance(key, bytes) else str(key))


def _unicode(text: str) -> str:
    """A text without lone surrogates, which JSON can write but which are no characters."""
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
    dicts: list[Mapping[Any, Any]] = [_fields_of(value) or {} for value in values]
    keys = dict.fromkeys(key for each in dicts for key in each)
    if is_wide and len(keys) * len(values) > _CELLS:
        return _maps(values, dicts, len(keys), path)
    columns: dict[str, pa.Array] = {}
    key_of: dict[str, Any] = {}
    for key in keys:
        name = name_of(key)
        if name in columns:
            raise ValueError(
                "Expected keys that differ as texts. "
                f"Received: {key_of[name]!r} and {key!r} at {path or 'the top'}"
            )
        key_of[name] = key
        columns[name] = to_arrow([each.get(key) for each in dicts], child(path, name), is_wide)
    if not columns:
        return pa.array([None if missing else {} for missing in is_missing], pa.struct([]))
    return pa.StructArray.from_arrays(
        list(columns.values()), list(columns), mask=pa.array(is_missing)
    )


def _maps(values: list[Any], dicts: list[Mapping[Any, Any]], n_keys: int, path: str) -> pa.Array:
    """Records with too many different keys for columns: these keys are data."""
    if n_keys <= _FIELDS:
        raise ValueError(
            f"Expected at most {_CELLS:,} records times different keys at a place. "
            f"Received: {len(values):,} with {n_keys:,} keys at {path or 'the top'}"
        )
    pairs = [  # sorted by key in each record, so that batches make no difference
        pair
        for value in dicts
        for pair in sorted((name_of(name), i) for i, name in enumerate(value))
    ]
    of_record = np.repeat(np.arange(len(dicts)), [len(value) for value in dicts])
    inner = [list(value.values()) for value in dicts]
    items = to_arrow([inner[r][i] for r, (_, i) in zip(of_record, pairs, strict=True)], path, True)
    keys = [key for key, _ in pairs]
    offsets = np.concatenate([[0], np.cumsum([len(value) for value in dicts])])
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


def entries(records: pa.Array, path: str) -> tuple[pa.Array, pa.Array, Array]:
    """Keys and values, record by record, and how many each record has, int64.

    A key without a value counts as absent.

    Args:
        records: structs or maps without nulls; may be a slice.
        path: for errors.
    """
    if pa.types.is_map(records.type):
        keys, values, owner = _entries_of_maps(records)
        at = arrow.present_at(values, path)
        keys, values, owner = keys.take(pa.array(at)), values.take(pa.array(at)), owner[at]
    else:
        keys, values, owner = _entries_of_structs(records, path)
    return keys, values, np.bincount(owner, minlength=len(records)).astype(np.int64)


def column_of_map(records: pa.MapArray, name: str) -> pa.Array:
    """The values of a key of maps, null where a map is null or has no such key."""
    at = np.flatnonzero(arrow.as_numpy(pc.is_valid(records)))
    keys, values, owner = _entries_of_maps(records.drop_null())
    is_it = arrow.as_numpy(pc.equal(keys.cast(pa.large_string()), name))
    of_key = values.take(pa.array(np.flatnonzero(is_it)))
    return arrow.spread(of_key, at[owner[is_it]], len(records))


def _entries_of_maps(records: pa.MapArray) -> tuple[pa.Array, pa.Array, Array]:
    """Keys, values, and the record of each entry."""
    offsets = records.offsets.to_numpy()
    first, last = int(offsets[0]), int(offsets[-1])
    owner = np.repeat(np.arange(len(records)), np.diff(offsets))
    keys = records.keys[first:last]
    if pa.types.is_primitive(keys.type):  # numbers, dates ...
        keys = keys.cast(pa.large_string())
    return keys, records.items[first:last], owner


def _entries_of_structs(records: pa.StructArray, path: str) -> tuple[pa.Array, pa.Array, Array]:
    columns = records.flatten()
    places = [arrow.present_at(column, path) for column in columns]
    owner = np.concatenate([np.empty(0, np.int64), *places])
    names = [field.name for field in records.type]
    rank = np.argsort(np.argsort(np.array(names, object), kind="stable"))
    which = np.repeat(np.arange(len(columns)), [len(at) for at in places])
    order = np.lexsort((rank[which], owner))  # sorted by key in each record, as in `_maps`
    parts = [x.take(pa.array(at)) for x, at in zip(columns, places, strict=True) if len(at)]
    keys = pa.array(names, pa.string()).take(pa.array(which[order]))
    return keys, joined(parts, path).take(pa.array(order)), owner[order]


def joined(arrays: Sequence[pa.Array], path: str) -> pa.Array:
    """Arrays, which may have different types, one after the other."""
    if not arrays:
        return pa.nulls(0)
    if all(array.type.equals(arrays[0].type, check_metadata=True) for array in arrays):
        return pa.concat_arrays(arrays)
    if not any(arrow.holds_mixed(array.type) for array in arrays):
        try:
            tables = [pa.table({"values": array}) for array in arrays]
            table = pa.concat_tables(tables, promote_options="permissive")
            return table.column("values").combine_chunks()
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
            pass  # numbers and texts, for instance
    return to_arrow([value for array in arrays for value in objects(array, path)], path)


def objects(array: pa.Array, path: str) -> list[Any]:
    """The inverse of `to_arrow`."""
    found: list[Any] = [None] * len(array)
    for type_, alternative in arrow.alternatives(array, path).items():
        part = arrow.present(alternative, path)
        values = part.values
        if pa.types.is_decimal(alternative.type) or pa.types.is_uint64(alternative.type):
            values = alternative.drop_null()  # exact, where the part has floats
        each: Iterable[Any]
        if type_ == "time":
            each = [np.datetime64(round(x * 1e6), "us") for x in values.to_pylist()]
        elif type_ == "record":
            keys, items, lengths = entries(values, path)
            pairs = zip(keys.to_pylist(), objects(items, path), strict=True)
            each = [dict(itertools.islice(pairs, n)) for n in lengths.tolist()]
        elif type_ == "bag":
            members = iter(objects(values.flatten(), path))
            lengths = pc.list_value_length(values)
            each = [list(itertools.islice(members, n)) for n in lengths.to_pylist()]
        else:
            each = values.to_pylist()
        at = range(len(array)) if part.at is None else part.at
        for i, value in zip(at, each, strict=True):
            found[i] = value
    return found
