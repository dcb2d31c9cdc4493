"""The schema of nested records: which parts they have, and what these are taken for."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Self

import tensorflow as tf

from keras_mmil._support.types import PathLike
from keras_mmil.records import encoding, kinds
from keras_mmil.records.fields import Field, tree, walk
from keras_mmil.records.observing import observe
from keras_mmil.records.paths import alternative, item
from keras_mmil.records.reading import Reader
from keras_mmil.records.sources import batches
from keras_mmil.records.statistics import MAX_FIELDS, TYPES, Observed, Records, Values

__all__ = ["Schema"]

_COLUMNS = ("path", "kind", "why", "missing", "distinct", "examples")
_WIDEST = 60  # characters of a column


class Schema:
    """The parts of nested records, inferred from examples.

    Each part has a path, such as `orders.items.price`, and a kind:

    | kind | values | read as |
    | --- | --- | --- |
    | number | numbers | float32 |
    | boolean | true and false, or only 0 and 1 | float32, 0 or 1 |
    | category | one of some texts or integers | string, or int64 |
    | text | strings of words | string |
    | time | dates and times, also as texts of ISO 8601 | float64, seconds since 1970 (UTC) |
    | record | parts with names | its parts |
    | bag | members: values, records or bags; also a dict whose keys are data | its members |

    Constants, identifiers and what was never there are left out. What is null, absent, NaN or
    infinite is missing, which is a state and no error. Where values of several types were seen at
    one place, each of them is a part of its own: `volume<number>`, `volume<text>`.

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
        self._observed = Observed()
        self._choices: dict[str, str] = {}

    @classmethod
    def infer(cls, source: Any) -> Self:
        """The schema of some records.

        Args:
            source: a list of dicts; a path of a .json, .jsonl, .ndjson (each also .gz) or .parquet
                file, or of a folder of Parquet files, which are read as streams; a pandas
                DataFrame; or an Arrow Table.

        Raises:
            TypeError: if `source`, or a value in it, is no part of records; with its path.
            ValueError: if there are no records, or a file is damaged.
        """
        schema = cls()
        schema.update(source)
        if not schema.n_records:
            raise ValueError(f"Expected at least one record. Received: none in {_shown(source)}")
        return schema

    def update(self, source: Any) -> None:
        """Take further records into account, as if they had been there from the start.

        Args:
            source: as of `infer`.

        Raises:
            TypeError, ValueError: as `infer`; the schema is then as it was.
        """
        observed = self._observed
        for batch in batches(source):
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
        merged = Schema()
        merged._take(one._observed.merged(other._observed), one._choices | other._choices)
        return merged

    @property
    def n_records(self) -> int:
        """Number of records that were seen."""
        return self._observed.n_present

    @cached_property
    def root(self) -> Field:
        """The records at the top, with all their parts."""
        return tree(self._observed, self._choices)

    @cached_property
    def _by_path(self) -> dict[str, Field]:
        return _by_path(self.root)

    def __iter__(self) -> Iterator[Field]:
        return iter(self._by_path.values())

    def __len__(self) -> int:
        return len(self._by_path)

    def __contains__(self, path: str) -> bool:
        return path in self._by_path

    def __getitem__(self, path: str) -> Field:
        """The part with a path.

        Raises:
            KeyError: if there is none.
        """
        try:
            return self._by_path[path]
        except KeyError:
            raise KeyError(
                f"Expected a path of the schema, such as {', '.join(list(self._by_path)[:5])}. "
                f"Received: {path!r}"
            ) from None

    def __setitem__(self, path: str, kind: str) -> None:
        """Choose the kind of a part; of a bag of values, that of its values.

        Raises:
            KeyError: if there is no such path.
            ValueError: if what was seen there cannot be of that kind.
        """
        field = self[path]
        if field.kind == "bag" and kind in kinds.SCALARS and item(path) in self:
            path = item(path)
        self._take(self._observed, self._choices | {path: kind})

    def __delitem__(self, path: str) -> None:
        """Take back what was chosen for a part, which is then what the schema takes it for.

        Raises:
            KeyError: if nothing was chosen.
        """
        if path not in self._choices:
            raise KeyError(
                f"Expected a path for which a kind was chosen: {', '.join(self._choices)}. "
                f"Received: {path!r}"
            )
        self._take(self._observed, {k: v for k, v in self._choices.items() if k != path})

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
        self._take(self._observed, self._choices | {path: "dropped"})

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

    def __repr__(self) -> str:
        return f"<Schema of {self.n_records} records with {len(self)} parts>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Schema):
            return NotImplemented
        return (self._observed, self._choices) == (other._observed, other._choices)

    __hash__ = None  # type: ignore[assignment] # it changes; typeshed: python/mypy#4266

    def read(self, source: Any) -> dict[str, tf.Tensor | tf.RaggedTensor]:
        """Records as tensors, one for each part that is not left out.

        Args:
            source: as of `infer`.

        Returns:
            Dict from paths to tensors which all lead with the records: [records], or ragged
            [records, (n₁), …] for what is in bags. Dtypes are in the table above; what is missing
            is NaN, the text "\\0", or -2⁶³ in categories of integers. Parts that the records have
            and the schema has not are left out.

        Raises:
            ValueError: if a record is of another structure, such as a text where the schema has a
                bag; it names the path and the number of the record.

        Warns:
            UserWarning: if values are of other types than the schema's; they are read as missing.
        """
        reader = Reader(self.root)
        columns = [field.name for field in self.root.parts if not field.is_left_out]
        for batch in batches(source, columns):
            reader.add(batch)
        return reader.result()

    def save(self, path: PathLike) -> None:
        """Write the schema to a file of JSON, which is replaced as a whole."""
        encoding.write(path, self._observed, self._choices)

    @classmethod
    def load(cls, path: PathLike) -> Self:
        """Read a schema that was saved.

        Raises:
            ValueError: if the file is no schema, or not a whole one; it says where.
        """
        schema, saved = cls(), encoding.read(path)
        try:
            schema._take(*saved)
        except ValueError as error:
            raise ValueError(f"Expected a schema in {path}. Received: {error}") from error
        return schema

    def _take(self, observed: Observed, choices: Mapping[str, str]) -> None:
        """Have these statistics and choices, if they go together."""
        _check(observed, choices)
        self._observed, self._choices = observed, dict(choices)
        self.__dict__.pop("root", None)
        self.__dict__.pop("_by_path", None)


def _by_path(root: Field, also_left_out: bool = False) -> dict[str, Field]:
    parts: dict[str, Field] = {}
    for field in walk(root, also_left_out):
        parts.setdefault(field.path, field)  # records in a bag have the bag's path
    del parts[""]
    return parts


def _check(observed: Observed, choices: Mapping[str, str]) -> None:
    """Raise ValueError where records cannot be read, or cannot be of the kinds that were chosen."""
    top = observed.by_type.get("record")
    if isinstance(top, Records) and top.by_key is not None:
        raise ValueError(
            f"Expected at most {MAX_FIELDS} fields of the records at the top. Received: more"
        )
    if not choices:
        return
    parts = _by_path(tree(observed, choices), also_left_out=True)
    for path, kind in choices.items():
        types = [type_ for type_ in TYPES if alternative(path, type_) in parts]
        if types and kind == "dropped":
            continue
        if path not in parts:
            found = f"{' and '.join(types)} values" if types else "nothing"
            raise ValueError(f"Expected {kind} at {path!r}, as was chosen. Received: {found} there")
        allowed = _allowed(parts[path])
        if kind not in allowed:
            raise ValueError(
                f"Expected a kind that {path!r} can be of: {', '.join(allowed)}. Received: {kind!r}"
            )


def _allowed(field: Field) -> tuple[str, ...]:
    """The kinds that may be chosen for a part."""
    if isinstance(field.seen, Values):
        return (*kinds.possible(field.type, field.seen), "dropped")
    if isinstance(field.seen, Records):
        return ("bag", *(["record"] if field.seen.by_key is None else []), "dropped")
    return ("bag", "dropped") if field.type == "bag" else ("dropped",)


def _row(field: Field) -> tuple[str, ...]:
    distinct = ""
    if isinstance(field.seen, Values):
        distinct = "many" if field.n_distinct is None else str(field.n_distinct)
    missing = f"{field.share_missing:.0%}".replace("%", " %")
    cells = field.path, field.kind, field.why, missing, distinct, field.examples
    return tuple(cell if len(cell) <= _WIDEST else f"{cell[: _WIDEST - 1]}…" for cell in cells)


def _shown(source: object) -> str:
    return repr(source) if isinstance(source, str) else f"a {type(source).__name__}"
