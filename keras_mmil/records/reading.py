"""Nested records as tensors, one for each part of a schema."""

import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import tensorflow as tf

from keras_mmil._support.types import Array
from keras_mmil.records import arrow, leaves
from keras_mmil.records.fields import Field
from keras_mmil.records.plain import to_arrow
from keras_mmil.records.sources import Batch

__all__ = ["Reader"]

_SCALARS = ("number", "boolean", "text", "time")


@dataclass
class _Levels:
    """The bags around a place.

    Attributes:
        n: number of places: of the top-records, or of the members of the innermost bags.
        lengths: numbers of members of the bags of each level, outermost first.
        paths: of these bags.
    """

    n: int
    lengths: tuple[Array, ...] = ()
    paths: tuple[str, ...] = ()

    def inner(self, path: str, lengths: Array) -> "_Levels":
        """The places in bags at these places."""
        return _Levels(int(lengths.sum()), (*self.lengths, lengths), (*self.paths, path))

    def record_of(self, place: int) -> int:
        """The number, in its batch, of the record that a place is in."""
        for lengths in reversed(self.lengths):
            place = int(np.searchsorted(np.cumsum(lengths), place, side="right"))
        return place


@dataclass
class Reader:
    """Records in batches, as tensors.

    Args:
        root: the records at the top of a schema.

    Attributes:
        values: dict from paths to what was read there, a list of tensors.
        lengths: dict from paths of bags to the numbers of their members, a list of arrays.
        bags_around: dict from paths to those of the bags around them, outermost first.
        of_other_types: how many values were read as missing, by path, type wanted and type found.
    """

    root: Field
    values: dict[str, list[tf.Tensor]] = field(default_factory=dict)
    lengths: dict[str, list[Array]] = field(default_factory=dict)
    bags_around: dict[str, tuple[str, ...]] = field(default_factory=dict)
    of_other_types: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    _first: int = 0

    def add(self, batch: Batch) -> None:
        """Read further records.

        Raises:
            ValueError: if a record is of another structure than the schema's: it names the path and
                the record's number.
        """
        self._first = batch.first
        (records,) = arrow.alternatives(batch.records, "").values() or [pa.array([], pa.struct([]))]
        self._record(self.root.parts, records, _Levels(len(records)))

    def result(self) -> dict[str, tf.Tensor | tf.RaggedTensor]:
        """All that was read so far, by path; warn of values of other types than the schema's."""
        for (path, wanted, found), n in self.of_other_types.items():
            warnings.warn(
                f"{path!r} is {wanted} in the schema; {n} {found} there are read as missing.",
                stacklevel=3,
            )
        return {path: self._joined(path) for path in self.values}

    def _joined(self, path: str) -> tf.Tensor | tf.RaggedTensor:
        pieces = self.values[path]
        x = pieces[0] if len(pieces) == 1 else tf.concat(pieces, axis=0)
        for bag in reversed(self.bags_around[path]):
            lengths = np.concatenate(self.lengths[bag])
            x = tf.RaggedTensor.from_row_lengths(x, lengths, validate=False)
        return x

    def _record(self, fields: Iterable[Field], records: pa.Array, levels: _Levels) -> None:
        """The fields of records, of which some may be missing."""
        columns: dict[str, pa.Array] = {}
        if pa.types.is_struct(records.type):
            names = [each.name for each in records.type]
            columns = dict(zip(names, records.flatten(), strict=True))
        elif pa.types.is_map(records.type):
            columns = _columns_of_map(records, {each.name for each in fields})
        places: dict[str, list[Field]] = {}
        for each in fields:
            places.setdefault(each.name, []).append(each)
        for name, alternatives in places.items():
            if not all(each.is_left_out for each in alternatives):
                self._place(alternatives, columns.get(name), levels)

    def _place(self, fields: Sequence[Field], array: pa.Array | None, levels: _Levels) -> None:
        """What is at one place, of several types perhaps."""
        found = {} if array is None else arrow.alternatives(array, fields[0].path)
        claimed = {each.type for each in fields}
        for each in fields:
            accepted = {each.type, *(leaves.ACCEPTED.get(each.kind, set()) - claimed)}
            here = {type_: found[type_] for type_ in accepted & found.keys()}
            if not each.is_left_out:
                self._read(each, here, levels)
            claimed |= accepted
        for type_ in found.keys() - claimed:
            self._refuse(fields, type_, found[type_], levels)

    def _read(self, part: Field, found: dict[str, pa.Array], levels: _Levels) -> None:
        array = found.get(part.type)
        if part.kind == "record":
            missing = pa.nulls(levels.n, pa.struct([]))
            self._record(part.parts, missing if array is None else array, levels)
        elif part.kind == "bag":
            self._bag(part, array, levels)
        else:
            arrays = {
                type_: arrow.present(each, part.path) for type_, each in found.items() if len(each)
            }
            piece = leaves.read(part, arrays, levels.n)
            self.values.setdefault(part.path, []).append(piece)
            self.bags_around[part.path] = levels.paths

    def _bag(self, part: Field, array: pa.Array | None, levels: _Levels) -> None:
        lengths = np.zeros(levels.n, np.int64)
        keys = members = None
        if array is not None:
            bags = arrow.present(array, part.path)
            at = slice(None) if bags.at is None else bags.at
            if part.is_keyed:
                keys, members, lengths[at] = _entries(bags.values, part.path)
            else:
                lengths[at] = pc.list_value_length(bags.values).to_numpy()
                members = bags.values.flatten()
        inner = levels.inner(part.path, lengths)
        self.lengths.setdefault(part.path, []).append(lengths)
        of_keys = [each for each in part.parts if each.name]
        of_members = [each for each in part.parts if not each.name]
        if of_keys and not of_keys[0].is_left_out:
            self._place(of_keys, keys, inner)
        if not all(each.is_left_out for each in of_members):
            self._place(of_members, members, inner)

    def _refuse(
        self, fields: Sequence[Field], type_: str, array: pa.Array, levels: _Levels
    ) -> None:
        """Count values of a type that the schema has not there, or raise for other structures."""
        part = arrow.present(array, fields[0].path)
        if not len(part.values) or any(each.kind in ("empty", "dropped") for each in fields):
            return
        wanted = " or ".join(each.kind for each in fields)
        if type_ in _SCALARS and any(each.type in _SCALARS for each in fields):
            self.of_other_types[fields[0].path, wanted, f"{type_}s"] += len(part.values)
            return
        first = 0 if part.at is None else int(part.at[0])
        raise ValueError(
            f"Expected {wanted} at {fields[0].path!r}. "
            f"Received: a {type_} there, in record {self._first + levels.record_of(first)}"
        )


def _columns_of_map(records: pa.MapArray, names: set[str]) -> dict[str, pa.Array]:
    """Fields of maps: for each name the values of that key, null where it is not."""
    values = [None if record is None else dict(record) for record in records.to_pylist()]
    return {
        name: to_arrow([None if value is None else value.get(name) for value in values])
        for name in names
    }


def _entries(records: pa.Array, path: str) -> tuple[pa.Array, pa.Array, Array]:
    """Keys and values of records, one after the other, and how many each record has."""
    if pa.types.is_map(records.type):
        keys, values, splits = arrow.entries(records)
        is_there = pc.is_valid(values).to_numpy(zero_copy_only=False)
        owner = np.repeat(np.arange(len(records)), np.diff(splits))[is_there]
        lengths = np.bincount(owner, minlength=len(records))
        return keys.filter(pa.array(is_there)), values.drop_null(), lengths
    columns = records.flatten()
    names = [each.name for each in records.type]
    owners = [np.flatnonzero(pc.is_valid(x).to_numpy(zero_copy_only=False)) for x in columns]
    owner = np.concatenate([np.empty(0, np.int64), *owners])
    order = np.argsort(owner, kind="stable")
    keys = np.repeat(np.arange(len(names)), [len(each) for each in owners])[order]
    lengths = np.bincount(owner, minlength=len(records)).astype(np.int64)
    values = _concatenated([column.drop_null() for column in columns], path)
    texts = pa.array(names, pa.string()).take(pa.array(keys.astype(np.int64)))
    return texts, values.take(pa.array(order)), lengths


def _concatenated(arrays: list[pa.Array], path: str) -> pa.Array:
    arrays = [array for array in arrays if len(array)]
    if not arrays:
        return pa.nulls(0)
    if len({array.type for array in arrays}) == 1:
        return pa.concat_arrays(arrays)
    values: list[Any] = [value for array in arrays for value in array.to_pylist()]
    return to_arrow(values, path)  # structs of different fields, which Arrow does not join
