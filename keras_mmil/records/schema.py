"""The schema of nested records: which parts they have, and what these are taken for."""

import difflib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
import pyarrow as pa
import tensorflow as tf

from keras_mmil import ragged
from keras_mmil._support.formatting import number_text, table
from keras_mmil._support.types import Array, Bools, Config, PathLike
from keras_mmil.records import arrow, encoding, kinds
from keras_mmil.records.fields import (
    Field,
    applicable,
    by_choice,
    by_path,
    check_choices,
    scalar_types,
    tree,
    walk,
)
from keras_mmil.records.keys import Columns
from keras_mmil.records.linking import Links
from keras_mmil.records.paths import alternative, item, place
from keras_mmil.records.profiling import TYPES, FieldProfile, Records, Values, profile
from keras_mmil.records.reading import (
    UNSEEN,
    Mismatches,
    Reader,
    columns_of,
    stream,
    wanted,
)
from keras_mmil.records.sources import batches
from keras_mmil.records.targets import Target, TargetPaths, warn_of_missing
from keras_mmil.records.to_arrow import joined, objects

__all__ = ["Schema"]

_COLUMNS = ("path", "kind", "why", "missing", "distinct", "examples")
_WIDEST = 60  # characters of a column


class Schema:
    """The parts of nested records, inferred from examples.

    Each part has a path, such as `orders.items.price`, and a kind:

    | kind | values | read as |
    | --- | --- | --- |
    | number | numbers, also as texts | float32 |
    | boolean | true and false, also as texts, or only 0 and 1 | float32, 0 or 1 |
    | category | one of some texts or integers | string, or int64 |
    | text | strings of words | string |
    | time | dates and times, also as texts | float64, seconds since 1970 (UTC) |
    | record | parts with names | its parts |
    | vector | lists of one length, whose members have a meaning by their position | its positions |
    | bag | members: values, records or bags; also a dict whose keys are data | its members |

    Constants, identifiers and what was never there are left out. Null, absent, NaN and infinite
    values are missing, which is a state and no error. Texts are read as numbers, booleans or times
    if nearly all of them are; the others are missing. If values of several types were seen at one
    place, each type is a part of its own: `volume<number>`, `volume<text>`.

    `print(schema)` shows every decision, and you can change it: `schema[path]` is a `Field`,
    `schema[path] = kind` chooses a kind, and `for field in schema` goes over all parts that are not
    inside of left-out ones.

    Example:

    >>> from keras_mmil.records import Schema
    >>> schema = Schema.infer([
    ...     {"id": 1, "orders": [{"price": 9.5, "kind": "toy"}, {"price": 3, "kind": "toy"}]},
    ...     {"id": 2, "orders": [{"price": 1.5, "kind": "book"}, {"kind": "book"}]},
    ...     {"id": 3, "orders": None},
    ... ])
    >>> print(schema)  # and examples
    path          kind        why                                    missing  distinct
    id            identifier  by its name, and no value comes twice      0 %         3
    orders        bag         up to 2 members                           33 %
    orders.price  number      numbers                                   25 %         3
    orders.kind   category    2 different texts, each 2 times            0 %         2
    >>> schema["orders.kind"] = "text"
    >>> schema.drop("orders.price")
    """

    def __init__(self) -> None:
        self._profile = FieldProfile()
        self._choices: dict[str, str] = {}
        self._links: Links | None = None

    @classmethod
    def infer(
        cls, source: Any, choices: Mapping[str, str] | None = None, links: Links | None = None
    ) -> Self:
        """The schema of some records.

        Args:
            source: a list or another iterable of dicts, dataclasses, named tuples or NumPy records;
                the path of a .json, .jsonl, .ndjson or .parquet file, which are streamed, or of a
                .csv or .tsv file (all but .parquet also .gz and .zst), or of a folder of these, a
                pattern, or a list of paths; `Files`; a dict of columns; a DataFrame of pandas or
                Polars; a structured array; an Arrow Table, or anything with Arrow's interface.
            choices: kinds by path, such as the `choices` of another schema; those for parts that
                the records lack are ignored.
            links: of the tables that `source` was made of, the `links` of another schema.

        Raises:
            TypeError: if `source`, or a value in it, is no part of records; with its path.
            FileNotFoundError: if there is no such file.
            ValueError: if there are no records, a file is damaged, a record is too large, or a
                choice is impossible.

        Warns:
            UserWarning: of empty lines in a file, which are left out; and of guesses about how to
                read a file.
        """
        schema = cls()
        schema._links = links
        schema._inferred(source)
        schema._take(schema._profile, applicable(schema._profile, choices or {}))
        return schema

    @classmethod
    def infer_tables(
        cls,
        tables: Mapping[str, Any],
        top: str,
        keys: Iterable[tuple[Columns, Columns]] | None = None,
        orphans: str = "raise",
        hops: int = 0,
        at_most: int | None = None,
        seed: int = 0,
    ) -> Self:
        """The schema of linked tables, which accepts such tables wherever it accepts records.

        Args:
            tables, top, keys, orphans, hops, at_most, seed: see `keras_mmil.records.link`.

        Raises:
            KeyError, TypeError, ValueError: as `infer`, and `keras_mmil.records.link`.

        Example:

        >>> tables = {
        ...     "customers": [{"id": 1, "city": "Rome"}, {"id": 2, "city": "Oslo"}],
        ...     "orders": [{"customer": 2, "price": 9.5}, {"customer": 2, "price": 3.0}],
        ... }
        >>> keys = [("orders.customer", "customers.id")]
        >>> schema = Schema.infer_tables(tables, top="customers", keys=keys)
        >>> schema.read(tables)["orders.price"]
        <tf.RaggedTensor [[], [9.5, 3.0]]>
        """
        tables, links = Links.found(tables, top, keys, orphans, hops, at_most, seed)
        schema = cls()
        schema._links = links
        return schema._inferred(tables)

    def _inferred(self, source: Any) -> Self:
        self.update(source)
        if not self.n_records:
            is_path = isinstance(source, str | os.PathLike)
            where = repr(str(source)) if is_path else f"a {type(source).__name__}"
            raise ValueError(f"Expected at least one record. Received: none in {where}")
        return self

    def update(self, source: Any) -> None:
        """Take further records into account, as if they had been there from the start.

        Args:
            source: see `infer`.

        Raises:
            TypeError, ValueError: as `infer`; the schema is then unchanged.
        """
        merged = self._profile
        for batch in batches(self._linked(source), types=scalar_types(self.root.parts)):
            merged = merged.merged(profile(batch.records))
        self._take(merged, self._choices)

    @staticmethod
    def merge(one: "Schema", other: "Schema") -> "Schema":
        """The schema of the records of both, with the choices made in both.

        Raises:
            ValueError: if different choices were made for one path.
        """
        for path in one._choices.keys() & other._choices.keys():
            if one._choices[path] != other._choices[path]:
                raise ValueError(
                    f"Expected equal choices. Received: {path!r} is {one._choices[path]!r} "
                    f"and {other._choices[path]!r}"
                )
        if one._links != other._links:
            raise ValueError(
                "Expected schemas of tables that are linked in the same way. "
                f"Received: {one._links} and {other._links}"
            )
        merged = Schema()
        merged._links = one._links
        merged._take(one._profile.merged(other._profile), one._choices | other._choices)
        return merged

    def save(self, path: PathLike) -> None:
        """Write the schema to a JSON file, which is replaced as a whole."""
        encoding.write(path, encoding.Saved(self._choices, self._profile, self._links))

    @classmethod
    def load(cls, path: PathLike) -> Self:
        """Read a schema that was saved.

        Raises:
            ValueError: if the file is no schema, or damaged; with the place.
        """
        schema = cls()
        saved = encoding.read(path)
        schema._links = saved.tables
        try:
            schema._take(saved.records, saved.choices)
        except ValueError as error:
            raise ValueError(f"Expected a schema in {path}. Received: {error}") from error
        return schema

    @property
    def choices(self) -> dict[str, str]:
        """The kinds that were chosen, and "dropped", by path: a copy."""
        return dict(self._choices)

    @property
    def links(self) -> Links | None:
        """How the tables that it reads are linked; None if it reads no tables."""
        return self._links

    @property
    def key(self) -> tuple[str, ...]:
        """The names of the fields at the top by which records are called; none if there are none.

        Of linked tables they are the columns that others refer to, else the first identifier that
        every record had, and none twice.
        """
        if self._links is not None and self._links.ids:
            return tuple(self._links.ids)
        return tuple(part.name for part in self.root.parts if _is_key(part))[:1]

    def names(self, source: Any, start: int = 0) -> list[str]:
        """What each record is called: the values of `key`, or its number where it has none.

        Args:
            source: see `read`.
            start: number of the first record.
        """
        columns = dict.fromkeys(self.key, True) or wanted(self.root.parts)
        names: list[str] = []
        for batch in batches(self._linked(source), columns, scalar_types(self.root.parts)):
            found = columns_of(batch.records, self.key)
            of_key = [found[name].to_pylist() for name in self.key if name in found]
            for i in range(len(batch.records)):
                values = [_called(column[i]) for column in of_key if column[i] is not None]
                names.append(", ".join(values) or str(start + len(names)))
        return names

    def as_json(
        self, source: Any, places: Sequence[int], without: TargetPaths = ()
    ) -> list[Config]:
        """Some records as a JSON file has them, with the fields that are read.

        Args:
            source, without: see `read`.
            places: positions of the records.
        """
        root = self._wanted(without)
        columns = wanted(root.parts)
        found = batches(self._linked(source), columns, scalar_types(self.root.parts))
        records = joined([batch.records for batch in found], "").take(pa.array(places, pa.int64()))
        rows = json.loads(json.dumps(objects(records, ""), default=_json, allow_nan=False))
        return [_read_in(row, root) for row in rows]

    @property
    def n_records(self) -> int:
        """Number of records that were seen."""
        return self._profile.n_present

    @cached_property
    def root(self) -> Field:
        """The records at the top, with all their parts."""
        return tree(self._profile, self._choices)

    @cached_property
    def _by_path(self) -> dict[str, Field]:
        return by_path(self.root)

    @cached_property
    def _by_choice(self) -> dict[str, Field]:
        return by_choice(self.root)

    def _take(self, profile: FieldProfile, choices: Mapping[str, str]) -> None:
        """Use this profile and these choices, if they go together."""
        check_choices(profile, choices)
        self._profile, self._choices = profile, dict(choices)
        for name in ("root", "_by_path", "_by_choice"):
            self.__dict__.pop(name, None)

    def __repr__(self) -> str:
        return f"<Schema of {self.n_records} records with {len(self)} parts>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Schema):
            return NotImplemented
        mine, others = ((each._profile, each._choices, each._links) for each in (self, other))
        return mine == others

    __hash__ = None  # type: ignore[assignment] # it changes; typeshed: python/mypy#4266

    def __iter__(self) -> Iterator[Field]:
        return iter(self._by_path.values())

    def __len__(self) -> int:
        return len(self._by_path)

    def __contains__(self, path: str) -> bool:
        return path in self._by_choice

    def __getitem__(self, path: str) -> Field:
        """The part with a path.

        Raises:
            KeyError: if there is none.
        """
        try:
            return self._by_choice[path]
        except KeyError:
            raise KeyError(
                f"Expected a path of the schema, such as {', '.join(self._similar(path))}. "
                f"Received: {path!r}{self._dropped_with(path)}"
            ) from None

    def _similar(self, path: object) -> list[str]:
        """Paths of one type of values there, or of similar spelling, or else the first ones."""
        by_type = [each for each in self._by_path if each.startswith(f"{path}<")]
        close = by_type or difflib.get_close_matches(str(path), self._by_path, 3)
        return close or list(self._by_path)[:5]

    def _dropped_with(self, path: str) -> str:
        """A note about a part that is inside a dropped one."""
        if path not in by_path(self.root, also_left_out=True):
            return ""
        parent = next(
            part.path
            for part in self
            if part.kind == "dropped" and any(x.path == path for x in walk(part, True))
        )
        chosen = parent if parent in self._choices else place(parent)
        return f", which is in {parent!r}, dropped by the choice {chosen!r}: 'dropped'"

    def __setitem__(self, path: str, kind: str) -> None:
        """Choose the kind of a part; of a bag of values, that of its values.

        Raises:
            KeyError: if there is no such path.
            ValueError: if what was seen there cannot be of that kind.
        """
        choices = self._choices | {path: kind}
        if path not in by_choice(tree(self._profile, choices)):  # it may join texts and numbers
            self[path]  # raises
        elif path in self and self[path].kind == "bag" and kind in kinds.SCALARS:
            path = item(path) if item(path) in self else path
        self._take(self._profile, self._choices | {path: kind})

    def __delitem__(self, path: str) -> None:
        """Take back the choice for a part, which then has the inferred kind.

        Raises:
            KeyError: if nothing was chosen.
        """
        if path not in self._choices:
            raise KeyError(
                f"Expected a path for which a kind was chosen: {', '.join(self._choices)}. "
                f"Received: {path!r}"
            )
        self._take(self._profile, {k: v for k, v in self._choices.items() if k != path})

    def drop(self, path: str) -> None:
        """Leave out a part, with all that is in it.

        Args:
            path: where values of several types were seen, also their common path, such as `volume`
                for `volume<number>` and `volume<text>`.

        Raises:
            KeyError: if there is no such path.
        """
        if not any(alternative(path, type_) in self for type_ in TYPES):
            self[path]  # raises
        self._take(self._profile, self._choices | {path: "dropped"})

    def __str__(self) -> str:
        rows = [_COLUMNS, *map(_row, self)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(
                cell.rjust(width) if name in ("missing", "distinct") else cell.ljust(width)
                for name, cell, width in zip(_COLUMNS, row, widths, strict=True)
            ).rstrip()
            for row in rows
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """For notebooks."""
        return table(_COLUMNS, map(_row, self))

    def read(
        self,
        source: Any,
        target: TargetPaths | None = None,
        without: TargetPaths = (),
        unseen: str = "missing",
    ) -> Any:
        """Records as tensors, one for each part that is not left out.

        Args:
            source: see `infer`; also linked tables, if the schema is of such.
            target: path of what is to be predicted: a number, a boolean, a category or a bag of
                categories, in no bag; or several paths, of booleans or of numbers.
            without: path, or several, of what is not to be read: of the target, in data to predict.
            unseen: what becomes of values of a type that the schema has not seen at their place,
                such as a text where numbers were, or a list where records were: "missing", with a
                warning that counts them; or "error".

        Returns:
            x, or with a target `(x, y)`.
            - x: dict from paths to tensors whose first axis is the records: [records], or ragged
              [records, (n₁), …] for what is in bags. Dtypes are in the table above; what is missing
              is NaN, the text "\\0", or -2⁶³ in categories of integers. A bag without any part that
              is read has ones, for its size. Parts that the schema does not have are left out.
            - y: array [records], float32 of numbers, else int64: positions in `classes(target)`. Of
              several paths, or of a bag, [records, columns]: numbers, or 1 for each label that a
              record has, in the order of `classes(target)`, else 0.

        Raises:
            KeyError: if there is no such part.
            ValueError: with `unseen="error"`, if there is such a value; it names the path and the
                number of the record.

        Warns:
            UserWarning: of how many values are read as missing, as they are of a type that the
                schema has not seen there, or do not fit the kind; and of parts that are in none of
                the records, unless that is likely by chance.
        """
        expected = self._target(target)
        mismatches = Mismatches(expected)
        root = self._wanted(without, target)
        x = self._read(source, Reader(root, (), _checked(unseen), mismatches))
        mismatches.warn()
        return x if expected is None else expected.split(x)

    def read_labelled(self, source: Any, target: TargetPaths) -> tuple[Any, Array, Bools]:
        """Same as `read`, but only records with labels, and numbers as labels in float64.

        Returns:
            x and y, and which of the records have a label, or all of several, [records].

        Raises:
            KeyError, ValueError: as `read`.

        Warns:
            UserWarning: as `read`; and of how many records have no label.
        """
        expected = Target.of(target, self.__getitem__)
        mismatches, exact = Mismatches(expected), [part.path for part in expected.parts]
        x = self._read(source, Reader(self._wanted((), target), exact, mismatches=mismatches))
        mismatches.warn()
        are_there = expected.are_there(x)
        if not are_there.all():
            x = ragged.take(x, np.flatnonzero(are_there))
            warn_of_missing(are_there, repr(target))
        return (*expected.split(x), are_there)

    def read_in_turn(
        self, sources: Iterable[Any], without: TargetPaths = (), unseen: str = "missing"
    ) -> Iterator[Any]:
        """Same as `read` for each of several sources, with one warning for all at the end.

        Args:
            sources: parts of records that are too many to be read at once; see `read`.
            without, unseen: see `read`.

        Raises:
            KeyError, ValueError: as `read`.

        Warns:
            UserWarning: as `read`.
        """
        root, mismatches = self._wanted(without), Mismatches()
        for source in sources:
            yield self._read(source, Reader(root, (), _checked(unseen), mismatches))
        mismatches.warn()

    def _read(self, source: Any, reader: Reader) -> Any:
        types = scalar_types(self.root.parts)
        for batch in batches(self._linked(source), wanted(reader.root.parts), types):
            reader.add(batch)
        return reader.result()

    def classes(self, target: TargetPaths) -> tuple[Any, ...]:
        """The meanings of the labels of a target.

        Args:
            target: see `read`.

        Returns:
            The values of a category or boolean, in order; of several paths, these; the categories
            in a bag. Nothing for numbers.

        Raises:
            KeyError, ValueError: as `read`.
        """
        return Target.of(target, self.__getitem__).classes

    def dataset(
        self,
        source: Any,
        batch_size: int,
        shuffle: int = 0,
        seed: int | None = None,
        target: TargetPaths | None = None,
        without: TargetPaths = (),
        unseen: str = "missing",
    ) -> tf.data.Dataset:
        """Same as `read`, in batches that are streamed from the source.

        Args:
            source: see `read`; not an iterator, which can be read only once.
            batch_size: records in a batch; the last one may have fewer.
            shuffle: size of the buffer in which records are shuffled, differently in each epoch; 0
                for no shuffling.
            seed: of the shuffling.
            target, without, unseen: see `read`.

        Returns:
            Dataset of x, or of `(x, y)`. Errors of `read` are `tf.errors.InvalidArgumentError`
            here, with the same message. Its warnings come at the end of each epoch.

        Raises:
            KeyError, TypeError, ValueError: if `source` or `target` are invalid, or `batch_size` or
                `shuffle` is out of range.
        """
        if isinstance(source, Iterator):
            raise TypeError(
                f"Expected a source that can be read again. Received: a {type(source).__name__}"
            )
        linked, root = self._linked(source), self._wanted(without, target)
        columns, types = wanted(root.parts), scalar_types(self.root.parts)
        return stream(
            root,
            lambda: batches(linked, columns, types),
            batch_size=batch_size,
            shuffle=shuffle,
            seed=seed,
            target=self._target(target),
            unseen=_checked(unseen),
        )

    def copies_of(self, paths: TargetPaths) -> list[str]:
        """The paths of fields that hold what others hold for another record.

        In linked tables, rows of the table at the top may come again in records: the friends of a
        customer. Wherever the target of a record is not read, neither is that of its friends.

        Args:
            paths: of fields at the top, such as the target.
        """
        names = [paths] if isinstance(paths, str) else paths
        marks = {arrow.AGAIN + self[path].name for path in names}
        return [
            each.path
            for part in walk(self.root)
            if isinstance(part.seen, Records)
            for each in part.parts
            if each.name in part.seen.fields and part.seen.fields[each.name].key in marks
        ]

    def columns(self, without: TargetPaths = ()) -> list[str]:
        """The names of the fields at the top of records that `read` reads.

        Args:
            without: see `read`.
        """
        return list(wanted(self._wanted(without).parts))

    def _target(self, paths: TargetPaths | None) -> Target | None:
        return None if paths is None else Target.of(paths, self.__getitem__)

    def _wanted(self, without: TargetPaths, target: TargetPaths | None = None) -> Field:
        """The records at the top, without some parts, nor the target of other records."""
        paths = [without] if isinstance(without, str) else without
        copies = [*self.copies_of(paths), *self.copies_of(target or ())]
        dropped = dict.fromkeys((self[path].chosen_at for path in [*paths, *copies]), "dropped")
        return tree(self._profile, self._choices | dropped) if dropped else self.root

    def _linked(self, source: Any) -> Any:
        """The records of linked tables, or the source itself."""
        if self._links is None or not isinstance(source, Mapping):
            return source
        return self._links.link(source, self.root)


def _checked(unseen: str) -> str:
    if unseen not in UNSEEN:
        raise ValueError(f"Expected {' or '.join(map(repr, UNSEEN))}. Received: unseen={unseen!r}")
    return unseen


def _is_key(field: Field) -> bool:
    """Whether every record had a value of its own there, as far as that was counted."""
    if field.kind != "identifier" or not isinstance(field.seen, Values):
        return False
    return not field.share_missing and field.n_distinct in (None, field.seen.count)


def _read_in(value: Any, field: Field) -> Any:
    """What is read of a value, which may be a record or a bag of them."""
    if isinstance(value, list) and field.kind == "bag":
        members = next((part for part in field.parts if part.type == "record"), field)
        return [_read_in(each, members) for each in value]
    if not isinstance(value, dict) or field.is_map:
        return value
    parts = {part.name: part for part in field.parts if part.is_read}
    return {name: _read_in(value[name], part) for name, part in parts.items() if name in value}


def _json(value: Any) -> Any:
    """A time as ISO 8601, a decimal as a number, and bytes as text."""
    if isinstance(value, np.datetime64):
        return f"{np.datetime_as_string(value)}Z"
    return value.decode(errors="replace") if isinstance(value, bytes) else float(value)


def _called(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    return number_text(value) if isinstance(value, float) else str(value)


def _row(field: Field) -> tuple[str, ...]:
    """A line of the table of a schema."""
    distinct = ""
    if isinstance(field.seen, Values):
        distinct = "many" if field.n_distinct is None else str(field.n_distinct)
    missing = f"{field.share_missing * 100:.0f} %"
    cells = field.path, field.kind, field.why, missing, distinct, field.examples
    return tuple(cell if len(cell) <= _WIDEST else f"{cell[: _WIDEST - 1]}…" for cell in cells)
