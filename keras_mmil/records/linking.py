"""Linked tables as nested records."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Self, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keras_mmil._support.types import Bools, Ints
from keras_mmil.records import arrow
from keras_mmil.records.fields import Field, scalar_types, walk
from keras_mmil.records.sources import read_all

__all__ = ["Columns", "Links", "columns_in", "columns_of_table", "link"]

# A column, such as "orders.customer", or several that are a key together.
Columns: TypeAlias = str | Sequence[str]

_N_SHOWN = 3
_INTEGER = "^(0|-?[1-9][0-9]*)$"  # as an integer is written
_PREFIX = "^.*[/:]"  # such as "Encounter/", of references in FHIR
_UNITS = ("s", "ms", "us", "ns")


def link(
    tables: Mapping[str, Any],
    top: str,
    keys: Iterable[tuple[Columns, Columns]],
    orphans: str = "raise",
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
            column in a record includes the record: `observations.encounter.reference`.
        orphans: what to do with rows that refer to no row: "raise", or "drop" them, with a warning
            that counts them. In bags, null is an orphan, too; elsewhere it is a missing record.

    Returns:
        StructArray, which `Schema.infer` and `Schema.read` take.

    Raises:
        KeyError: if there is no such table or column.
        TypeError: if a key and what it refers to are of different types.
        ValueError: if rows are orphans, a value that is referred to comes twice, a float may stand
            for several numbers, the keys form a cycle, or a table is not reached from the top; it
            names the tables.

    Warns:
        UserWarning: of orphans that are left out, texts that refer to integers or have a common
            prefix, and tables that get another name because a column has theirs.

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
    keys: tuple[tuple[str | tuple[str, ...], str | tuple[str, ...]], ...]
    orphans: str = "raise"

    def __post_init__(self) -> None:
        if self.orphans not in ("raise", "drop"):
            raise ValueError(f"Expected 'raise' or 'drop'. Received: orphans={self.orphans!r}")

    @classmethod
    def of(cls, top: str, keys: Iterable[Any], orphans: str) -> Self:
        """Links from any iterable of pairs; ValueError if they are no pairs of columns."""
        return cls(top, tuple(_pair(key) for key in keys), orphans)

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
        keys = [_key(pair, columns) for pair in self.keys]
        return _Nesting(columns, keys, self.orphans).of(self.top)


@dataclass(frozen=True)
class _Key:
    """Columns of the table `child` that refer to the columns `ids` of `parent`.

    A column is its name, after those of the records that it is in.
    """

    child: str
    columns: tuple[tuple[str, ...], ...]
    parent: str
    ids: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        return f"{_listed(self.child, self.columns)} -> {_listed(self.parent, self.ids)}"

    @property
    def suffix(self) -> str:
        """Distinguishes parts that several keys lead to."""
        return "_by_" + "_".join(name for names in self.columns for name in names)


def _listed(table: str, columns: Iterable[Sequence[str]]) -> str:
    return ", ".join(".".join([table, *names]) for names in columns)


@dataclass
class _Nesting:
    tables: dict[str, dict[str, pa.Array]]
    keys: list[_Key]
    orphans: str

    def of(self, top: str) -> pa.StructArray:
        """The nested records of the table at the top."""
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
        below = _reached({top}, lambda name: {k.child for k in self.keys if k.parent == name})
        return _reached(below, lambda name: {k.parent for k in self.keys if k.child == name})

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
            # Not from a shared row to what is reached directly.
            elif key.parent == name and (
                via is None or via.parent != name or key.child not in self.direct
            ):
                yield key, key.child

    def _roles(self, table: str) -> dict[tuple[str, ...], str]:
        """The columns that are keys: "of" this table, or "to" another one."""
        roles = {names: f"of {table}" for k in self.keys if k.parent == table for names in k.ids}
        for key in reversed(self.keys):
            if key.child == table:
                for names, id_ in zip(key.columns, key.ids, strict=True):
                    roles[names] = f"to {_listed(key.parent, [id_])}"
        return roles

    def _name(self, table: str, key: _Key, around: str, columns: Mapping[str, pa.Array]) -> str:
        """The name of the part of a table in the rows of another, which has some columns."""
        alike = [each for each in self.keys if (each.child, each.parent) == (key.child, key.parent)]
        name = table if len(alike) == 1 else table + key.suffix
        if name not in columns:
            return name
        other = table + key.suffix
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
        """For each row of the child, its row of the parent or -1, and whether it refers to one."""
        referring, ids = (
            [_at(self.tables[table], names) for names in columns]
            for table, columns in ((key.child, key.columns), (key.parent, key.ids))
        )
        references: Ints = np.zeros(len(referring[0]), np.int64)
        referred: Ints = np.zeros(len(ids[0]), np.int64)
        refers = np.ones(len(references), bool)
        for column, id_, one, two in zip(referring, ids, key.columns, key.ids, strict=True):
            where = f"{_listed(key.child, [one])} -> {_listed(key.parent, [two])}"
            values, known = _comparable(column, id_, where)
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


def _pair(key: Any) -> tuple[str | tuple[str, ...], str | tuple[str, ...]]:
    sides = key if isinstance(key, Sequence) and not isinstance(key, str) else ()
    tuples = [(x,) if isinstance(x, str) else tuple(x) for x in sides if isinstance(x, Sequence)]
    if (
        not len(sides) == len(tuples) == 2
        or not 0 < len(tuples[0]) == len(tuples[1])
        or not all(isinstance(x, str) for side in tuples for x in side)
    ):
        raise ValueError(
            "Expected pairs of columns, such as ('orders.customer', 'customers.id'), or of tuples "
            f"of equally many columns. Received: {key!r}"
        )
    one, two = (side[0] if len(side) == 1 else side for side in tuples)
    return one, two


def columns_in(columns: Columns) -> tuple[str, ...]:
    """The columns of one side of a key."""
    return (columns,) if isinstance(columns, str) else tuple(columns)


def _key(pair: tuple[Columns, Columns], tables: Mapping[str, Mapping[str, pa.Array]]) -> _Key:
    sides = []
    for columns in pair:
        split = [_split(path, tables) for path in columns_in(columns)]
        if len({table for table, _ in split}) > 1:
            raise ValueError(
                f"Expected columns of one table on each side of a key. Received: {columns!r}"
            )
        sides.append((split[0][0], tuple(names for _, names in split)))
    (child, refers), (parent, ids) = sides
    return _Key(child, refers, parent, ids)


def _split(path: str, tables: Mapping[str, Mapping[str, pa.Array]]) -> tuple[str, tuple[str, ...]]:
    """A table and the names that lead to a column of it; all may contain dots."""
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
    """Numbers of the values of several columns together, with one column added; -1 for none."""
    distinct = pc.unique(known.drop_null())
    places = [
        arrow.as_numpy(pc.index_in(x, value_set=distinct, skip_nulls=True).fill_null(-1))
        for x in (values, known)
    ]
    together = [
        np.where((before < 0) | (place < 0), -1, before * (len(distinct) + 1) + place)
        for before, place in zip((references, referred), places, strict=True)
    ]
    _, numbers = np.unique(np.concatenate([[-1], *together]), return_inverse=True)  # from 0 again
    numbers = numbers[1:] - 1
    return numbers[: len(references)], numbers[len(references) :]


def columns_of_table(
    name: str, source: Any, types: Mapping[str, str] | None = None
) -> dict[str, pa.Array]:
    """The columns of a table; its name is for errors, and `types` as in `sources.batches`."""
    table = read_all(source, types)
    if not pa.types.is_struct(table.type) or not table.type.num_fields:
        raise ValueError(f"Expected a table with columns. Received: none in {name!r}")
    names = [field.name for field in table.type]
    return dict(zip(names, table.flatten(), strict=True))


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


def _shown(columns: Sequence[pa.Array]) -> str:
    """Some of the values of a column, or the tuples of several."""
    rows = [array[:_N_SHOWN].to_pylist() for array in columns]
    values = rows[0] if len(rows) == 1 else [*zip(*rows, strict=True)]
    shown = ", ".join(str(x) if isinstance(x, Decimal) else repr(x) for x in values)
    return shown + (" ..." if len(columns[0]) > _N_SHOWN else "")


def _comparable(one: pa.Array, two: pa.Array, where: str) -> tuple[pa.Array, pa.Array]:
    """A column of references and one of ids as arrays of one type, equal only where values are.

    Null, NaN and infinite are missing. Raises TypeError for different types, and ValueError for a
    float that may stand for several numbers. Warns of texts that are compared with integers, or
    without a common prefix such as "Encounter/".
    """
    sides = [arrow.alternatives(array, where) for array in (one, two)]
    types = list(dict.fromkeys(type_ for each in sides for type_ in each))
    if any(len(each) > 1 for each in sides) or not set(types) <= _EXACT.keys():
        raise _differ(types, where)
    arrays = [next(iter(each.values()), None) for each in sides]
    present = [array for array in arrays if array is not None]
    if len(types) == 2:
        alike = _texts_of_integers(sides[0], sides[1], types, where)
    else:
        is_inexact = any(
            pa.types.is_floating(x.type) or pa.types.is_dictionary(x.type) for x in present
        )
        are_alike = not is_inexact and len({x.type for x in present}) == 1
        alike = present if are_alike or not types else _EXACT[types[0]](present, where)
    left = iter(alike)
    type_ = alike[0].type if alike else pa.null()
    one, two = (
        pa.nulls(len(column), type_) if array is None else next(left)
        for column, array in zip((one, two), arrays, strict=True)
    )
    return (_without_prefix(one, two, where) if types == ["text"] else one), two


def _differ(types: list[str], where: str, detail: str = "") -> TypeError:
    return TypeError(
        "Expected keys of one type, numbers, texts, times or booleans. "
        f"Received: {' and '.join(types)} in {where}{detail}"
    )


def _texts_of_integers(
    one: dict[str, pa.Array], two: dict[str, pa.Array], types: list[str], where: str
) -> list[pa.Array]:
    """Texts and integers as texts."""
    if set(types) != {"number", "text"}:
        raise _differ(types, where)
    (texts,) = _exact_texts([(one | two)["text"]], where)
    is_integer = pc.match_substring_regex(texts, _INTEGER)
    others = texts.filter(pc.invert(is_integer)).drop_null()
    if len(others):
        raise _differ(types, where, f", such as the text {others[0].as_py()!r}")
    (numbers,) = _exact_numbers([(one | two)["number"]], where)
    if not pa.types.is_integer(numbers.type) and numbers.type != arrow.WIDE:
        raise _differ(types, where, f", such as the number {numbers.drop_null()[0].as_py()}")
    warnings.warn(
        f"Texts and integers are compared, as all texts are integers: {where}.", stacklevel=2
    )
    numbers = numbers.cast(pa.large_string())
    return [texts, numbers] if "text" in one else [numbers, texts]


def _exact_texts(arrays: list[pa.Array], where: str) -> list[pa.Array]:
    texts = []
    for array in arrays:
        part = arrow.present(array, where)
        values = part.values.cast(pa.large_string())
        texts.append(values if part.at is None else arrow.spread(values, part.at, len(array)))
    return texts


def _without_prefix(references: pa.Array, ids: pa.Array, where: str) -> pa.Array:
    """The references without a common prefix, if none is an id with it and some without."""
    known = ids.drop_null()
    if pc.any(pc.is_in(references, value_set=known), min_count=0).as_py():
        return references
    ends = pc.replace_substring_regex(references, _PREFIX, "")
    if not pc.any(pc.is_in(ends, value_set=known), min_count=0).as_py():
        return references
    lengths = pc.subtract(pc.utf8_length(references), pc.utf8_length(ends)).drop_null()
    prefix = pc.utf8_slice_codeunits(references.drop_null(), 0, lengths[0].as_py()).unique()
    if len(prefix) > 1 or len(lengths.unique()) > 1:
        return references
    warnings.warn(
        f"References are compared without {prefix[0].as_py()!r}, which all begin with: {where}.",
        stacklevel=2,
    )
    return ends


def _exact_numbers(arrays: list[pa.Array], where: str) -> list[pa.Array]:
    if any(pa.types.is_temporal(array.type) for array in arrays):
        # Times of the day, or durations.
        for is_it, make in ((pa.types.is_time, pa.time64), (pa.types.is_duration, pa.duration)):
            if all(is_it(array.type) for array in arrays):
                return [array.cast(make("ns")) for array in arrays]
        types = " and ".join(str(array.type) for array in arrays)
        raise TypeError(f"Expected keys of one type. Received: {types} in {where}")
    numbers = [_exact(array, where) for array in arrays]
    if all(array.type == numbers[0].type for array in numbers):
        return numbers
    scale = max(array.type.scale for array in numbers if pa.types.is_decimal(array.type))
    try:
        return [array.cast(pa.decimal256(76, scale)) for array in numbers]
    except pa.ArrowInvalid as error:
        raise _too_long(where, error) from error


def _exact(array: pa.Array, where: str) -> pa.Array:
    """Numbers as int64 if possible, else as wider integers, else as decimals."""
    if pa.types.is_floating(array.type):
        array = _of_floats(array, where)
    for type_ in (pa.int64(), arrow.WIDE):
        try:
            return array.cast(type_)
        except pa.ArrowInvalid:
            pass
    return array


def _of_floats(array: pa.Array, where: str) -> pa.Array:
    """Floats as the numbers that they stand for, if they cannot stand for others."""
    x = array.cast(pa.float64()).to_numpy(zero_copy_only=False)
    is_there = np.isfinite(x)
    distinct = np.unique(x[is_there])
    is_whole = distinct == np.floor(distinct)
    for value in distinct[is_whole & (np.abs(distinct) > arrow.WHOLE)]:
        raise _ambiguous(value, where)
    if is_whole.all():
        return pa.array(np.where(is_there, x, 0).astype(np.int64), mask=~is_there)
    texts = {value: f"{value:.15g}" for value in distinct.tolist()}
    for value, text in texts.items():
        if float(text) != value:
            raise _ambiguous(value, where)
    decimals = {value: Decimal(text) for value, text in texts.items()}  # NaN has none
    try:
        return pa.array([decimals.get(value) for value in x.tolist()])
    except pa.ArrowInvalid as error:
        raise _too_long(where, error) from error


def _too_long(where: str, error: Exception) -> ValueError:
    return ValueError(f"Expected keys of at most 76 digits. Received: others in {where}: {error}")


def _ambiguous(value: float, where: str) -> ValueError:
    return ValueError(
        "Expected keys that are exact, such as integers, decimals or texts. "
        f"Received: the float {float(value)!r} in {where}, which may stand for several numbers"
    )


def _exact_times(arrays: list[pa.Array], where: str) -> list[pa.Array]:
    stamps = [x.cast(pa.timestamp("ms")) if pa.types.is_date(x.type) else x for x in arrays]
    unit = max((array.type.unit for array in stamps), key=_UNITS.index)
    try:
        return [array.cast(pa.timestamp(unit)) for array in stamps]
    except pa.ArrowInvalid:  # such as the year 9999 in nanoseconds
        return [_nanoseconds(array) for array in stamps]


def _nanoseconds(stamps: pa.Array) -> pa.Array:
    """Since 1970 (UTC), as decimals."""
    factor = 1000 ** (3 - _UNITS.index(stamps.type.unit))
    units = stamps.cast(pa.int64()).cast(pa.decimal128(19, 0))
    product = pc.multiply(units, pa.scalar(Decimal(factor), pa.decimal128(10, 0)))
    return product.cast(pa.decimal128(30, 0))


_EXACT: dict[str, Callable[[list[pa.Array], str], list[pa.Array]]] = {
    "number": _exact_numbers,
    "text": _exact_texts,
    "time": _exact_times,
    "boolean": lambda arrays, where: arrays,
}
