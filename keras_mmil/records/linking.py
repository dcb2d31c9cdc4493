"""Linked tables as nested records."""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Self, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keras_mmil._support.types import Bools, Ints
from keras_mmil.records import arrow
from keras_mmil.records.exact import comparable
from keras_mmil.records.fields import Field, scalar_types, walk
from keras_mmil.records.sources import whole

__all__ = ["Columns", "Links", "columns_in", "columns_of_table", "link"]

# A column, such as "orders.customer", or several that are a key together.
Columns: TypeAlias = str | Sequence[str]

_N_SHOWN = 3


def link(
    tables: Mapping[str, Any],
    top: str,
    keys: Iterable[tuple[Columns, Columns]],
    orphans: str = "raise",
) -> pa.StructArray:
    """Linked tables as nested records: one for each row of the table at the top.

    Rows that refer to a row are a bag in it: the orders of a customer. A row that others refer to
    is a record in each of them: the product of an order. Both are named after their table, such as
    `orders`, or `messages_by_sender` where several keys lead from one table to the other, or a
    column has the name. Key columns stay, and are identifiers to `Schema.infer`.

    Keys are compared exactly: integers of any width, decimals, texts, times or booleans. Floats
    are, as long as they tell numbers apart; texts such as "12" refer to integers where all of the
    column are such, and texts such as "Encounter/p1" to "p1" where all begin so, with a warning.

    Args:
        tables: dict from names to tables: DataFrames, Arrow Tables, lists of dicts, dicts of
            columns, or paths of Parquet, JSON or CSV files; whatever `Schema.infer` takes.
        top: name of the table whose rows are the records.
        keys: pairs of a column that refers and the column that it refers to:
            `("orders.customer", "customers.id")`. Values of the latter are distinct; null refers
            to nothing. Where it takes several columns, they are tuples of as many:
            `(("items.shop", "items.number"), ("orders.shop", "orders.number"))`. A column in a
            record is named with that: `observations.encounter.reference`.
        orphans: what to do with rows that refer to no row: "raise", or "drop", which warns of how
            many there are. In bags, also null is an orphan; elsewhere it is a missing record.

    Returns:
        StructArray, which `Schema.infer` and `Schema.read` take.

    Raises:
        KeyError: if there is no such table or column.
        TypeError: if a key and what it refers to are of different types.
        ValueError: if rows are orphans, a value that is referred to comes twice, a float may stand
            for several numbers, the keys make a cycle, or a table is not reached from the top; it
            names the tables.

    Warns:
        UserWarning: of orphans that are left out, texts that refer to integers or begin with a
            common prefix, and tables that are named otherwise as a column has their name.

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
    keys: tuple[tuple[Columns, Columns], ...]
    orphans: str = "raise"

    def __post_init__(self) -> None:
        if self.orphans not in ("raise", "drop"):
            raise ValueError(f"Expected 'raise' or 'drop'. Received: orphans={self.orphans!r}")

    @classmethod
    def of(cls, top: str, keys: Iterable[Any], orphans: str) -> Self:
        """Links by pairs of columns, or of several columns each, in any collection.

        Raises:
            ValueError: if they are no such pairs.
        """
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
    """Columns of the table `child` that refer to as many of `parent`.

    Attributes:
        columns, ids: of each column its name, behind those of the records that it is in.
    """

    child: str
    columns: tuple[tuple[str, ...], ...]
    parent: str
    ids: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        return f"{_listed(self.child, self.columns)} -> {_listed(self.parent, self.ids)}"

    @property
    def suffix(self) -> str:
        """What tells parts apart that several keys lead to."""
        return "_by_" + "_".join(name for names in self.columns for name in names)


def _listed(table: str, columns: Iterable[Sequence[str]]) -> str:
    return ", ".join(".".join([table, *names]) for names in columns)


@dataclass
class _Nest:
    tables: dict[str, dict[str, pa.Array]]
    keys: list[_Key]
    orphans: str

    def of(self, top: str) -> pa.StructArray:
        self.direct = self._reached_directly(top)
        reached: set[str] = set()
        records = self._records(top, None, (top,), reached)
        if left := [name for name in self.tables if name not in reached]:
            raise ValueError(
                f"Expected keys that lead from {top!r} to each table. "
                f"Received: none to {', '.join(left)}"
            )
        return records

    def _reached_directly(self, top: str) -> set[str]:
        """The tables that are reached without going on from a shared row to what refers to it."""
        below, waiting = {top}, [top]
        while waiting:
            name = waiting.pop()
            children = {key.child for key in self.keys if key.parent == name} - below
            below |= children
            waiting.extend(children)
        found, waiting = set(below), [*below]
        while waiting:
            name = waiting.pop()
            parents = {key.parent for key in self.keys if key.child == name} - found
            found |= parents
            waiting.extend(parents)
        return found

    def _records(
        self, name: str, via: _Key | None, route: tuple[str, ...], reached: set[str]
    ) -> pa.StructArray:
        """All rows of a table, with what is linked to them."""
        reached.add(name)
        fields: list[pa.Field] = []
        columns: dict[str, pa.Array] = {}
        for column, array in self.tables[name].items():
            field = _marked(pa.field(column, array.type), self._roles(name), (column,))
            columns[column] = array.cast(field.type)
            fields.append(field)
        for key, there in self._steps(name, via, route):
            if there in route:
                raise ValueError(
                    "Expected keys without a cycle. "
                    f"Received: {' - '.join((*route, there))}, by {key}"
                )
            inner = self._records(there, key, (*route, there), reached)
            part = self._one(key, inner) if there == key.parent else self._many(key, inner)
            part_name = self._name(there, key, name, columns)
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
            # From a row that others share, no key leads to what has a nearer place.
            elif key.parent == name and (
                via is None or via.parent != name or key.child not in self.direct
            ):
                yield key, key.child

    def _roles(self, table: str) -> dict[tuple[str, ...], str]:
        """What columns are that are keys."""
        of = {names: f"of {table}" for key in self.keys if key.parent == table for names in key.ids}
        to = {
            names: f"to {_listed(key.parent, [id_])}"
            for key in reversed(self.keys)
            if key.child == table
            for names, id_ in zip(key.columns, key.ids, strict=True)
        }
        return of | to

    def _name(self, table: str, key: _Key, around: str, columns: Mapping[str, pa.Array]) -> str:
        """The name of the part of a table in the rows of another, which has some columns."""
        alike = [each for each in self.keys if (each.child, each.parent) == (key.child, key.parent)]
        name = table if len(alike) == 1 else table + key.suffix
        if name not in columns:
            return name
        other = table + key.suffix
        if other in columns:
            raise ValueError(
                "Expected tables that are not named as columns beside them. "
                f"Received: {name!r} in {around!r}"
            )
        warnings.warn(
            f"The rows of {table!r} are {other!r} in {around!r}, which has a column {name!r}.",
            stacklevel=2,
        )
        return other

    def _one(self, key: _Key, parents: pa.StructArray) -> pa.StructArray:
        """For each row of the child its row of the parent."""
        at, refers = self._places(key)
        self._check_orphans(key, (at < 0) & refers)
        return parents.take(pa.array(at, mask=at < 0))

    def _many(self, key: _Key, children: pa.StructArray) -> pa.LargeListArray:
        """For each row of the parent its rows of the child."""
        at, _ = self._places(key)
        self._check_orphans(key, at < 0)
        child = np.flatnonzero(at >= 0)
        order = child[np.argsort(at[child], kind="stable")]
        n = len(next(iter(self.tables[key.parent].values())))
        offsets = np.concatenate([[0], np.bincount(at[child], minlength=n).cumsum()])
        members = children.take(pa.array(order))
        return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), members)

    def _places(self, key: _Key) -> tuple[Ints, Bools]:
        """The row of the parent for each row of the child, -1 for none; whether it names one."""
        referring, ids = (
            [_at(self.tables[table], names) for names in columns]
            for table, columns in ((key.child, key.columns), (key.parent, key.ids))
        )
        references: Ints = np.zeros(len(referring[0]), np.int64)
        referred: Ints = np.zeros(len(ids[0]), np.int64)
        refers = np.ones(len(references), bool)
        for column, id_, one, two in zip(referring, ids, key.columns, key.ids, strict=True):
            where = f"{_listed(key.child, [one])} -> {_listed(key.parent, [two])}"
            values, known = comparable(column, id_, where)
            refers &= arrow.as_numpy(values.is_valid())
            references, referred = _numbered(references, referred, values, known)
        rows = np.flatnonzero(referred >= 0)
        _, first, n = np.unique(referred[rows], return_index=True, return_counts=True)
        if (n > 1).any():
            twice = [array.take(pa.array(rows[first[n > 1]])) for array in ids]
            raise ValueError(
                f"Expected different values in {_listed(key.parent, key.ids)}. "
                f"Received: {_shown(twice)} more than once"
            )
        row_of = np.full(max(referred.max(initial=-1), 0) + 1, -1)
        row_of[referred[rows]] = rows
        return np.where(references < 0, -1, row_of[references]), refers

    def _check_orphans(self, key: _Key, is_orphan: Bools) -> None:
        if not is_orphan.any():
            return
        at = pa.array(is_orphan)
        orphans = [_at(self.tables[key.child], names).filter(at) for names in key.columns]
        ids = [_at(self.tables[key.parent], names) for names in key.ids]
        by = ", ".join(repr(".".join(names)) for names in key.columns)
        message = (
            f"{is_orphan.sum()} of {len(is_orphan)} rows of {key.child!r} refer to no row of "
            f"{key.parent!r}, by {by}: {_shown(orphans)}"
        )
        if is_orphan.all() and len(ids[0]):
            message += f" ({_listed(key.parent, key.ids)} has {_shown(ids)})"
        if self.orphans == "raise":
            raise ValueError(
                f"Expected references that lead to rows (or orphans='drop'). Received: {message}"
            )
        warnings.warn(f"{message}; they are left out", stacklevel=2)


def _marked(
    field: pa.Field, roles: Mapping[tuple[str, ...], str], names: tuple[str, ...]
) -> pa.Field:
    """A field that says of what is in it what are keys."""
    if names in roles:
        return field.with_metadata({arrow.KEY: roles[names].encode()})
    if not pa.types.is_struct(field.type) or not any(role[: len(names)] == names for role in roles):
        return field
    return field.with_type(
        pa.struct([_marked(each, roles, (*names, each.name)) for each in field.type])
    )


def _pair(key: Any) -> tuple[Columns, Columns]:
    sides = key if isinstance(key, Sequence) and not isinstance(key, str) else ()
    found = [(x,) if isinstance(x, str) else tuple(x) for x in sides if isinstance(x, Sequence)]
    if (
        not len(sides) == len(found) == 2
        or not 0 < len(found[0]) == len(found[1])
        or not all(isinstance(x, str) for side in found for x in side)
    ):
        raise ValueError(
            "Expected pairs of columns, such as ('orders.customer', 'customers.id'), or of tuples "
            f"of as many columns. Received: {key!r}"
        )
    one, two = (side[0] if len(side) == 1 else side for side in found)
    return one, two


def columns_in(columns: Columns) -> tuple[str, ...]:
    """The columns of one side of a key."""
    return (columns,) if isinstance(columns, str) else tuple(columns)


def _key(pair: tuple[Columns, Columns], tables: Mapping[str, Mapping[str, pa.Array]]) -> _Key:
    sides = []
    for columns in pair:
        found = [_split(path, tables) for path in columns_in(columns)]
        if len({table for table, _ in found}) > 1:
            raise ValueError(
                f"Expected columns of one table on each side of a key. Received: {columns!r}"
            )
        sides.append((found[0][0], tuple(names for _, names in found)))
    (child, refers), (parent, ids) = sides
    return _Key(child, refers, parent, ids)


def _split(path: str, tables: Mapping[str, Mapping[str, pa.Array]]) -> tuple[str, tuple[str, ...]]:
    """A table and the names that lead to a column of it; all may have dots."""
    for i, character in enumerate(path):
        if character == "." and path[:i] in tables:
            columns = tables[path[:i]]
            types = {name: array.type for name, array in columns.items()}
            if names := _names(path[i + 1 :], types):
                return path[:i], names
    raise KeyError(
        f"Expected one of the tables {sorted(tables)} and a column of it, such as "
        f"'orders.customer'. Received: {path!r}"
    )


def _names(path: str, types: Mapping[str, pa.DataType]) -> tuple[str, ...]:
    """The names that lead to a column, from outside in; none if there is no such column."""
    if path in types:
        return (path,)
    for i, character in enumerate(path):
        inner = types.get(path[:i])
        if character != "." or inner is None or not pa.types.is_struct(inner):
            continue
        if names := _names(path[i + 1 :], {field.name: field.type for field in inner}):
            return (path[:i], *names)
    return ()


def _at(table: Mapping[str, pa.Array], names: Sequence[str]) -> pa.Array:
    """A column of a table, or a field in a column of records."""
    array = table[names[0]]
    return pc.struct_field(array, list(names[1:])) if len(names) > 1 else array


def _numbered(
    references: Ints, referred: Ints, values: pa.Array, known: pa.Array
) -> tuple[Ints, Ints]:
    """Numbers of the values of several columns together, of which one is added; -1 for none."""
    different = pc.unique(known.drop_null())
    places = [
        arrow.as_numpy(pc.index_in(x, value_set=different, skip_nulls=True).fill_null(-1))
        for x in (values, known)
    ]
    together = [
        np.where((before < 0) | (place < 0), -1, before * (len(different) + 1) + place)
        for before, place in zip((references, referred), places, strict=True)
    ]
    _, numbers = np.unique(np.concatenate([[-1], *together]), return_inverse=True)  # from 0 again
    numbers = numbers[1:] - 1
    return numbers[: len(references)], numbers[len(references) :]


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


def _shown(columns: Sequence[pa.Array]) -> str:
    """Some of the values of a column, or the tuples of several."""
    rows = [array[:_N_SHOWN].to_pylist() for array in columns]
    values = rows[0] if len(rows) == 1 else [*zip(*rows, strict=True)]
    shown = ", ".join(str(x) if isinstance(x, Decimal) else repr(x) for x in values)
    return shown + (" ..." if len(columns[0]) > _N_SHOWN else "")
