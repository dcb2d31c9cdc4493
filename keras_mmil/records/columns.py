"""Fields of records as they are in the data, whatever they are taken for."""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from keras_mmil._support.arrow_lists import lengths_and_members
from keras_mmil._support.types import Floats
from keras_mmil.records import arrow, keyed, leaves
from keras_mmil.records.fields import Field
from keras_mmil.records.parts import Parts

__all__ = ["columns_of", "columns_of_lists", "numbers_at", "values_at"]


def columns_of(records: pa.Array, names: Iterable[str]) -> dict[str, pa.Array]:
    """The fields of records, null where the record is; of structs all, of maps those named.

    Args:
        records: structs or maps; others have none.
        names: of the fields that are wanted.
    """
    if pa.types.is_struct(records.type):
        return dict(zip((x.name for x in records.type), records.flatten(), strict=True))
    if pa.types.is_map(records.type):
        return {name: keyed.column_of_map(records, name) for name in names}
    return {}


def columns_of_lists(lists: pa.Array, vector: Field) -> tuple[dict[str, pa.Array], int]:
    """The positions of vectors, null where the list is null, empty or of another length.

    Args:
        lists: what is there; may be a slice.
        vector: the field that they are of.

    Returns:
        Dict from the names of positions to arrays of as many; and how many lists are of another
        length.
    """
    names = list(dict.fromkeys(part.name for part in vector.parts))
    found = arrow.present(lists, vector.path)
    if not len(found.values):
        return {}, 0
    at = np.arange(len(lists)) if found.at is None else found.at
    lengths, members = lengths_and_members(found.values)
    is_right = lengths == len(names)
    starts = (np.cumsum(lengths) - lengths)[is_right]
    columns = {
        name: arrow.spread(members.take(pa.array(starts + i)), at[is_right], len(lists))
        for i, name in enumerate(names)
    }
    return columns, int(np.count_nonzero(~is_right & (lengths > 0)))


def values_at(schema: Parts, records: pa.Array, path: str) -> arrow.Part:
    """The values at a path, also of identifiers and other parts that are not read.

    Texts that stand for numbers, booleans or times are such.

    Args:
        schema: of the records.
        records: structs or maps, as of `whole.whole`.
        path: of a number, boolean, category, text or time that is in no bag.

    Returns:
        The values, and which of the records have one.

    Raises:
        KeyError: if there is no such path.
        ValueError: if the part is in a bag, or none of these.
    """
    part = schema[path]
    route = _route(schema.root, part)
    if route is None:
        raise ValueError(f"Expected a field that is in no bag. Received: {path!r}")
    array, around = records, schema.root
    found: dict[str, pa.Array] = {}
    for each in route:
        (array,) = arrow.alternatives(array, path).values() or [pa.nulls(len(records))]
        columns = columns_of(array, [each.name]) if around.has_fields else {}
        if around.kind == "vector":
            columns, _ = columns_of_lists(array, around)
        array, around = columns.get(each.name, pa.nulls(len(records))), each
        found = arrow.alternatives(array, path)
        array = found.get(each.type, pa.nulls(len(records)))
    if part.type in ("record", "bag"):
        raise ValueError(f"Expected a field with values. Received: {path!r}, which is {part.kind}")
    if part.form and part.type in found:
        accepted = {part.type, *leaves.ACCEPTED.get(part.kind, ())}
        found = {type_: x for type_, x in found.items() if type_ in accepted}
        return leaves.values(
            part, {type_: arrow.present(x, path) for type_, x in found.items()}, len(records)
        )
    if pa.types.is_null(array.type):
        return arrow.Part(pa.array([], pa.string()), np.empty(0, np.int64))
    return arrow.present(array, path)


def numbers_at(schema: Parts, records: pa.Array, path: str) -> Floats:
    """The numbers, or the times in seconds since 1970, at a path; NaN where there are none.

    Args:
        schema, records, path: as of `values_at`, of a number or a time.

    Returns:
        float64 [records].

    Raises:
        KeyError, ValueError: as `values_at`; and if the part is of another kind.
    """
    part, found = schema[path], values_at(schema, records, path)
    n = len(records)
    if part.type not in ("number", "time") and part.kind not in ("number", "time"):
        raise ValueError(
            f"Expected times, or numbers. Received: {path!r}, which is {part.kind}: {part.why}"
        )
    numbers = np.full(n, np.nan)
    numbers[slice(None) if found.at is None else found.at] = arrow.as_floats(found.values)
    return numbers


def _route(around: Field, part: Field) -> tuple[Field, ...] | None:
    """The fields to go through from a record to a part of it; None where it is in a bag."""
    for each in around.parts:
        if each is part:
            return (each,)
        if each.has_fields:
            inner = _route(each, part)
            if inner is not None:
                return (each, *inner)
    return None
