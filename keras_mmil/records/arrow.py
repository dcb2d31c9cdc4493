"""Arrow arrays as parts of records: what is there, by type, and what is missing."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keras_mmil._support.types import Array

__all__ = ["MIXED", "Part", "alternatives", "entries", "present"]

# Begins the names of the fields of a struct that stands for values of several types: one field for
# each, of which at most one is there.
MIXED = "\0"
_SECONDS = {"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}


@dataclass(frozen=True, eq=False)
class Part:
    """What is there of one type.

    Attributes:
        values: without nulls. Of numbers an array of ints or float64, all finite; of booleans; of
            strings; of times in seconds since 1970 (UTC), float64; of structs or maps; of lists.
        at: position of each in the array that they are from, int64; None where all are there.
    """

    values: pa.Array
    at: Array | None


def alternatives(array: pa.Array, path: str) -> dict[str, pa.Array]:
    """An array, or what it mixes, by the type of the values: "number", "boolean", "text" ...

    Args:
        array: may be a slice.
        path: for errors.

    Returns:
        Dict from types to arrays of the same length, in which what is not of the type is null.

    Raises:
        TypeError: if the array's type stands for no part of a record.
    """
    array = _plain(array)
    if pa.types.is_null(array.type):
        return {}
    if not _is_mixed(array.type):
        return {_conversion(array.type, path)[0]: array}
    found: dict[str, pa.Array] = {}
    for alternative in array.flatten():
        found |= alternatives(alternative, path)
    return found


def present(array: pa.Array, path: str) -> Part:
    """What is there in an array of one type: see `alternatives`.

    Raises:
        ValueError: if it is of bytes that are no text.
    """
    _, convert = _conversion(array.type, path)
    at = None
    if array.null_count:
        at = np.flatnonzero(pc.is_valid(array).to_numpy(zero_copy_only=False))
        array = array.take(pa.array(at))
    try:
        values = convert(array)
    except pa.ArrowInvalid as error:
        where = path or "the top"
        raise ValueError(f"Expected text in UTF-8. Received: bytes at {where}") from error
    if pa.types.is_floating(values.type):
        is_finite = pc.is_finite(values)
        if not pc.all(is_finite, min_count=0).as_py():
            kept = np.flatnonzero(is_finite.to_numpy(zero_copy_only=False))
            at = kept if at is None else at[kept]
            values = values.take(pa.array(kept))
    return Part(values, at)


def entries(records: pa.MapArray) -> tuple[pa.Array, pa.Array, Array]:
    """Keys, values and row splits of a map without nulls, which may be a slice."""
    offsets = records.offsets.to_numpy()
    first, last = int(offsets[0]), int(offsets[-1])
    return records.keys[first:last], records.items[first:last], offsets - first


def _plain(array: pa.Array) -> pa.Array:
    """The same array in a plain layout."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if isinstance(array, pa.ExtensionArray):
        return _plain(array.storage)
    if pa.types.is_dictionary(array.type):
        return _plain(array.dictionary.take(array.indices))
    if pa.types.is_run_end_encoded(array.type):
        return _plain(pc.run_end_decode(array))
    return array


def _is_mixed(type_: pa.DataType) -> bool:
    return pa.types.is_struct(type_) and type_.num_fields and type_[0].name.startswith(MIXED)


def _conversion(type_: pa.DataType, path: str):
    """The name of an Arrow type among those of parts, and a function to its plain arrays."""
    is_ = pa.types
    if is_.is_boolean(type_):
        return "boolean", _same
    if is_.is_integer(type_):
        return "number", (lambda x: x.cast(pa.float64())) if is_.is_uint64(type_) else _same
    if is_.is_floating(type_) or is_.is_decimal(type_):
        return "number", lambda x: x.cast(pa.float64())
    if is_.is_string(type_) or is_.is_large_string(type_):
        return "text", _same
    if is_.is_string_view(type_) or is_.is_binary(type_) or is_.is_large_binary(type_):
        return "text", lambda x: x.cast(pa.large_string())
    if is_.is_timestamp(type_):
        return "time", lambda x: _seconds(x, _SECONDS[type_.unit])
    if is_.is_date(type_):
        return "time", lambda x: _seconds(x.cast(pa.timestamp("ms")), 1e3)
    if is_.is_time(type_) or is_.is_duration(type_):
        return "number", lambda x: _seconds(x, _SECONDS[type_.unit])
    if is_.is_struct(type_) or is_.is_map(type_):
        return "record", _same
    if is_.is_list(type_) or is_.is_large_list(type_) or is_.is_fixed_size_list(type_):
        return "bag", _same
    raise TypeError(
        "Expected numbers, booleans, texts, times, structs, maps or lists. "
        f"Received: {type_} at {path or 'the top'}"
    )


def _same(array: pa.Array) -> pa.Array:
    return array


def _seconds(array: pa.Array, per_second: float) -> pa.Array:
    integer = pa.int32() if array.type.bit_width == 32 else pa.int64()
    return pa.array(array.cast(integer).to_numpy() / per_second)
