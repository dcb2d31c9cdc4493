"""Arrow arrays as parts of records: what is there, by type, and what is missing."""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keras_mmil._support.arrow_lists import as_numpy
from keras_mmil._support.types import Array, Bools, Floats

__all__ = [
    "KEY",
    "MAX_DEPTH",
    "Part",
    "alternatives",
    "as_floats",
    "as_numpy",
    "check_depth",
    "digits_lost",
    "holds_mixed",
    "mixed",
    "no_records",
    "places",
    "plain_types",
    "present",
    "spread",
    "texts_of_bytes",
]

MAX_DEPTH = 64  # levels of records and bags in each other
# Marks the fields of a struct that stands for values of several types: one field for each type, of
# which at most one is there.
_MIXED = {b"keras_mmil": b"values of one type"}
# In the metadata of the field of a key: "to customers.id", or "of customers".
KEY = b"keras_mmil key"
_LARGEST = float(np.finfo(np.float32).max)
_EXACT = 2.0**53  # floats below it tell integers apart
_BYTES_OF_UUID = 16
_SECONDS = {"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}


@dataclass(frozen=True, eq=False)
class Part:
    """What is there of one type.

    Attributes:
        values: without nulls. Of numbers an array of integers, of float64, all finite as float32,
            or of decimals, where some have more digits than float64 holds; of booleans; of strings,
            or a dictionary of such; of times in seconds since 1970 (UTC), float64; of structs or
            maps; of lists.
        at: position of each in the array that they are from, int64; None where all are there.
    """

    values: pa.Array
    at: Array | None


def mixed(arrays: Mapping[str, pa.Array]) -> pa.Array:
    """Arrays of several types as one.

    Args:
        arrays: dict from types to arrays of the same length, of which at most one is not null at
            each position.
    """
    fields = [pa.field(type_, array.type, metadata=_MIXED) for type_, array in arrays.items()]
    return pa.StructArray.from_arrays(list(arrays.values()), fields=fields)


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
        at = np.flatnonzero(as_numpy(pc.is_valid(array)))
        array = array.drop_null()
    values = convert(array)
    if pa.types.is_floating(values.type):
        is_there = np.abs(values.to_numpy()) <= _LARGEST
        if not is_there.all():
            kept = np.flatnonzero(is_there)
            at = kept if at is None else at[kept]
            values = values.filter(pa.array(is_there))
    return Part(values, at)


def check_depth(type_: pa.DataType) -> None:
    """Raise ValueError where records and bags are nested too deeply."""
    depth, inner = 0, [type_]
    while inner := [
        child.field(i).type
        for child in inner
        if pa.types.is_nested(child)
        for i in range(child.num_fields)
    ]:
        depth += 1
        if depth > 2 * MAX_DEPTH:  # a bag of records is two
            raise ValueError(f"Expected at most {MAX_DEPTH} levels of bags. Received: more")


def no_records(schema: pa.Schema) -> pa.Array:
    """An array of structs without any, for the names of their fields."""
    return pa.StructArray.from_arrays([pa.nulls(0)] * len(schema), schema.names)


def plain_types(array: pa.Array) -> pa.Array:
    """The same array, with texts and bytes in layouts that all functions know, at all levels."""
    plain = _without_views(array.type)
    return array if plain.equals(array.type) else array.cast(plain)


def _without_views(type_: pa.DataType) -> pa.DataType:
    """An Arrow type without views."""
    is_ = pa.types
    if is_.is_string_view(type_):
        return pa.large_string()
    if is_.is_binary_view(type_):
        return pa.large_binary()
    if is_.is_dictionary(type_):
        of = _without_views(type_.value_type)
        return type_ if of.equals(type_.value_type) else pa.dictionary(pa.int32(), of)
    if is_.is_map(type_):
        return pa.map_(_without_views(type_.key_type), _without_views(type_.item_type))
    if is_.is_struct(type_):
        return pa.struct([field.with_type(_without_views(field.type)) for field in type_])
    if is_.is_fixed_size_list(type_):
        field = type_.value_field
        return pa.list_(field.with_type(_without_views(field.type)), type_.list_size)
    if is_.is_list(type_) or is_.is_large_list(type_):
        field, list_of = type_.value_field, pa.list_ if is_.is_list(type_) else pa.large_list
        return list_of(field.with_type(_without_views(field.type)))
    return type_


def places(array: pa.Array, path: str) -> Array:
    """Positions at which something is there, int64."""
    found = np.zeros(len(array), bool)
    for alternative in alternatives(array, path).values():
        at = present(alternative, path).at
        found[slice(None) if at is None else at] = True
    return np.flatnonzero(found)


def spread(values: pa.Array, at: Array, n: int) -> pa.Array:
    """An array of n, which holds values at some positions, and null elsewhere.

    Args:
        values: one for each position.
        at: the positions, ints, each of them once.
        n: length of the result.
    """
    index = np.full(n, -1)
    index[at] = np.arange(len(values))
    return values.take(pa.array(index, mask=index < 0))


def holds_mixed(type_: pa.DataType) -> bool:
    """Whether there are values of several types at a place in arrays of an Arrow type."""
    if not pa.types.is_nested(type_):
        return False
    return _is_mixed(type_) or any(
        holds_mixed(type_.field(i).type) for i in range(type_.num_fields)
    )


def _plain(array: pa.Array) -> pa.Array:
    """The same array in a plain layout."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if isinstance(array, pa.ExtensionArray):
        if isinstance(array.type, pa.UuidType):
            return _texts_of_uuids(array.storage)
        return _plain(array.storage)
    if pa.types.is_dictionary(array.type) and not _is_dictionary_of_texts(array):
        return _plain(array.dictionary.take(array.indices))
    if pa.types.is_run_end_encoded(array.type):
        return _plain(pc.run_end_decode(array))
    return plain_types(array)


def _is_dictionary_of_texts(array: pa.DictionaryArray) -> bool:
    of = array.type.value_type
    return (
        pa.types.is_string(of) or pa.types.is_large_string(of)
    ) and not array.dictionary.null_count


def _is_mixed(type_: pa.DataType) -> bool:
    return bool(
        pa.types.is_struct(type_) and type_.num_fields and type_.field(0).metadata == _MIXED
    )


def _conversion(type_: pa.DataType, path: str) -> tuple[str, Callable[[pa.Array], pa.Array]]:
    """The name of an Arrow type among those of parts, and a function to its plain arrays."""
    is_ = pa.types
    if is_.is_boolean(type_):
        return "boolean", _same
    if is_.is_integer(type_):
        return "number", _same
    if is_.is_decimal(type_):
        return "number", _exact
    if is_.is_floating(type_):
        return "number", lambda x: x.cast(pa.float64(), safe=False)
    if is_.is_string(type_) or is_.is_large_string(type_) or is_.is_dictionary(type_):
        return "text", _same
    if is_.is_binary(type_) or is_.is_large_binary(type_):
        return "text", lambda x: texts_of_bytes(x, path)
    if is_.is_fixed_size_binary(type_):
        return "text", lambda x: texts_of_bytes(x.cast(pa.binary()), path)
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


def texts_of_bytes(array: pa.Array, path: str) -> pa.Array:
    """Bytes as texts: of UTF-8, or of UUIDs where all are of their length.

    Raises:
        ValueError: if they are neither; it names the path.
    """
    try:
        return array.cast(pa.large_string())
    except pa.ArrowInvalid as error:
        found = array.drop_null().to_pylist()
        if any(len(each) != _BYTES_OF_UUID for each in found):
            where = path or "the top"
            raise ValueError(f"Expected text in UTF-8. Received: bytes at {where}") from error
    return _texts_of_uuids(array)


def _texts_of_uuids(array: pa.Array) -> pa.Array:
    shown = [None if x is None else str(uuid.UUID(bytes=x)) for x in array.to_pylist()]
    return pa.array(shown, pa.large_string())


def as_floats(numbers: pa.Array) -> Floats:
    """Numbers as the nearest float64: see `Part`."""
    if pa.types.is_decimal(numbers.type):
        numbers = numbers.cast(pa.float64(), safe=False)
    return as_numpy(numbers).astype(np.float64)


def digits_lost(decimals: pa.Array) -> tuple[Bools, Bools]:
    """Which decimals have more digits than float64 holds, and which are whole numbers."""
    x, scale = as_floats(decimals), decimals.type.scale
    is_wide = np.abs(x) >= _EXACT
    if scale <= 0:
        return is_wide, np.ones(len(x), bool)
    is_whole = as_numpy(pc.equal(decimals, pc.floor(decimals)))
    may_be = np.flatnonzero(~is_whole & (np.abs(x) * 10.0**scale >= _EXACT))
    there = decimals.take(pa.array(may_be)).to_pylist()
    is_wide[may_be] = [
        f"{one:.{scale}f}" != format(two, "f")
        for one, two in zip(x[may_be].tolist(), there, strict=True)
    ]
    return is_wide, is_whole


def _same(array: pa.Array) -> pa.Array:
    return array


def _exact(decimals: pa.Array) -> pa.Array:
    """Decimals as floats, if these have all of their digits, or as they are."""
    if len(decimals) and digits_lost(decimals)[0].any():
        return decimals
    return decimals.cast(pa.float64(), safe=False)


def _seconds(array: pa.Array, per_second: float) -> pa.Array:
    integer = pa.int32() if array.type.bit_width == 32 else pa.int64()
    return pa.array(array.cast(integer).to_numpy() / per_second)
