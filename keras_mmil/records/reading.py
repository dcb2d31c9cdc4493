"""Nested records as tensors, one for each part of a schema."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import tensorflow as tf

from keras_mmil._support.arrow_lists import lengths_and_members
from keras_mmil._support.types import Array
from keras_mmil.records import arrow, keyed, leaves
from keras_mmil.records.columns import columns_of, columns_of_lists
from keras_mmil.records.fields import Field
from keras_mmil.records.noticing import Noticed
from keras_mmil.records.parquet import Wanted
from keras_mmil.records.sources import Batch

__all__ = ["UNSEEN", "Reader", "wanted"]

UNSEEN = ("missing", "error")  # what becomes of values of types that the schema has not seen


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
        exact: paths of numbers that are read as float64.
        unseen: "missing" or "error": whether values of types that the schema has not seen at their
            place are missing, and counted, or end in an error.
        noticed: what is to be said of the records, of which others may have been read before.

    Attributes:
        values: dict from paths to what was read there, a list of tensors.
        lengths: dict from paths of bags to the numbers of their members, a list of arrays.
        bags_around: dict from paths to those of the bags around them, outermost first.
    """

    root: Field
    exact: Collection[str] = ()
    unseen: str = "missing"
    noticed: Noticed = field(default_factory=Noticed)
    values: dict[str, list[tf.Tensor]] = field(default_factory=dict)
    lengths: dict[str, list[Array]] = field(default_factory=dict)
    bags_around: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _batch: Batch | None = None

    def add(self, batch: Batch) -> None:
        """Read further records.

        Raises:
            ValueError: with `unseen="error"`, if there is a value of a type that the schema has not
                seen there: it names the path and the record's number.
        """
        self._batch = batch
        self.noticed.n_records += len(batch.records)
        (records,) = arrow.alternatives(batch.records, "").values() or [pa.array([], pa.struct([]))]
        self._record(self.root.parts, records, _Levels(len(records)))

    def result(self) -> dict[str, tf.Tensor | tf.RaggedTensor]:
        """All that was read so far, by path."""
        if not self.values:
            self.add(Batch(range(0), pa.array([], pa.struct([]))))
        splits = {
            bag: tf.constant(np.concatenate([[0], *lengths]).cumsum())
            for bag, lengths in self.lengths.items()
        }
        tensors: dict[str, tf.Tensor | tf.RaggedTensor] = {}
        for path, pieces in self.values.items():
            x = pieces[0] if len(pieces) == 1 else tf.concat(pieces, axis=0)
            around = [splits[bag] for bag in self.bags_around[path]]
            if around:
                x = tf.RaggedTensor.from_nested_row_splits(x, around, validate=False)
            tensors[path] = x
        return tensors

    def _record(self, fields: Iterable[Field], records: pa.Array, levels: _Levels) -> None:
        """The fields of records, of which some may be missing."""
        places: dict[str, list[Field]] = {}
        for each in fields:
            places.setdefault(each.name, []).append(each)
        n_there = len(records) - records.null_count
        self._columns(places, columns_of(records, places), levels, n_there)

    def _vector(self, part: Field, lists: pa.Array | None, levels: _Levels) -> None:
        """The positions of vectors."""
        columns, n_others = ({}, 0) if lists is None else columns_of_lists(lists, part)
        if n_others:
            self.noticed.unseen[part.place, part.kind, "lists of other lengths"] += n_others
        places: dict[str, list[Field]] = {}
        for each in part.parts:
            places.setdefault(each.name, []).append(each)
        self._columns(places, columns, levels, 0)

    def _columns(
        self,
        places: Mapping[str, Sequence[Field]],
        columns: Mapping[str, pa.Array],
        levels: _Levels,
        n_around: int,
    ) -> None:
        for name, alternatives in places.items():
            if any(each.is_read for each in alternatives):
                self._place(alternatives, columns.get(name), levels, n_around)

    def _place(
        self, fields: Sequence[Field], array: pa.Array | None, levels: _Levels, n_around: int
    ) -> None:
        """What is at one place, of several types perhaps.

        Args:
            fields: of the place, one for each type.
            array: what is there; None for nothing.
            levels: the bags around it.
            n_around: how many of the records or bags around it are there.
        """
        found = {} if array is None else arrow.alternatives(array, fields[0].path)
        claimed = {each.type for each in fields}
        n_there = 0
        for each in fields:
            accepted = {each.type, *(self._accepted(each) - claimed)}
            here = {type_: found[type_] for type_ in accepted & found.keys()}
            if each.is_left_out:
                n_there += sum(len(x) - x.null_count for x in here.values())
            else:
                n_there += self._read(each, here, levels)
            claimed |= accepted
        for type_ in found.keys() - claimed:
            n_there += self._unseen(fields, type_, found[type_], levels)
        self.noticed.count(fields, n_around, n_there)

    def _accepted(self, part: Field) -> set[str]:
        """The types of values that are taken at a place of a field, besides its own."""
        types = leaves.ACCEPTED.get(part.kind, set())
        has_texts = part.kind == "time" or part.type == "text" or part.texts is not None
        return types if has_texts or self.unseen == "missing" else types - {"text"}

    def _read(self, part: Field, found: dict[str, pa.Array], levels: _Levels) -> int:
        """Read what is of one field; how many values are there."""
        array = found.get(part.type)
        n_there = 0 if array is None else len(array) - array.null_count
        if part.kind == "record":
            missing = pa.nulls(levels.n, pa.struct([]))
            self._record(part.parts, missing if array is None else array, levels)
        elif part.kind == "vector":
            self._vector(part, array, levels)
        elif part.kind == "bag":
            self._bag(part, array, levels)
        else:
            arrays = {
                type_: arrow.present(each, part.path) for type_, each in found.items() if len(each)
            }
            n_there = sum(len(each.values) for each in arrays.values())
            piece = leaves.read(part, arrays, levels.n, exact=part.path in self.exact)
            n_lost, what = leaves.lost(part, arrays, piece)
            if n_lost:
                self.noticed.unseen[part.place, part.kind, what] += n_lost
            self.values.setdefault(part.path, []).append(piece)
            self.bags_around[part.path] = levels.paths
        return n_there

    def _bag(self, part: Field, array: pa.Array | None, levels: _Levels) -> None:
        lengths = np.zeros(levels.n, np.int64)
        keys = members = None
        if array is not None:
            bags = arrow.present(array, part.path)
            at = slice(None) if bags.at is None else bags.at
            if part.is_keyed:
                keys, members, lengths[at] = keyed.entries(bags.values, part.path)
            else:
                lengths[at], members = lengths_and_members(bags.values)
        inner = levels.inner(part.path, lengths)
        self.lengths.setdefault(part.path, []).append(lengths)
        of_keys = [each for each in part.parts if each.name]
        of_members = [each for each in part.parts if not each.name]
        if any(each.is_read for each in of_keys):
            self._place(of_keys, keys, inner, inner.n)
        if any(each.is_read for each in of_members):
            self._place(of_members, members, inner, inner.n)
        if not any(each.is_read for each in part.parts):  # only its size
            self.values.setdefault(part.path, []).append(tf.ones([inner.n]))
            self.bags_around[part.path] = inner.paths

    def _unseen(self, fields: Sequence[Field], type_: str, array: pa.Array, levels: _Levels) -> int:
        """Count values of a type that the schema has not seen there, or refuse them."""
        if type_ == "number":  # without NaN and the like; other values need not even be readable
            part = arrow.present(array, fields[0].path)
            at = np.arange(len(array)) if part.at is None else part.at
        else:
            at = np.flatnonzero(arrow.as_numpy(array.is_valid()))
        if not len(at):
            return 0
        name, expected = fields[0].place, " or ".join(map(_in_words, fields))
        if self.unseen == "missing":
            self.noticed.unseen[name, expected, f"{type_}s"] += len(at)
            return len(at)
        where = "" if self._batch is None else self._batch.named(levels.record_of(int(at[0])))
        raise ValueError(f"Expected {expected} at {name!r}. Received: a {type_} there, in {where}")


def _in_words(part: Field) -> str:
    """What a field is, so that it differs from all else that may be there."""
    return "bag by key" if part.is_keyed else part.kind


def wanted(fields: Iterable[Field]) -> Wanted:
    """What a source needs to give of some fields, for those that are not left out."""
    found: dict[str, bool | Wanted] = {}
    for each in fields:
        if not each.is_left_out:
            found[each.name] = True if each.name in found else _wanted_in(each)
    return found


def _wanted_in(part: Field) -> bool | Wanted:
    if part.kind == "record":
        return wanted(part.parts)
    if part.kind == "bag" and not part.is_keyed and len(part.parts) == 1:
        return _wanted_in(part.parts[0]) or True  # its size, at least
    return True
