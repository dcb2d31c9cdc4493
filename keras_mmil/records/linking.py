"""Linked tables as nested records."""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keras_mmil._support.types import Array
from keras_mmil.records import arrow
from keras_mmil.records.fields import Field, scalar_types, walk
from keras_mmil.records.sources import whole

__all__ = ["Links", "columns_of_table", "link"]

_N_SHOWN = 3


def link(
    tables: Mapping[str, Any],
    top: str,
    keys: Iterable[tuple[str, str]],
    orphans: str = "raise",
) -> pa.StructArray:
    """Linked tables as nested records: one for each row of the table at the top.

    Rows that refer to a row are a bag in it: the orders of a customer. A row that others refer to
    is a record in each of them: the product of an order. Both are named after their table, such as
    `orders`, or `messages_by_sender` where several keys lead from one table to the other. Key
    columns stay, and are identifiers to `Schema.infer`.

    Args:
        tables: dict from names to tables: DataFrames, Arrow Tables, lists of dicts, dicts of
            columns, or paths of Parquet, JSON or CSV files; whatever `Schema.infer` takes.
        top: name of the table whose rows are the records.
        keys: pairs of a column that refers and the column that it refers to:
            `("orders.customer", "customers.id")`. Values of the latter are distinct; null refers
            to nothing.
        orphans: what to do with rows that refer to no row: "raise", or "drop", which warns of how
            many there are. In bags, also null is an orphan; elsewhere it is a missing record.

    Returns:
        StructArray, which `Schema.infer` and `Schema.read` take.

    Raises:
        KeyError: if there is no such table or column.
        TypeError: if a key and what it refers to are of different types.
        ValueError: if rows are orphans, a value that is referred to comes twice, the keys make a
            cycle, or a table is not reached from the top; it names the tables.

    Example:

    >>> customers = [{"id": 1, "city": "Rome"}, {"id": 2, "city": "Oslo"}]
    >>> orders = [{"customer": 2, "price": 9.5}, {"customer": 2, "price": 3.0}]
    >>> tables = {"customers": customers, "orders": orders}
    >>> link(tables, "customers", [("orders.customer", "customers.id")])[1]["orders"][0]["price"]
    <pyarrow.DoubleScalar: 9.5>
    """
    return Links.of(top, keys, orphans).link(tables)


@dataclass(frozen=True)
class Links:
    """How tables are linked: see `link`."""

    top: str
    keys: tuple[tuple[str, str], ...]
    orphans: str = "raise"

    def __post_init__(self) -> None:
        if self.orphans not in ("raise", "drop"):
            raise ValueError(f"Expected 'raise' or 'drop'. Received: orphans={self.orphans!r}")

    @classmethod
    def of(cls, top: str, keys: Iterable[tuple[str, str]], orphans: str) -> Self:
        """Links by pairs of columns, in any collection."""
        return cls(top, tuple(_pair(key) for key in keys), orphans)

    def link(self, tables: Mapping[str, Any], root: Field | None = None) -> pa.StructArray:
        """Tables that are so linked, as nested records.

        Args:
            tables: as of `link`.
            root: the records of a schema of such tables, for the types of columns of CSV.
        """
        columns = {
            name: columns_of_table(
                name, table, None if root is None else _types_in(root, name, name == self.top)
            )
            for name, table in tables.items()
        }
        if self.top not in columns:
            raise KeyError(
                f"Expected a table at the top, one of {', '.join(columns)}. Received: {self.top!r}"
            )
        return _Nest(columns, [_key(pair, columns) for pair in self.keys], self.orphans).of(
            self.top
        )


@dataclass(frozen=True)
class _Key:
    """A column of the table `child` that refers to a column of `parent`."""

    child: str
    column: str
    parent: str
    id: str

    def __str__(self) -> str:
        return f"{self.child}.{self.column} -> {self.parent}.{self.id}"


@dataclass
class _Nest:
    tables: dict[str, dict[str, pa.Array]]
    keys: list[_Key]
    orphans: str

    def of(self, top: str) -> pa.StructArray:
        reached: set[str] = set()
        records = self._records(top, None, (top,), reached)
        if left := [name for name in self.tables if name not in reached]:
            raise ValueError(
                f"Expected keys that lead from {top!r} to each table. "
                f"Received: none to {', '.join(left)}"
            )
        return records

    def _records(
        self, name: str, via: _Key | None, route: tuple[str, ...], reached: set[str]
    ) -> pa.StructArray:
        """All rows of a table, with what is linked to them."""
        reached.add(name)
        columns = dict(self.tables[name])
        fields = [pa.field(c, x.type, metadata=self._role(name, c)) for c, x in columns.items()]
        for key, there in self._steps(name, via, route):
            if there in route:
                raise ValueError(
                    "Expected keys without a cycle. "
                    f"Received: {' - '.join((*route, there))}, by {key}"
                )
            inner = self._records(there, key, (*route, there), reached)
            part = self._one(key, inner) if there == key.parent else self._many(key, inner)
            part_name = self._name(there, key)
            if part_name in columns:
                raise ValueError(
                    "Expected tables that are not named as columns beside them. "
                    f"Received: {part_name!r} in {name!r}"
                )
            columns[part_name] = part
            fields.append(pa.field(part_name, part.type))
        return pa.StructArray.from_arrays(list(columns.values()), fields=fields)

    def _steps(
        self, name: str, via: _Key | None, route: tuple[str, ...]
    ) -> Iterator[tuple[_Key, str]]:
        """The keys that lead on from a table, and where."""
        for key in self.keys:
            if key == via:
                continue
            if key.child == name:
                yield key, key.parent
            # From a row that others share, no key leads back to those others.
            elif key.parent == name and (
                via is None or via.parent != name or key.child != route[-2]
            ):
                yield key, key.child

    def _role(self, name: str, column: str) -> dict[bytes, bytes] | None:
        for key in self.keys:
            if (key.child, key.column) == (name, column):
                return {arrow.KEY: f"to {key.parent}.{key.id}".encode()}
        if any((key.parent, key.id) == (name, column) for key in self.keys):
            return {arrow.KEY: f"of {name}".encode()}
        return None

    def _name(self, table: str, key: _Key) -> str:
        alike = [each for each in self.keys if (each.child, each.parent) == (key.child, key.parent)]
        return table if len(alike) == 1 else f"{table}_by_{key.column}"

    def _one(self, key: _Key, parents: pa.StructArray) -> pa.StructArray:
        """For each row of the child its row of the parent."""
        at, refers = self._places(key)
        self._check_orphans(key, ~arrow.as_numpy(at.is_valid()) & refers)
        return parents.take(at)

    def _many(self, key: _Key, children: pa.StructArray) -> pa.LargeListArray:
        """For each row of the parent its rows of the child."""
        at, _ = self._places(key)
        is_child = arrow.as_numpy(at.is_valid())
        self._check_orphans(key, ~is_child)
        parent = at.drop_null().to_numpy()
        order = np.flatnonzero(is_child)[np.argsort(parent, kind="stable")]
        n = len(self.tables[key.parent][key.id])
        offsets = np.concatenate([[0], np.bincount(parent, minlength=n).cumsum()])
        members = children.take(pa.array(order))
        return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), members)

    def _places(self, key: _Key) -> tuple[pa.Array, Array]:
        """The row of the parent for each row of the child, null for none; whether it names one."""
        references, ids = _alike(
            self.tables[key.child][key.column], self.tables[key.parent][key.id], key
        )
        counted = pc.value_counts(ids.drop_null())
        values, n = counted.flatten()
        if len(twice := values.filter(pc.greater(n, 1))):
            raise ValueError(
                f"Expected different values in {key.parent}.{key.id}. "
                f"Received: {_shown(twice)} more than once"
            )
        places = pc.index_in(references, value_set=ids, skip_nulls=True)
        return places, arrow.as_numpy(references.is_valid())

    def _check_orphans(self, key: _Key, is_orphan: Array) -> None:
        if not is_orphan.any():
            return
        orphans = self.tables[key.child][key.column].filter(pa.array(is_orphan))
        message = (
            f"{len(orphans)} of {len(is_orphan)} rows of {key.child!r} refer to no row of "
            f"{key.parent!r}, by {key.column!r}: {_shown(orphans)}"
        )
        if self.orphans == "raise":
            raise ValueError(
                f"Expected references that lead to rows (or orphans='drop'). Received: {message}"
            )
        warnings.warn(f"{message}; they are left out", stacklevel=2)


def _pair(key: Sequence[str]) -> tuple[str, str]:
    if isinstance(key, str) or len(key) != 2:
        raise ValueError(
            "Expected pairs of columns, such as ('orders.customer', 'customers.id'). "
            f"Received: {key!r}"
        )
    return str(key[0]), str(key[1])


def _key(pair: tuple[str, str], tables: Mapping[str, Mapping[str, pa.Array]]) -> _Key:
    (child, column), (parent, id_) = (_split(path, tables) for path in pair)
    return _Key(child, column, parent, id_)


def _split(path: str, tables: Mapping[str, Mapping[str, pa.Array]]) -> tuple[str, str]:
    """A table and a column of it; both may have dots in their names."""
    for i, character in enumerate(path):
        table, column = path[:i], path[i + 1 :]
        if character == "." and column in tables.get(table, {}):
            return table, column
    raise KeyError(
        f"Expected one of the tables {sorted(tables)} and a column of it, such as "
        f"'orders.customer'. Received: {path!r}"
    )


def columns_of_table(
    name: str, source: Any, types: Mapping[str, str] | None = None
) -> dict[str, pa.Array]:
    """The columns of a table.

    Args:
        name: of the table, for errors.
        source: as of `link`.
        types: those of columns, by name, for files that do not say: as of `sources.batches`.
    """
    table = whole(source, types)
    if not pa.types.is_struct(table.type) or not table.type.num_fields:
        raise ValueError(f"Expected a table with columns. Received: none in {name!r}")
    names = [field.name for field in table.type]
    return dict(zip(names, table.flatten(), strict=True))


def _types_in(root: Field, name: str, is_top: bool) -> dict[str, str]:
    """The types of the columns of a table, in the records of linked tables."""
    if is_top:
        return scalar_types(root.parts)
    found: dict[str, str] = {}
    for part in walk(root):
        if part.name == name or part.name.startswith(f"{name}_by_"):
            inner = [part] if part.type == "record" else part.parts
            for each in inner:
                found |= scalar_types(each.parts)
    return found


def _alike(one: pa.Array, two: pa.Array, key: _Key) -> tuple[pa.Array, pa.Array]:
    """A key and what it refers to as arrays of one type."""
    types = {type_ for array in (one, two) for type_ in arrow.alternatives(array, str(key))}
    if len(types) > 1 or not {"number", "text", "time"}.issuperset(types):
        raise TypeError(
            f"Expected keys of one type, numbers, texts or times. Received: {', '.join(types)} in "
            f"{key}"
        )
    values = [_values(array, str(key)) for array in (one, two)]
    kinds = {array.type for array in values if not pa.types.is_null(array.type)}
    common = kinds.pop() if len(kinds) == 1 else pa.float64()
    return values[0].cast(common, safe=False), values[1].cast(common, safe=False)


def _values(array: pa.Array, path: str) -> pa.Array:
    """Values as texts, int64 or, where they are not all integers, float64."""
    found = list(arrow.alternatives(array, path).items())
    if not found:
        return pa.nulls(len(array))
    ((type_, alternative),) = found
    part = arrow.present(alternative, path)
    values = part.values
    if type_ == "text":
        values = values.cast(pa.large_string())
    else:
        x = values.to_numpy()
        values = pa.array(x.astype(np.int64) if (x == np.floor(x)).all() else x)
    return values if part.at is None else arrow.spread(values, part.at, len(array))


def _shown(values: pa.Array) -> str:
    shown = ", ".join(repr(value) for value in values[:_N_SHOWN].to_pylist())
    return shown + (" ..." if len(values) > _N_SHOWN else "")
