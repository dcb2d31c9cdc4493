"""The schema of nested records: which parts they have, and what these are taken for."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Self

import numpy as np
import tensorflow as tf

from keras_mmil import ragged
from keras_mmil._support.types import Array, Bools, PathLike
from keras_mmil.records import encoding
from keras_mmil.records.choices import applicable
from keras_mmil.records.fields import Field, scalar_types, tree
from keras_mmil.records.linking import Columns, Links
from keras_mmil.records.noticing import Noticed
from keras_mmil.records.observing import observe
from keras_mmil.records.parts import Parts
from keras_mmil.records.reading import UNSEEN, Reader, wanted
from keras_mmil.records.showing import named
from keras_mmil.records.sources import batches
from keras_mmil.records.streaming import streamed
from keras_mmil.records.targets import Target, TargetPaths, warn_of_missing

__all__ = ["Schema"]


class Schema(Parts):
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

    Constants, identifiers and what was never there are left out. What is null, absent, NaN or
    infinite is missing, which is a state and no error. Texts of which nearly all are numbers,
    booleans or times are such, and the others are missing. Where values of several types were seen
    at one place, each of them is a part of its own: `volume<number>`, `volume<text>`.

    Every decision is in the table that `print(schema)` shows, and can be changed.

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
        super().__init__()
        self._links: Links | None = None

    @classmethod
    def infer(
        cls, source: Any, choices: Mapping[str, str] | None = None, links: Links | None = None
    ) -> Self:
        """The schema of some records.

        Args:
            source: a list or another iterable of dicts, dataclasses, named tuples or NumPy records;
                the path of a .json, .jsonl, .ndjson or .parquet file, which are read as streams, or
                of a .csv or .tsv file (all but .parquet also .gz and .zst), or of a folder of such,
                a pattern, or a list of paths; `Files`, which also say how they are to be read; a
                dict of columns; a DataFrame of pandas or Polars; a structured array; or an Arrow
                Table, or whatever has Arrow's interface.
            choices: kinds by path, such as the `choices` of another schema; those of parts that the
                records have are made.
            links: of the tables that `source` was made of, the `links` of another schema.

        Raises:
            TypeError: if `source`, or a value in it, is no part of records; with its path.
            FileNotFoundError: if there is no such file.
            ValueError: if there are no records, a file is damaged, a record is larger than it may
                be, or a choice is impossible.

        Warns:
            UserWarning: of empty lines in a file, which are left out; and of what was found out on
                how a file is to be read.
        """
        schema = cls()
        schema._links = links
        schema._inferred(source)
        schema._take(schema._observed, applicable(schema._observed, choices or {}))
        return schema

    @property
    def links(self) -> Links | None:
        """How the tables are linked that it reads; None where it is of no tables."""
        return self._links

    @classmethod
    def infer_tables(
        cls,
        tables: Mapping[str, Any],
        top: str,
        keys: Iterable[tuple[Columns, Columns]],
        orphans: str = "raise",
    ) -> Self:
        """The schema of linked tables, which takes such tables wherever it takes records.

        Args:
            tables, top, keys, orphans: as of `keras_mmil.records.link`.

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
        schema = cls()
        schema._links = Links.of(top, keys, orphans)
        return schema._inferred(tables)

    def update(self, source: Any) -> None:
        """Take further records into account, as if they had been there from the start.

        Args:
            source: as of `infer`.

        Raises:
            TypeError, ValueError: as `infer`; the schema is then as it was.
        """
        observed = self._observed
        for batch in batches(self._linked(source), types=scalar_types(self.root.parts)):
            observed = observed.merged(observe(batch.records))
        self._take(observed, self._choices)

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
        merged._take(one._observed.merged(other._observed), one._choices | other._choices)
        return merged

    def __repr__(self) -> str:
        return f"<Schema of {self.n_records} records with {len(self)} parts>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Schema):
            return NotImplemented
        mine, others = ((each._observed, each._choices, each._links) for each in (self, other))
        return mine == others

    __hash__ = None  # type: ignore[assignment] # it changes; typeshed: python/mypy#4266

    def read(
        self,
        source: Any,
        target: TargetPaths | None = None,
        without: TargetPaths = (),
        unseen: str = "missing",
    ) -> Any:
        """Records as tensors, one for each part that is not left out.

        Args:
            source: as of `infer`; also linked tables, if the schema is of such.
            target: path of what is to be predicted: of a number, a boolean, a category or a bag of
                categories, that is in no bag; or several paths, of booleans or of numbers.
            without: path of what is not to be read, or several: of the target, where it is to be
                predicted.
            unseen: what becomes of values of a type that the schema has not seen at their place,
                such as a text where numbers were, or a list where records were: "missing", with a
                warning that counts them; or "error".

        Returns:
            x, or with a target `(x, y)`.
            - x: dict from paths to tensors which all lead with the records: [records], or ragged
              [records, (n₁), …] for what is in bags. Dtypes are in the table above; what is missing
              is NaN, the text "\\0", or -2⁶³ in categories of integers. A bag of which no part is
              read has ones, for its size. Parts that the records have and the schema has not are
              left out.
            - y: array [records], float32 of numbers, else int64: positions in `classes(target)`. Of
              several paths, or of a bag, [records, columns]: numbers, or 1 for each label that a
              record has, in the order of `classes(target)`, else 0.

        Raises:
            KeyError: if there is no such part.
            ValueError: with `unseen="error"`, if there is such a value; it names the path and the
                number of the record.

        Warns:
            UserWarning: of how many values are read as missing, as they are of a type that the
                schema has not seen there, or no such values as it has; and of parts that are in
                none of the records, where that is hardly by chance.
        """
        expected = self._target(target)
        x = self._tensors(source, self._wanted(without), unseen=unseen, target=expected)
        return x if expected is None else expected.split(x)

    def read_labelled(self, source: Any, target: TargetPaths) -> tuple[Any, Array, Bools]:
        """As `read` with a target, of those records alone that have one, and numbers in float64.

        Returns:
            x and y, as `read`, but for y of numbers, float64; and which of the records have a
            label, or all of several, [records].

        Raises:
            KeyError, ValueError: as `read`.

        Warns:
            UserWarning: as `read`; and of how many records have no label.
        """
        expected = Target.of(target, self.__getitem__)
        exact = [part.path for part in expected.parts]
        x = self._tensors(source, self._wanted(()), exact, target=expected)
        are_there = expected.are_there(x)
        if not are_there.all():
            x = ragged.take(x, np.flatnonzero(are_there))
            warn_of_missing(are_there, repr(target))
        return (*expected.split(x), are_there)

    def read_in_turn(
        self, sources: Iterable[Any], without: TargetPaths = (), unseen: str = "missing"
    ) -> Iterator[Any]:
        """As `read`, the tensors of each of several sources, with one warning for all at the end.

        Args:
            sources: parts of records that are too many to be read at once, each as of `read`.
            without, unseen: as of `read`.

        Raises:
            KeyError, ValueError: as `read`.

        Warns:
            UserWarning: as `read`.
        """
        root, noticed = self._wanted(without), Noticed()
        for source in sources:
            yield self._read_from(source, Reader(root, unseen=_checked(unseen), noticed=noticed))
        noticed.warn()

    def _tensors(
        self,
        source: Any,
        root: Field,
        exact: Collection[str] = (),
        unseen: str = "missing",
        target: Target | None = None,
    ) -> Any:
        """Records as tensors: see `read`.

        Args:
            source, unseen: as of `read`.
            root: the records at the top, without what is not to be read.
            exact: paths of numbers that are read as float64.
            target: what is to be predicted, which may be missing in all records.
        """
        noticed = Noticed(() if target is None else [part.path for part in target.parts])
        x = self._read_from(source, Reader(root, exact, _checked(unseen), noticed))
        noticed.warn(stacklevel=4)
        return x

    def _read_from(self, source: Any, reader: Reader) -> Any:
        types = scalar_types(self.root.parts)
        for batch in batches(self._linked(source), wanted(reader.root.parts), types):
            reader.add(batch)
        return reader.result()

    def classes(self, target: TargetPaths) -> tuple[Any, ...]:
        """What the labels of a target stand for.

        Args:
            target: as of `read`.

        Returns:
            The values of a category or boolean, in order; of several paths, these; and the
            categories in a bag. Nothing for numbers.

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
        """What `read` gives, in batches that are streamed from the source.

        Args:
            source: as of `read`; not an iterator, which can be read only once.
            batch_size: records in a batch; the last one may have fewer.
            shuffle: so many records are held and mixed, anew in each epoch; 0 leaves them in order.
            seed: of the shuffling.
            target, without, unseen: as of `read`.

        Returns:
            Dataset of x, or of `(x, y)`. Errors of `read` are `tf.errors.InvalidArgumentError`
            here, with the same message. Its warnings come at the end of each epoch.

        Raises:
            KeyError, TypeError, ValueError: if `source` or `target` are not of these, or
                `batch_size` or `shuffle` is out of range.
        """
        if isinstance(source, Iterator):
            raise TypeError(
                f"Expected a source that can be read again. Received: a {type(source).__name__}"
            )
        linked, root = self._linked(source), self._wanted(without)
        columns, types = wanted(root.parts), scalar_types(self.root.parts)
        return streamed(
            root,
            lambda: batches(linked, columns, types),
            batch_size=batch_size,
            shuffle=shuffle,
            seed=seed,
            target=self._target(target),
            unseen=_checked(unseen),
        )

    def columns(self, without: TargetPaths = ()) -> list[str]:
        """The names of the fields at the top of records that `read` reads.

        Args:
            without: as of `read`.
        """
        return list(wanted(self._wanted(without).parts))

    def save(self, path: PathLike) -> None:
        """Write the schema to a file of JSON, which is replaced as a whole."""
        encoding.write(path, self._observed, self._choices, self._links)

    @classmethod
    def load(cls, path: PathLike) -> Self:
        """Read a schema that was saved.

        Raises:
            ValueError: if the file is no schema, or not a whole one; it says where.
        """
        schema = cls()
        observed, choices, schema._links = encoding.read(path)
        try:
            schema._take(observed, choices)
        except ValueError as error:
            raise ValueError(f"Expected a schema in {path}. Received: {error}") from error
        return schema

    def _inferred(self, source: Any) -> Self:
        self.update(source)
        if not self.n_records:
            raise ValueError(f"Expected at least one record. Received: none in {named(source)}")
        return self

    def _target(self, paths: TargetPaths | None) -> Target | None:
        return None if paths is None else Target.of(paths, self.__getitem__)

    def _wanted(self, without: TargetPaths) -> Field:
        """The records at the top, without some parts."""
        paths = [without] if isinstance(without, str) else without
        dropped = dict.fromkeys((self[path].chosen_at for path in paths), "dropped")
        return tree(self._observed, self._choices | dropped) if dropped else self.root

    def _linked(self, source: Any) -> Any:
        """A source of records: of the tables, if it is of linked ones."""
        if self._links is None or not isinstance(source, Mapping):
            return source
        return self._links.link(source, self.root)


def _checked(unseen: str) -> str:
    if unseen not in UNSEEN:
        raise ValueError(f"Expected {' or '.join(map(repr, UNSEEN))}. Received: unseen={unseen!r}")
    return unseen
