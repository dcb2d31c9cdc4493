"""Linked tables as nested records."""

import hashlib
import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa

from keras_mmil._support.checks import check_int, positive_int
from keras_mmil._support.rows import positions_in_bags, row_splits
from keras_mmil._support.types import Bools, Ints
from keras_mmil.records import arrow
from keras_mmil.records.fields import Field, scalar_types, walk
from keras_mmil.records.keys import (
    Columns,
    Key,
    Tables,
    column_at,
    columns_in,
    columns_of_table,
    find,
    key_of,
    listed,
    pair_of,
    places,
    shown,
)

__all__ = ["Links", "link"]

_MOST_ROWS = 2**26  # in all records: some gigabytes
# Of SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
_STEP, _FACTORS = 0x9E3779B97F4A7C15, ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))


def link(
    tables: Mapping[str, Any],
    top: str,
    keys: Iterable[tuple[Columns, Columns]] | None = None,
    orphans: str = "raise",
    hops: int = 0,
    at_most: int | None = None,
    seed: int = 0,
) -> pa.StructArray:
    """Linked tables as nested records: one for each row of the table at the top.

    Rows that refer to a row are a bag in it: the orders of a customer. A row that others refer to
    is a record in each of them: the product of an order. Both are named after their table, such as
    `orders`, or `messages_by_sender` if several keys lead from one table to the other, or a column
    has the name. Key columns stay, and `Schema.infer` takes them for identifiers.

    Keys are compared exactly: integers of any width, decimals, texts, times or booleans; and floats
    if they tell numbers apart. Texts refer to integers if all texts of the column are integers,
    such as "12", and texts such as "Encounter/p1" to "p1" if all have the prefix, with a warning.

    Args:
        tables: dict from names to tables, in any form that `Schema.infer` accepts.
        top: name of the table whose rows are the records.
        keys: pairs of a column that refers and the column that it refers to:
            `("orders.customer", "customers.id")`. Values of the latter are distinct; null refers
            to nothing. A key of several columns is a pair of tuples:
            `(("items.shop", "items.number"), ("orders.shop", "orders.number"))`. The name of a
            column in a record includes the record: `observations.encounter.reference`. None for
            those that `find_keys` finds, with a warning that lists them.
        orphans: what to do with rows that refer to no row: "raise", or "drop" them, with a warning
            that counts them. In bags, null is an orphan, too; elsewhere it is a missing record.
        hops: how many times keys may lead from rows of a table to others of the same table: from a
            user by messages to other users, or from an employee to the manager. Records end before
            they would do so once more, for 0 with a warning. Rows are repeated wherever keys lead
            to them, so that records of many hops are large.
        at_most: most members of a bag: of larger ones, a random sample without replacement, in the
            order of the table. None for all.
        seed: of the samples. A bag has the same one wherever it is: it depends on the seed, the
            names in the key, the value that is referred to, and how many rows refer to it. Other
            rows and tables change nothing, and rows in another order are drawn by their places.

    Returns:
        StructArray, which `Schema.infer` and `Schema.read` take.

    Raises:
        KeyError: if there is no such table or column.
        TypeError: if a key and what it refers to are of different types.
        ValueError: if rows are orphans, a value that is referred to comes twice, a float may stand
            for several numbers, a table is not reached from the top, a number is out of range, or
            records would have over 67,108,864 rows in all; it names them.

    Warns:
        UserWarning: of orphans that are left out, texts that refer to integers or have a common
            prefix, tables that get another name because a column has theirs, keys that `find_keys`
            found, keys that are not followed because they lead back to a table, and bags of which
            a sample is left.

    Example:

    >>> customers = [{"id": 1, "city": "Rome"}, {"id": 2, "city": "Oslo"}]
    >>> orders = [{"customer": 2, "price": 9.5}, {"customer": 2, "price": 3.0}]
    >>> tables = {"customers": customers, "orders": orders}
    >>> link(tables, "customers", [("orders.customer", "customers.id")])[1]["orders"][0]["price"]
    <pyarrow.DoubleScalar: 9.5>
    """
    tables, links = Links.found(tables, top, keys, orphans, hops, at_most, seed)
    return links.link(tables)


@dataclass(frozen=True)
class Links:
    """How tables are linked: see `link`."""

    top: str
    keys: tuple[tuple[str | tuple[str, ...], str | tuple[str, ...]], ...]
    orphans: str = "raise"
    hops: int = 0
    at_most: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.orphans not in ("raise", "drop"):
            raise ValueError(f"Expected 'raise' or 'drop'. Received: orphans={self.orphans!r}")
        check_int("hops", self.hops)
        positive_int("at_most", self.at_most, optional=True)
        check_int("seed", self.seed)

    @classmethod
    def of(
        cls,
        top: str,
        keys: Iterable[Any],
        orphans: str,
        hops: int = 0,
        at_most: int | None = None,
        seed: int = 0,
    ) -> Self:
        """Links from any iterable of pairs; ValueError if they are no pairs of columns."""
        return cls(top, tuple(pair_of(key) for key in keys), orphans, hops, at_most, seed)

    @classmethod
    def found(
        cls,
        tables: Mapping[str, Any],
        top: str,
        keys: Iterable[tuple[Columns, Columns]] | None,
        orphans: str,
        hops: int,
        at_most: int | None,
        seed: int,
    ) -> tuple[Mapping[str, Any], Self]:
        """The tables, read if need be, and the links; without keys, those that are found."""
        if keys is None:
            tables = {name: columns_of_table(name, table) for name, table in tables.items()}
            keys = find(tables)
            said = ", ".join(f"{one} -> {two}" for one, two in keys) or "(none found)"
            warnings.warn(f"Tables are linked by these keys: {said}", stacklevel=3)
        return tables, cls.of(top, keys, orphans, hops, at_most, seed)

    def link(self, tables: Mapping[str, Any], root: Field | None = None) -> pa.StructArray:
        """Tables as nested records; `root`, of their schema, has the types for columns of CSV."""
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
        keys = [key_of(pair, columns) for pair in self.keys]
        return _Nesting(columns, keys, self).of(self.top)

    @property
    def names(self) -> list[str]:
        """The tables that are linked, if their names and those of columns have no dots."""
        columns = [column for key in self.keys for side in key for column in columns_in(side)]
        return list(dict.fromkeys([self.top, *(x.partition(".")[0] for x in columns)]))

    @property
    def ids(self) -> list[str]:
        """The columns of the table at the top that others refer to."""
        columns = [column for _, parent in self.keys for column in columns_in(parent)]
        start = f"{self.top}."
        return list(dict.fromkeys(x.removeprefix(start) for x in columns if x.startswith(start)))

    def within(self, tables: Tables) -> tuple["Links", dict[str, Mapping[str, pa.Array]]]:
        """The keys and tables that are linked with the table at the top.

        Raises KeyError if there is no such table or column.
        """
        pairs = [(key_of(pair, tables), pair) for pair in self.keys]
        ends = [{key.child, key.parent} for key, _ in pairs]
        linked = _reached({self.top}, lambda name: set().union(*(x for x in ends if name in x)))
        keys = tuple(pair for key, pair in pairs if key.child in linked)
        kept = {name: columns for name, columns in tables.items() if name in linked}
        return replace(self, keys=keys), kept


@dataclass(frozen=True)
class _Step:
    """A key, up from rows that refer to the row that they refer to, or down the other way."""

    key: Key
    is_up: bool

    @property
    def start(self) -> str:
        return self.key.child if self.is_up else self.key.parent

    @property
    def to(self) -> str:
        return self.key.parent if self.is_up else self.key.child

    @property
    def back(self) -> "_Step":
        return _Step(self.key, not self.is_up)


@dataclass
class _Nesting:
    tables: Tables
    keys: list[Key]
    links: Links
    not_followed: dict[Key, None] = field(default_factory=dict)
    members: dict[Key, tuple[Ints, Ints]] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)  # of samples

    def of(self, top: str) -> pa.StructArray:
        """The nested records of the table at the top."""
        self.direct = self._reached_directly(top)
        reached: set[str] = set()
        records, _ = self._records(top, None, (top,), reached)
        if left := [name for name in self.tables if name not in reached]:
            raise ValueError(
                f"Expected keys that lead from {top!r} to each table. "
                f"Received: none to {', '.join(left)}"
            )
        if self.said:
            warnings.warn(
                f"Samples of at most {self.links.at_most} members are left of larger bags: "
                + "; ".join(self.said),
                stacklevel=4,
            )
        if self.not_followed and not self.links.hops:
            shown_keys = ", ".join(map(str, self.not_followed))
            warnings.warn(
                f"Not followed (with hops=0), as they lead back to a table: {shown_keys}",
                stacklevel=4,
            )
        return records

    def _reached_directly(self, top: str) -> set[str]:
        """The tables that are reached without going on from a shared row to what refers to it."""
        below = _reached({top}, lambda name: {k.child for k in self.keys if k.parent == name})
        return _reached(below, lambda name: {k.parent for k in self.keys if k.child == name})

    def _records(
        self, name: str, via: "_Step | None", route: tuple[str, ...], reached: set[str]
    ) -> tuple[pa.StructArray, Ints]:
        """All rows of a table, with what is linked to them, and how many rows each is in all."""
        reached.add(name)
        sizes = np.ones(self._n_rows(name), np.int64)
        fields: list[pa.Field] = []
        columns: dict[str, pa.Array] = {}
        roles = self._roles(name)
        if name == route[0] and len(route) > 1:  # the target of other records is not to be read
            roles = {(column,): arrow.AGAIN + column for column in self.tables[name]} | roles
        for column, array in self.tables[name].items():
            field = _marked(pa.field(column, array.type), roles, (column,))
            columns[column] = array.cast(field.type)
            fields.append(field)
        for step in self._steps(name, via, route):
            inner, inner_sizes = self._records(step.to, step, (*route, step.to), reached)
            rows, bags = self._one(step.key) if step.is_up else self._many(step.key)
            np.add.at(sizes, bags, inner_sizes[rows])
            self._check_size(sizes.sum(), (*route, step.to))
            part = _taken(inner, rows, bags, len(sizes), is_bag=not step.is_up)
            part_name = self._name(step, name, columns)
            columns[part_name] = part
            mark = step.key.mark(None if step.is_up else self.links.at_most)
            fields.append(pa.field(part_name, part.type, metadata={arrow.KEY: mark.encode()}))
        return pa.StructArray.from_arrays(list(columns.values()), fields=fields), sizes

    def _n_rows(self, name: str) -> int:
        return len(next(iter(self.tables[name].values())))

    def _check_size(self, n_rows: int, route: tuple[str, ...]) -> None:
        if n_rows > _MOST_ROWS:
            raise ValueError(
                f"Expected at most {_MOST_ROWS:,} rows in all records: rows are repeated wherever "
                f"keys lead to them. Received: {n_rows:,} rows by {' > '.join(route)}. Pass fewer "
                f"hops than {self.links.hops}, or at_most= for samples of large bags"
            )

    def _steps(self, name: str, via: "_Step | None", route: tuple[str, ...]) -> Iterator["_Step"]:
        """The steps that lead on from a table at the end of a route, reached by `via`."""
        is_shared = via is not None and via.is_up
        is_again = is_shared and name in route[:-1]  # such as a neighbour
        for key, is_up in itertools.product(self.keys, (True, False)):
            step = _Step(key, is_up)
            is_back = via is not None and step == via.back
            if step.start != name or (is_back and not (is_again and not is_up)):
                continue
            times = route.count(step.to)
            if not is_up and is_shared and step.to in self.direct:
                # From a shared row to what is reached directly only to go on to the next hop.
                if not is_again or times >= self.links.hops:
                    continue
            elif is_up and is_again and times and step.to != name:
                continue  # what is around a neighbour is around the row itself
            if times <= self.links.hops:
                yield step
            else:
                self.not_followed[key] = None

    def _roles(self, table: str) -> dict[tuple[str, ...], str]:
        """The columns that are keys: "of" this table, or "to" another one."""
        roles = {names: f"of {table}" for k in self.keys if k.parent == table for names in k.ids}
        for key in reversed(self.keys):
            if key.child == table:
                for names, id_ in zip(key.columns, key.ids, strict=True):
                    roles[names] = f"to {listed(key.parent, [id_])}"
        return roles

    def _name(self, step: "_Step", around: str, columns: Mapping[str, pa.Array]) -> str:
        """The name of the part that a step leads to in rows of a table with some columns."""
        table, key = step.to, step.key
        alike = [each for each in self.keys if (each.child, each.parent) == (key.child, key.parent)]
        other = table + (key.suffix if key.child != key.parent or not step.is_up else key.place)
        name = table if len(alike) == 1 and key.child != key.parent else other
        if name not in columns:
            return name
        if other in columns:
            raise ValueError(
                f"Expected tables that are not named as columns beside them. Received: {name!r} in "
                f"{around!r}"
            )
        warnings.warn(
            f"The rows of {table!r} are {other!r} in {around!r}, which has a column {name!r}.",
            stacklevel=2,
        )
        return other

    def _one(self, key: Key) -> tuple[Ints, Ints]:
        """Rows of the parent that rows of the child refer to, and the latter."""
        at, refers = places(key, self.tables)
        self._check_orphans(key, (at < 0) & refers)
        child = np.flatnonzero(at >= 0)
        return at[child], child

    def _many(self, key: Key) -> tuple[Ints, Ints]:
        """Rows of the child, or a sample of them, and the rows of the parent that they refer to."""
        if key not in self.members:
            self.members[key] = self._members(key)
        return self.members[key]

    def _members(self, key: Key) -> tuple[Ints, Ints]:
        """The rows of the child that are in bags, one bag after the other, and the bag of each."""
        at, refers = places(key, self.tables)
        # What has no row above it in its own table is at the top of that.
        self._check_orphans(key, (at < 0) & (refers | (key.child != key.parent)))
        child = np.flatnonzero(at >= 0)
        rows = child[np.argsort(at[child], kind="stable")]
        bags, most = at[rows], self.links.at_most
        if most is None or (sizes := np.bincount(bags)).max(initial=0) <= most:
            return rows, bags
        is_kept = self._is_kept(key, bags, sizes, most)
        return rows[is_kept], bags[is_kept]

    def _is_kept(self, key: Key, bags: Ints, sizes: Ints, most: int) -> Bools:
        """Which members of bags of some sizes are left."""
        cut = np.flatnonzero(sizes > most)
        ids = [column_at(self.tables[key.parent], names) for names in key.ids]
        values = zip(*(array.take(pa.array(cut)).to_pylist() for array in ids), strict=True)
        names = [f"{self.links.seed} {key} {value!r}" for value in values]
        is_kept = np.ones(len(bags), bool)
        is_kept[np.isin(bags, cut)] = _sample(names, sizes[cut], most)
        self.said.append(
            f"{len(cut):,} of {(sizes > 0).sum():,} bags by {key}, "
            f"with {most * len(cut):,} of their {sizes[cut].sum():,} rows"
        )
        return is_kept

    def _check_orphans(self, key: Key, is_orphan: Bools) -> None:
        if not is_orphan.any():
            return
        at = pa.array(is_orphan)
        orphans = [column_at(self.tables[key.child], names).filter(at) for names in key.columns]
        ids = [column_at(self.tables[key.parent], names) for names in key.ids]
        by = ", ".join(repr(".".join(names)) for names in key.columns)
        message = (
            f"{is_orphan.sum()} of {len(is_orphan)} rows of {key.child!r} refer to no row of "
            f"{key.parent!r}, by {by}: {shown(orphans)}"
        )
        if is_orphan.all() and len(ids[0]):
            message += f" ({listed(key.parent, key.ids)} has {shown(ids)})"
        if self.links.orphans == "raise":
            raise ValueError(
                f"Expected references that lead to rows (or orphans='drop'). Received: {message}"
            )
        warnings.warn(f"{message}; they are left out", stacklevel=2)


def _taken(
    parts: pa.StructArray, rows: Ints, around: Ints, n: int, *, is_bag: bool
) -> pa.StructArray | pa.LargeListArray:
    """For each of `n` rows the `parts` whose `rows` are in it: a bag of them, or one or none."""
    if is_bag:
        return arrow.lists(parts.take(pa.array(rows)), around, n)
    at = np.full(n, -1)
    at[around] = rows
    return parts.take(pa.array(at, mask=at < 0))


def _sample(names: Iterable[str], sizes: Ints, most: int) -> Bools:
    """Which members of bags are in their samples: the `most` with the least random numbers.

    Those of a bag are numbers of SplitMix64, which starts from a hash of the name of the bag, so
    that they depend on nothing else.
    """
    splits = row_splits(sizes)
    digests = b"".join(hashlib.blake2b(x.encode(), digest_size=8).digest() for x in names)
    bags, position = np.repeat(np.arange(len(sizes)), sizes), positions_in_bags(splits)
    numbers = np.frombuffer(digests, "<u8").astype(np.uint64)[bags]
    numbers = numbers + (position + 1).astype(np.uint64) * np.uint64(_STEP)
    for shift, factor in _FACTORS:
        numbers = (numbers ^ (numbers >> np.uint64(shift))) * np.uint64(factor)
    order = np.lexsort((numbers ^ (numbers >> np.uint64(31)), bags))
    is_in = np.zeros(len(bags), bool)
    is_in[order[position < most]] = True  # bags are as large in this order
    return is_in


def _reached(start: set[str], next_of: Callable[[str], set[str]]) -> set[str]:
    reached, waiting = set(start), [*start]
    while waiting:
        new = next_of(waiting.pop()) - reached
        reached |= new
        waiting.extend(new)
    return reached


def _marked(
    field: pa.Field, roles: Mapping[tuple[str, ...], str], names: tuple[str, ...]
) -> pa.Field:
    """A field with metadata that marks the keys in it."""
    if names in roles:
        return field.with_metadata({arrow.KEY: roles[names].encode()})
    if not pa.types.is_struct(field.type):
        return field
    inner = [_marked(each, roles, (*names, each.name)) for each in field.type]
    return field.with_type(pa.struct(inner))


def _types_in(root: Field, name: str, is_top: bool) -> dict[str, str]:
    """The types of the columns of a table, in the records of linked tables."""
    if is_top:
        return scalar_types(root.parts)
    types: dict[str, str] = {}
    for part in walk(root):
        if part.name == name or part.name.startswith(f"{name}_by_"):
            for each in [part] if part.type == "record" else part.parts:
                types |= scalar_types(each.parts)
    return types
