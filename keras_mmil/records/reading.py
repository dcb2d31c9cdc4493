"""Nested records as tensors, one for each part of a schema: at once, or as a stream."""

import itertools
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import tensorflow as tf

from keras_mmil._support.arrow_lists import lengths_and_members
from keras_mmil._support.rows import rebatch
from keras_mmil._support.types import Array, Floats
from keras_mmil.records import arrow, scalars
from keras_mmil.records.fields import Field
from keras_mmil.records.parquet import Wanted
from keras_mmil.records.sources import Batch
from keras_mmil.records.targets import Target
from keras_mmil.records.to_arrow import column_of_map, entries

if TYPE_CHECKING:
    from keras_mmil.records.schema import Schema

__all__ = [
    "UNSEEN",
    "Mismatches",
    "Reader",
    "columns_of",
    "numbers_at",
    "seconds_in",
    "stream",
    "values_at",
    "wanted",
]

UNSEEN = ("missing", "error")  # what becomes of values of types that the schema has not seen
_CHANCE = 0.005  # at most, that a part is nowhere by chance
_N_SHOWN = 12


# Fields as they are in the data ------------------------------------------------------------------


def columns_of(records: pa.Array, names: Iterable[str]) -> dict[str, pa.Array]:
    """The fields of records, null where the record is: of structs all, of maps those named."""
    if pa.types.is_struct(records.type):
        return dict(zip((x.name for x in records.type), records.flatten(), strict=True))
    if pa.types.is_map(records.type):
        return {name: column_of_map(records, name) for name in names}
    return {}


def _columns_of_lists(lists: pa.Array, vector: Field) -> tuple[dict[str, pa.Array], int]:
    """The positions of vectors by name, and how many lists have another length.

    A position is null where the list is null, empty or of another length.
    """
    names = list(dict.fromkeys(part.name for part in vector.parts))
    part = arrow.present(lists, vector.path)
    if not len(part.values):
        return {}, 0
    at = np.arange(len(lists)) if part.at is None else part.at
    lengths, members = lengths_and_members(part.values)
    is_right = lengths == len(names)
    starts = (np.cumsum(lengths) - lengths)[is_right]
    columns = {
        name: arrow.spread(members.take(pa.array(starts + i)), at[is_right], len(lists))
        for i, name in enumerate(names)
    }
    return columns, int(np.count_nonzero(~is_right & (lengths > 0)))


def values_at(schema: "Schema", records: pa.Array, path: str) -> arrow.Present:
    """The values at a path, also of identifiers and other parts that are not read.

    Texts that stand for numbers, booleans or times are such.

    Args:
        schema: of the records.
        records: structs or maps, as `sources.read_all` returns them.
        path: of a number, boolean, category, text or time that is in no bag.

    Raises:
        KeyError: if there is no such path.
        ValueError: if the part is in a bag, or none of these.
    """
    part = schema[path]
    route = _route(schema.root, part)
    if route is None:
        raise ValueError(f"Expected a field that is in no bag. Received: {path!r}")
    array, parent, nothing = records, schema.root, pa.nulls(len(records))
    by_type: dict[str, pa.Array] = {}
    for each in route:
        (array,) = arrow.alternatives(array, path).values() or [nothing]
        columns = columns_of(array, [each.name]) if parent.has_fields else {}
        if parent.kind == "vector":
            columns, _ = _columns_of_lists(array, parent)
        by_type = arrow.alternatives(columns.get(each.name, nothing), path)
        array, parent = by_type.get(each.type, nothing), each
    if part.type in ("record", "bag"):
        raise ValueError(f"Expected a field with values. Received: {path!r}, which is {part.kind}")
    return _values_of(part, by_type, len(records))


def _values_of(part: Field, by_type: Mapping[str, pa.Array], n: int) -> arrow.Present:
    """The values of a part in a column, by their types, of n rows."""
    if part.form and part.type in by_type:
        accepted = {part.type, *scalars.ACCEPTED.get(part.kind, ())}
        present = {t: arrow.present(x, part.path) for t, x in by_type.items() if t in accepted}
        return scalars.values(part, present, n)
    if part.type not in by_type:
        return arrow.Present(pa.array([], pa.string()), np.empty(0, np.int64))
    return arrow.present(by_type[part.type], part.path)


def seconds_in(part: Field, column: pa.Array) -> Floats:
    """Times in a column of a part of that kind, in seconds since 1970: float64, NaN for none."""
    present = _values_of(part, arrow.alternatives(column, part.path), len(column))
    return _as_numbers(present, len(column))


def numbers_at(schema: "Schema", records: pa.Array, path: str) -> Floats:
    """The numbers, or times in seconds since 1970, at a path: float64, NaN where there are none.

    Raises KeyError and ValueError as `values_at`, and ValueError for other kinds.
    """
    part, present = schema[path], values_at(schema, records, path)
    if part.type not in ("number", "time") and part.kind not in ("number", "time"):
        raise ValueError(
            f"Expected times or numbers. Received: {path!r}, which is {part.kind}: {part.why}"
        )
    return _as_numbers(present, len(records))


def _as_numbers(present: arrow.Present, n: int) -> Floats:
    numbers = np.full(n, np.nan)
    if len(present.values):
        numbers[slice(None) if present.at is None else present.at] = arrow.as_floats(present.values)
    return numbers


def _route(parent: Field, part: Field) -> tuple[Field, ...] | None:
    """The fields that lead from a record to a part of it; None if it is in a bag."""
    for each in parent.parts:
        if each is part:
            return (each,)
        inner = _route(each, part) if each.has_fields else None
        if inner is not None:
            return (each, *inner)
    return None


def wanted(fields: Iterable[Field]) -> Wanted:
    """The columns of a source that are needed to read some fields."""
    columns: dict[str, bool | Wanted] = {}
    for each in fields:
        if not each.is_left_out:
            columns[each.name] = True if each.name in columns else _wanted_in(each)
    return columns


def _wanted_in(part: Field) -> bool | Wanted:
    if part.kind == "record":
        return wanted(part.parts)
    if part.kind == "bag" and not part.is_map and len(part.parts) == 1:
        return _wanted_in(part.parts[0]) or True  # its size, at least
    return True


# Tensors -----------------------------------------------------------------------------------------


class Mismatches:
    """Counts how records differ from the schema, in one batch or in many, for one warning.

    Attributes:
        n_records: how many were read.
        unseen: how many values were read as missing, by place, what the schema has, and what the
            values are.
    """

    def __init__(self, target: Target | None = None) -> None:
        self.n_records = 0
        self.unseen: Counter[tuple[str, str, str]] = Counter()
        # The target may be missing everywhere.
        self._quiet = [] if target is None else [part.path for part in target.parts]
        self._n, self._n_there = Counter[str](), Counter[str]()  # by place
        self._usual: dict[str, float] = {}

    def count(self, fields: Sequence[Field], n: int, n_there: int) -> None:
        """Count that something could be n times at a place, and was `n_there` times.

        Args:
            fields: of the place, one for each type.
        """
        name = fields[0].place
        self._n[name] += n
        self._n_there[name] += n_there
        if name not in self._usual:
            is_quiet = any(each.path in self._quiet for each in fields)
            self._usual[name] = 0.0 if is_quiet else _usual_share(fields)

    def warn(self, stacklevel: int = 3) -> None:
        """Warn of values of types that the schema does not have, and of parts that are nowhere.

        A part may be nowhere in few records by chance, depending on how often it was missing when
        the schema was inferred. Members of one bag may be alike, and count as one record.
        """
        for (name, expected, what), n in self.unseen.items():
            warnings.warn(
                f"{name!r} is {expected} in the schema; {n:,} of {self._n_there[name]:,} "
                f"values there are {what}, and are read as missing.",
                stacklevel=stacklevel,
            )
        nowhere = [
            f"{name!r} (expected in {100 * self._usual[name]:.3g} %)"
            for name, n in self._n.items()
            if n
            and not self._n_there[name]
            and (1 - self._usual[name]) ** min(n, self.n_records) < _CHANCE
        ]
        if nowhere:
            n = self.n_records
            who = "The record has" if n == 1 else f"All {n:,} records have"
            shown, more = ", ".join(nowhere[:_N_SHOWN]), len(nowhere) - _N_SHOWN
            warnings.warn(
                f"{who} nothing at {shown}{f' and {more} more' if more > 0 else ''}. "
                "Such parts count as missing; if they have other names here, rename them.",
                stacklevel=stacklevel,
            )


def _usual_share(fields: Sequence[Field]) -> float:
    """How often something is there, as far as the schema has seen: the rule of succession."""
    share = sum(1 - each.share_missing for each in fields)
    n = sum(each.seen.count for each in fields if each.seen is not None)
    return (n + 1) / (n / share + 2) if n and share else 0.0


@dataclass
class _Levels:
    """The bags around a place.

    Attributes:
        n: number of places: of the records at the top, or of the members of the innermost bags.
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
    """Reads batches of records as tensors.

    Attributes:
        root: the records at the top of a schema.
        exact: paths of numbers that are read as float64.
        unseen: "missing" or "error": whether values of types that the schema has not seen at their
            place are missing, and counted, or raise an error.
        mismatches: of these records, and perhaps of others that were read before.
    """

    root: Field
    exact: Collection[str] = ()
    unseen: str = "missing"
    mismatches: Mismatches = field(default_factory=Mismatches)
    # By path: what was read, the numbers of members of bags, and the bags around, outermost first.
    _values: dict[str, list[tf.Tensor]] = field(default_factory=dict)
    _lengths: dict[str, list[Array]] = field(default_factory=dict)
    _bags_around: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _batch: Batch | None = None

    def add(self, batch: Batch) -> None:
        """Read further records.

        Raises ValueError, with `unseen="error"`, for a value of a type that the schema has not seen
        there; it names the path and the record.
        """
        self._batch = batch
        self.mismatches.n_records += len(batch.records)
        (records,) = arrow.alternatives(batch.records, "").values() or [pa.array([], pa.struct([]))]
        self._record(self.root.parts, records, _Levels(len(records)))

    def result(self) -> dict[str, tf.Tensor | tf.RaggedTensor]:
        """The tensors of all records, by path."""
        if not self._values:
            self.add(Batch(range(0), pa.array([], pa.struct([]))))
        splits = {
            bag: tf.constant(np.concatenate([[0], *lengths]).cumsum())
            for bag, lengths in self._lengths.items()
        }
        tensors: dict[str, tf.Tensor | tf.RaggedTensor] = {}
        for path, pieces in self._values.items():
            x = pieces[0] if len(pieces) == 1 else tf.concat(pieces, axis=0)
            if bags := self._bags_around[path]:
                nested = [splits[bag] for bag in bags]
                x = tf.RaggedTensor.from_nested_row_splits(x, nested, validate=False)
            tensors[path] = x
        return tensors

    def _record(self, fields: Sequence[Field], records: pa.Array, levels: _Levels) -> None:
        """The fields of records, some of which may be missing."""
        columns = columns_of(records, dict.fromkeys(each.name for each in fields))
        self._columns(fields, columns, levels, len(records) - records.null_count)

    def _columns(
        self,
        fields: Iterable[Field],
        columns: Mapping[str, pa.Array],
        levels: _Levels,
        n_parents: int,
    ) -> None:
        places: dict[str, list[Field]] = {}
        for each in fields:
            places.setdefault(each.name, []).append(each)
        for name, alternatives in places.items():
            self._place(alternatives, columns.get(name), levels, n_parents)

    def _place(
        self, fields: Sequence[Field], array: pa.Array | None, levels: _Levels, n_parents: int
    ) -> None:
        """Read one place.

        Args:
            fields: of the place, one for each type.
            array: what is there; None for nothing.
            levels: the bags around it.
            n_parents: how many of the records or bags around it are there.
        """
        if not any(each.is_read for each in fields):
            return
        by_type = {} if array is None else arrow.alternatives(array, fields[0].path)
        claimed = {each.type for each in fields}
        n_there = 0
        for each in fields:
            accepted = {each.type, *(self._accepted(each) - claimed)}
            here = {type_: by_type[type_] for type_ in accepted & by_type.keys()}
            if each.is_left_out:
                n_there += sum(len(x) - x.null_count for x in here.values())
            else:
                n_there += self._read(each, here, levels)
            claimed |= accepted
        for type_, unseen in by_type.items():
            if type_ not in claimed:
                n_there += self._unseen(fields, type_, unseen, levels)
        self.mismatches.count(fields, n_parents, n_there)

    def _accepted(self, part: Field) -> set[str]:
        """The types that are read at a place of a field, besides its own."""
        types = scalars.ACCEPTED.get(part.kind, set())
        has_texts = part.kind == "time" or part.type == "text" or part.texts is not None
        return types if has_texts or self.unseen == "missing" else types - {"text"}

    def _read(self, part: Field, by_type: dict[str, pa.Array], levels: _Levels) -> int:
        """Read one field; returns how many values are there."""
        array = by_type.get(part.type)
        n_there = 0 if array is None else len(array) - array.null_count
        if part.kind == "record":
            missing = pa.nulls(levels.n, pa.struct([]))
            self._record(part.parts, missing if array is None else array, levels)
        elif part.kind == "vector":
            columns, n_others = ({}, 0) if array is None else _columns_of_lists(array, part)
            self._lost(part, n_others, "lists of other lengths")
            self._columns(part.parts, columns, levels, 0)
        elif part.kind == "bag":
            self._bag(part, array, levels)
        else:
            present = {t: arrow.present(x, part.path) for t, x in by_type.items() if len(x)}
            n_there = sum(len(each.values) for each in present.values())
            x = scalars.read(part, present, levels.n, exact=part.path in self.exact)
            self._lost(part, *scalars.lost(part, present, x))
            self._keep(part.path, x, levels)
        return n_there

    def _lost(self, part: Field, n: int, what: str) -> None:
        if n:
            self.mismatches.unseen[part.place, part.kind, what] += n

    def _keep(self, path: str, x: tf.Tensor, levels: _Levels) -> None:
        self._values.setdefault(path, []).append(x)
        self._bags_around[path] = levels.paths

    def _bag(self, part: Field, array: pa.Array | None, levels: _Levels) -> None:
        lengths = np.zeros(levels.n, np.int64)
        keys = members = None
        if array is not None:
            bags = arrow.present(array, part.path)
            at = slice(None) if bags.at is None else bags.at
            if part.is_map:
                keys, members, lengths[at] = entries(bags.values, part.path)
            else:
                lengths[at], members = lengths_and_members(bags.values)
        inner = levels.inner(part.path, lengths)
        self._lengths.setdefault(part.path, []).append(lengths)
        self._place([each for each in part.parts if each.name], keys, inner, inner.n)
        self._place([each for each in part.parts if not each.name], members, inner, inner.n)
        if not any(each.is_read for each in part.parts):  # only its size
            self._keep(part.path, tf.ones([inner.n]), inner)

    def _unseen(self, fields: Sequence[Field], type_: str, array: pa.Array, levels: _Levels) -> int:
        """Count, or refuse, values of a type that the schema has not seen there."""
        if type_ == "number":  # without NaN and the like; other values need not even be readable
            part = arrow.present(array, fields[0].path)
            at = np.arange(len(array)) if part.at is None else part.at
        else:
            at = np.flatnonzero(arrow.as_numpy(array.is_valid()))
        if not len(at):
            return 0
        kinds = ["bag by key" if each.is_map else each.kind for each in fields]
        name, expected = fields[0].place, " or ".join(kinds)
        if self.unseen == "missing":
            self.mismatches.unseen[name, expected, f"{type_}s"] += len(at)
            return len(at)
        where = "" if self._batch is None else self._batch.named(levels.record_of(int(at[0])))
        raise ValueError(f"Expected {expected} at {name!r}. Received: a {type_} there, in {where}")


# Streams -----------------------------------------------------------------------------------------


def stream(
    root: Field,
    open_source: Callable[[], Iterator[Batch]],
    *,
    batch_size: int,
    shuffle: int,
    seed: int | None,
    target: Target | None,
    unseen: str,
) -> tf.data.Dataset:
    """Batches of tensors of the records that `open_source` returns in each epoch."""
    if batch_size < 1 or shuffle < 0:
        raise ValueError(
            "Expected a batch_size of at least 1, and shuffle of at least 0. "
            f"Received: batch_size={batch_size}, shuffle={shuffle}"
        )
    epochs = itertools.count()

    def tensors() -> Iterator[Any]:
        batches = open_source()
        if shuffle:
            random = np.random.default_rng(None if seed is None else (seed, next(epochs)))
            batches = _shuffled(batches, max(shuffle, batch_size), batch_size, random)
        mismatches = Mismatches(target)
        try:
            for pieces in _rebatched(batches, batch_size):
                yield _tensors(Reader(root, unseen=unseen, mismatches=mismatches), pieces, target)
        finally:  # also if the rest of the batches is not wanted
            mismatches.warn()

    empty = _tensors(Reader(root), (), target)
    x = empty if target is None else empty[0]
    signature: Any = {path: _spec(each) for path, each in x.items()}
    if target is not None:
        signature = signature, tf.TensorSpec([None, *target.shape], target.dtype)
    dataset = tf.data.Dataset.from_generator(tensors, output_signature=signature)
    # Otherwise tf.data appends a buffer that grows whenever the reader is slower than its user.
    return dataset.prefetch(1)


def _tensors(reader: Reader, pieces: Iterable[Batch], target: Target | None) -> Any:
    for piece in pieces:
        reader.add(piece)
    x = reader.result()
    return x if target is None else target.split(x)


def _spec(empty: tf.Tensor | tf.RaggedTensor) -> tf.TypeSpec:
    if isinstance(empty, tf.RaggedTensor):
        return tf.RaggedTensorSpec([None] * len(empty.shape), empty.dtype, empty.ragged_rank)
    return tf.TensorSpec([None], empty.dtype)


def _rebatched(batches: Iterable[Batch], size: int) -> Iterator[list[Batch]]:
    """Pieces of `size` records together, fewer at the end."""
    return rebatch(batches, size, lambda batch: len(batch.records), Batch.part)


def _shuffled(
    batches: Iterable[Batch], n_held: int, size: int, random: np.random.Generator
) -> Iterator[Batch]:
    """The records of each `n_held` in a random order, those of a batch piece by piece."""
    for held in _rebatched(batches, n_held):
        piece_of = np.repeat(np.arange(len(held)), [len(each.records) for each in held])
        place_of = np.concatenate([np.arange(len(each.records)) for each in held])
        order = random.permutation(len(piece_of))
        for start in range(0, len(order), size):
            some = order[start : start + size]
            for i, piece in enumerate(held):
                places = place_of[some[piece_of[some] == i]]
                if len(places):
                    yield piece.part(places)
