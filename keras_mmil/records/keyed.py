"""Records whose keys are data, such as ids: as entries of a key and a value."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keras_mmil._support.rows import bags_of_members
from keras_mmil._support.types import Array
from keras_mmil.records import arrow
from keras_mmil.records.plain import to_arrow

__all__ = ["column_of_map", "entries", "joined"]


def entries(records: pa.Array, path: str) -> tuple[pa.Array, pa.Array, Array]:
    """Keys and values, one record after the other, and how many each record has, int64.

    A key without a value is as good as absent.

    Args:
        records: structs or maps without nulls; may be a slice.
        path: for errors.
    """
    if pa.types.is_map(records.type):
        keys, values, owner = _entries_of_map(records)
        at = arrow.places(values, path)
        keys, values, owner = keys.take(pa.array(at)), values.take(pa.array(at)), owner[at]
    else:
        keys, values, owner = _entries_of_structs(records, path)
    return keys, values, np.bincount(owner, minlength=len(records)).astype(np.int64)


def column_of_map(records: pa.MapArray, name: str) -> pa.Array:
    """The values of a key of maps, null where a map is null or has no such key."""
    at = np.flatnonzero(arrow.as_numpy(pc.is_valid(records)))
    keys, values, owner = _entries_of_map(records.drop_null())
    is_it = arrow.as_numpy(pc.equal(keys.cast(pa.large_string()), name))
    found = values.take(pa.array(np.flatnonzero(is_it)))
    return arrow.spread(found, at[owner[is_it]], len(records))


def _entries_of_map(records: pa.MapArray) -> tuple[pa.Array, pa.Array, Array]:
    """Keys, values, and the record that each entry is of."""
    offsets = records.offsets.to_numpy()
    first, last = int(offsets[0]), int(offsets[-1])
    owner = bags_of_members(offsets)
    keys = records.keys[first:last]
    if pa.types.is_primitive(keys.type):  # numbers, dates ...
        keys = keys.cast(pa.large_string())
    return keys, records.items[first:last], owner


def _entries_of_structs(records: pa.StructArray, path: str) -> tuple[pa.Array, pa.Array, Array]:
    columns = records.flatten()
    places = [arrow.places(column, path) for column in columns]
    owner = np.concatenate([np.empty(0, np.int64), *places])
    names = [field.name for field in records.type]
    rank = np.argsort(np.argsort(np.array(names, object), kind="stable"))
    which = np.repeat(np.arange(len(columns)), [len(at) for at in places])
    order = np.lexsort((rank[which], owner))  # by key in each record, however they are batched
    parts = [x.take(pa.array(at)) for x, at in zip(columns, places, strict=True) if len(at)]
    values = joined(parts, path)
    keys = pa.array(names, pa.string()).take(pa.array(which[order]))
    return keys, values.take(pa.array(order)), owner[order]


def joined(arrays: Sequence[pa.Array], path: str) -> pa.Array:
    """Arrays one after the other, also of different types."""
    if not arrays:
        return pa.nulls(0)
    if all(array.type.equals(arrays[0].type, check_metadata=True) for array in arrays):
        return pa.concat_arrays(arrays)
    if not any(arrow.holds_mixed(array.type) for array in arrays):
        try:
            tables = [pa.table({"values": array}) for array in arrays]
            joined = pa.concat_tables(tables, promote_options="permissive")
            return joined.column("values").combine_chunks()
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
            pass  # numbers and texts, for instance
    return to_arrow([value for array in arrays for value in _objects(array, path)], path)


def _objects(array: pa.Array, path: str) -> list[Any]:
    """An array as Python's objects, also where it mixes types."""
    objects: list[Any] = [None] * len(array)
    for type_, alternative in arrow.alternatives(array, path).items():
        part = arrow.present(alternative, path)
        at = range(len(array)) if part.at is None else part.at
        values = part.values
        if pa.types.is_decimal(alternative.type) or pa.types.is_uint64(alternative.type):
            values = alternative.drop_null()  # exact, where the part has floats
        for i, value in zip(at, _OBJECTS.get(type_, _values)(values, path), strict=True):
            objects[i] = value
    return objects


def _values(values: pa.Array, path: str) -> list[Any]:
    return values.to_pylist()


def _times(values: pa.Array, path: str) -> list[Any]:
    return [np.datetime64(round(seconds * 1e6), "us") for seconds in values.to_pylist()]


def _records(values: pa.Array, path: str) -> list[Any]:
    keys, items, lengths = entries(values, path)
    pairs = zip(keys.to_pylist(), _objects(items, path), strict=True)
    return [dict(_next(pairs, n)) for n in lengths]


def _bags(values: pa.Array, path: str) -> list[Any]:
    members = iter(_objects(values.flatten(), path))
    return [list(_next(members, n)) for n in pc.list_value_length(values).to_pylist()]


def _next(values: Any, n: int) -> Any:
    return (next(values) for _ in range(n))


_OBJECTS = {"time": _times, "record": _records, "bag": _bags}
