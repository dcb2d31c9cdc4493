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
    "AGAIN",
    "KEY",
    "LARGEST",
    "MAX_DEPTH",
    "SAMPLED",
    "WHOLE",
    "WIDE",
    "Present",
    "alternatives",
    "as_floats",
    "as_numpy",
    "check_depth",
    "digits_lost",
    "holds_mixed",
    "lists",
    "mixed",
    "no_records",
    "plain_types",
    "present",
    "present_at",
    "spread",
    "texts_of_bytes",
]

LARGEST = float(np.finfo(np.float32).max)
WHOLE = 2.0**53  # below it, floats tell integers apart
WIDE = pa.decimal256(76, 0)  # the widest integers
MAX_DEPTH = 64  # levels of records and bags
KEY = b"keras_mmil key"  # metadata of a key's field: "to customers.id", or "of customers"
SAMPLED = b"keras_mmil sampled"  # metadata of bags that are samples: of how many members at most
AGAIN = "again "  # before the name of a column there: of rows at the top that come again in records
# Marks the fields of a struct that stands for values of several types: one field for each type,
# at most one of them not null.
_MIXED = {b"keras_mmil": b"values of one type"}
_BYTES_OF_UUID = 16
_SECONDS = {"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}


@dataclass(frozen=True, eq=False)
class Present:
    """The values of one type.

    Attributes:
        values: without nulls: integers, float64 (finite as float32), or decimals with more digits
            than float64 holds; booleans; strings, or a dictionary of them; times in seconds since
            1970 (UTC), float64; structs or maps; lists.
        at: position of each value in the array it is from, int64; None where all are present.
    """

    values: pa.Array
    at: Array | None


def mixed(arrays: Mapping[str, pa.Array]) -> pa.Array:
    """Arrays of one length, by type, as one array; at most one of them is not null anywhere."""
    fields = [pa.field(type_, array.type, metadata=_MIXED) for type_, array in arrays.items()]
    return pa.StructArray.from_arrays(list(arrays.values()), fields=fields)


def alternatives(array: pa.Array, path: str) -> dict[str, pa.Array]:
    """Splits an array by the types of its values: "number", "boolean", "text", "time" and so on.

    Values of other types are null in each result. Raises TypeError, with the path, if the type
    stands for no part of a record.
    """
    array = _plain(array)
    if pa.types.is_null(array.type):
        return {}
    if not _is_mixed(array.type):
        return {_conversion(array.type, path)[0]: array}
    by_type: dict[str, pa.Array] = {}
    for alternative in array.flatten():
        by_type |= alternatives(alternative, path)
    return by_type


def present(array: pa.Array, path: str) -> Present:
    """The values in an array of one type: see `alternatives`. ValueError for bytes, not text."""
    _, convert = _conversion(array.type, path)
    at = None
    if array.null_count:
        at = np.flatnonzero(as_numpy(pc.is_valid(array)))
        array = array.drop_null()
    values = convert(array)
    if pa.types.is_floating(values.type):
        is_finite = np.abs(values.to_numpy()) <= LARGEST
        if not is_finite.all():
            finite = np.flatnonzero(is_finite)
            at = finite if at is None else at[finite]
            values = values.filter(pa.array(is_finite))
    return Present(values, at)


def present_at(array: pa.Array, path: str) -> Array:
    """The positions that hold a value of any type, int64."""
    is_present = np.zeros(len(array), bool)
    for alternative in alternatives(array, path).values():
        at = present(alternative, path).at
        is_present[slice(None) if at is None else at] = True
    return np.flatnonzero(is_present)


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
    """An empty array of structs, which has the names of the fields."""
    return pa.StructArray.from_arrays([pa.nulls(0)] * len(schema), schema.names)


def plain_types(array: pa.Array) -> pa.Array:
    """The same array, without views of texts and bytes, which few functions of Arrow know."""
    plain = _without_views(array.type)
    return array if plain.equals(array.type) else array.cast(plain)


def _without_views(type_: pa.DataType) -> pa.DataType:
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


def spread(values: pa.Array, at: Array, n: int) -> pa.Array:
    """An array of length n with these values at some positions, and null elsewhere."""
    index = np.full(n, -1)
    index[at] = np.arange(len(values))
    return values.take(pa.array(index, mask=index < 0))


def lists(
    members: pa.Array, at: Array, n: int, is_null: pa.Array | None = None
) -> pa.LargeListArray:
    """n lists of members, which come one list after the other; `at` is the list of each, in any
    order: it is only counted.
    """
    offsets = np.concatenate([[0], np.bincount(at, minlength=n).cumsum()])
    return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), members, mask=is_null)


def holds_mixed(type_: pa.DataType) -> bool:
    """Whether some place in arrays of an Arrow type holds values of several types."""
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
    """The type of parts that an Arrow type stands for, and a function to `Present.values`."""
    is_ = pa.types
    if is_.is_boolean(type_):
        return "boolean", _same
    if is_.is_integer(type_):
        return "number", _same
    if is_.is_decimal(type_):
        return "number", _floats_if_exact
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
    """Bytes as texts: UTF-8, or UUIDs if all have their length; else ValueError with the path."""
    try:
        return array.cast(pa.large_string())
    except pa.ArrowInvalid as error:
        if any(len(each) != _BYTES_OF_UUID for each in array.drop_null().to_pylist()):
            where = path or "the top"
            raise ValueError(f"Expected text in UTF-8. Received: bytes at {where}") from error
    return _texts_of_uuids(array)


def _texts_of_uuids(array: pa.Array) -> pa.Array:
    texts = [None if x is None else str(uuid.UUID(bytes=x)) for x in array.to_pylist()]
    return pa.array(texts, pa.large_string())


def as_floats(numbers: pa.Array) -> Floats:
    """Numbers as the nearest float64: see `Present`."""
    if pa.types.is_decimal(numbers.type):
        numbers = numbers.cast(pa.float64(), safe=False)
    return as_numpy(numbers).astype(np.float64)


def digits_lost(decimals: pa.Array) -> tuple[Bools, Bools]:
    """Which decimals have more digits than float64 holds, and which are whole numbers."""
    x, scale = as_floats(decimals), decimals.type.scale
    is_wide = np.abs(x) >= WHOLE
    if scale <= 0:
        return is_wide, np.ones(len(x), bool)
    is_whole = as_numpy(pc.equal(decimals, pc.floor(decimals)))
    may_be = np.flatnonzero(~is_whole & (np.abs(x) * 10.0**scale >= WHOLE))
    exact = decimals.take(pa.array(may_be)).to_pylist()
    is_wide[may_be] = [
        f"{one:.{scale}f}" != format(two, "f")
        for one, two in zip(x[may_be].tolist(), exact, strict=True)
    ]
    return is_wide, is_whole


def _same(array: pa.Array) -> pa.Array:
    return array


def _floats_if_exact(decimals: pa.Array) -> pa.Array:
    if len(decimals) and digits_lost(decimals)[0].any():
        return decimals
    return decimals.cast(pa.float64(), safe=False)


def _seconds(array: pa.Array, per_second: float) -> pa.Array:
    integer = pa.int32() if array.type.bit_width == 32 else pa.int64()
    return pa.array(array.cast(integer).to_numpy() / per_second)
