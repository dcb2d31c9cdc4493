"""Keys: columns of tables that refer to columns of others, and what they lead to."""

import functools
import json
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keras_mmil._support.types import Bools, Ints
from keras_mmil.records import arrow
from keras_mmil.records.sources import read_all

__all__ = [
    "Columns",
    "Key",
    "Tables",
    "column_at",
    "columns_in",
    "columns_of_table",
    "find",
    "find_keys",
    "key_of",
    "listed",
    "pair_of",
    "places",
    "shown",
]

# A column, such as "orders.customer", or several that are a key together.
Columns: TypeAlias = str | Sequence[str]
Tables: TypeAlias = Mapping[str, Mapping[str, pa.Array]]  # columns by name, by the table's name

_N_SHOWN = 3
_INTEGER = "^(0|-?[1-9][0-9]*)$"  # as an integer is written
_PREFIX = "^.*[/:]"  # such as "Encounter/", of references in FHIR
_UNITS = ("s", "ms", "us", "ns")


@dataclass(frozen=True)
class Key:
    """Columns of the table `child` that refer to the columns `ids` of `parent`.

    A column is its name, after those of the records that it is in.
    """

    child: str
    columns: tuple[tuple[str, ...], ...]
    parent: str
    ids: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        return f"{listed(self.child, self.columns)} -> {listed(self.parent, self.ids)}"

    def mark(self, at_most: int | None) -> str:
        """The mark of a part that it leads to: of a bag, perhaps a sample of at most so many."""
        return arrow.BY + json.dumps([self.child, self.columns, self.parent, self.ids, at_most])

    @classmethod
    def marked(cls, text: str) -> "tuple[Key, int | None] | None":
        """The key, and the size of samples, of a mark; None if it is none."""
        if not text.startswith(arrow.BY):
            return None
        child, columns, parent, ids, at_most = json.loads(text.removeprefix(arrow.BY))
        key = cls(child, tuple(map(tuple, columns)), parent, tuple(map(tuple, ids)))
        return key, at_most

    @property
    def suffix(self) -> str:
        """Distinguishes parts that several keys lead to."""
        return "_by_" + "_".join(name for names in self.columns for name in names)

    @property
    def place(self) -> str:
        """Distinguishes the row that a row of the same table refers to."""
        return self.suffix.replace("_by_", "_at_", 1)


def listed(table: str, columns: Iterable[Sequence[str]]) -> str:
    """Columns of a table, as text."""
    return ", ".join(".".join([table, *names]) for names in columns)


def places(key: Key, tables: Tables) -> tuple[Ints, Bools]:
    """For each row of the child, its row of the parent or -1, and whether it refers to one."""
    referring, ids = (
        [column_at(tables[table], names) for names in columns]
        for table, columns in ((key.child, key.columns), (key.parent, key.ids))
    )
    references: Ints = np.zeros(len(referring[0]), np.int64)
    referred: Ints = np.zeros(len(ids[0]), np.int64)
    refers = np.ones(len(references), bool)
    for column, id_, one, two in zip(referring, ids, key.columns, key.ids, strict=True):
        where = f"{listed(key.child, [one])} -> {listed(key.parent, [two])}"
        values, known = _comparable(column, id_, where)
        refers &= arrow.as_numpy(values.is_valid())
        references, referred = _numbered(references, referred, values, known)
    rows = np.flatnonzero(referred >= 0)
    _, first, n = np.unique(referred[rows], return_index=True, return_counts=True)
    if (n > 1).any():
        twice = [array.take(pa.array(rows[first[n > 1]])) for array in ids]
        raise ValueError(
            f"Expected different values in {listed(key.parent, key.ids)}. "
            f"Received: {shown(twice)} more than once"
        )
    row_of = np.full(max(referred.max(initial=-1), 0) + 1, -1)
    row_of[referred[rows]] = rows
    return np.where(references < 0, -1, row_of[references]), refers


def pair_of(key: Any) -> tuple[str | tuple[str, ...], str | tuple[str, ...]]:
    """Both sides of a key, columns or tuples of them; ValueError if it is none."""
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


def key_of(pair: tuple[Columns, Columns], tables: Tables) -> Key:
    """The key of columns of tables; KeyError if there are none of these names."""
    sides = []
    for columns in pair:
        split = [_split(path, tables) for path in columns_in(columns)]
        if len({table for table, _ in split}) > 1:
            raise ValueError(
                f"Expected columns of one table on each side of a key. Received: {columns!r}"
            )
        sides.append((split[0][0], tuple(names for _, names in split)))
    (child, refers), (parent, ids) = sides
    return Key(child, refers, parent, ids)


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


def column_at(table: Mapping[str, pa.Array], names: Sequence[str]) -> pa.Array:
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


def shown(columns: Sequence[pa.Array]) -> str:
    """Some of the values of a column, or the tuples of several."""
    rows = [array[:_N_SHOWN].to_pylist() for array in columns]
    values = rows[0] if len(rows) == 1 else [*zip(*rows, strict=True)]
    shown = ", ".join(str(x) if isinstance(x, Decimal) else repr(x) for x in values)
    return shown + (" ..." if len(columns[0]) > _N_SHOWN else "")


def columns_of_table(
    name: str, source: Any, types: Mapping[str, str] | None = None
) -> dict[str, pa.Array]:
    """The columns of a table; its name is for errors, and `types` as in `sources.batches`."""
    table = read_all(source, types)
    if not pa.types.is_struct(table.type) or not table.type.num_fields:
        raise ValueError(f"Expected a table with columns. Received: none in {name!r}")
    names = [field.name for field in table.type]
    return dict(zip(names, table.flatten(), strict=True))


# Finding keys ------------------------------------------------------------------------------------

# What names of keys end with.
_ENDS = ("id", "key", "no", "nr", "num", "number", "code", "ref", "fk", "pk", "uuid", "guid")
_BETWEEN = re.compile(r"[\W_]+")  # words of a name


def find_keys(tables: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Keys that link tables, by the names of columns and by their values.

    A column refers to another table if it is named after it (`customer`, `customer_id`,
    `sender_customer_id` or `CustomerID` in a table of orders) or as the column of ids there
    (`order_number` in both tables), and if all its values are among the ids: distinct integers or
    texts, none of which is missing. Keys of several columns are not found.

    Args:
        tables: dict from names to tables, in any form that `Schema.infer` accepts.

    Returns:
        Pairs of a column that refers and the column that it refers to, for `link`.

    Example:

    >>> customers = [{"id": 1, "city": "Rome"}, {"id": 2, "city": "Oslo"}]
    >>> orders = [{"customer_id": 2, "price": 9.5}, {"customer_id": 2, "price": 3.0}]
    >>> find_keys({"customers": customers, "orders": orders})
    [('orders.customer_id', 'customers.id')]
    """
    columns = {name: columns_of_table(name, table) for name, table in tables.items()}
    return find(columns)


def find(tables: Tables) -> list[tuple[str, str]]:
    """The same, of columns."""
    ids = {name: _ids(columns) for name, columns in tables.items()}
    candidates = [
        (_likeness(child, column, parent, id_), (child, column), (parent, id_))
        for child, columns in tables.items()
        for column in columns
        for parent, of_parent in ids.items()
        for id_ in of_parent
    ]
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for likeness, one, two in sorted(candidates, key=lambda each: -each[0]):
        if likeness and one not in found and found.get(two) != one and _leads(one, two, tables):
            found[one] = two
    columns = [(table, column) for table in tables for column in tables[table]]
    return [(".".join(one), ".".join(found[one])) for one in columns if one in found]


def _ids(columns: Mapping[str, pa.Array]) -> list[str]:
    """The columns that may be ids of a table: distinct integers or texts."""
    return [
        name
        for name, array in columns.items()
        if (pa.types.is_integer(array.type) or _is_text(array.type))
        and 0 < len(array) == len(pc.unique(array))
        and not array.null_count
    ]


def _is_text(type_: pa.DataType) -> bool:
    return pa.types.is_string(type_) or pa.types.is_large_string(type_)


def _likeness(child: str, column: str, parent: str, id_: str) -> int:
    """How likely a column refers to ids of a table, by the names; 0 for not at all."""
    refers, known = _joined(column), _joined(id_)
    if (child, column) == (parent, id_) or not refers or not known:
        return 0
    is_plain, (named, ends) = known in _ENDS, _forms(parent)
    is_id = is_plain or known in named
    if child != parent and refers in named and is_id:
        return 4
    if child != parent and refers == known and not is_plain:
        return 3 if is_id else 2
    if child == parent and refers in {"parent" + end for end in ("", *_ENDS)} and is_id:
        return 2
    return int(is_id and refers not in named and refers.endswith(ends))


def _joined(name: str) -> str:
    return _BETWEEN.sub("", name).lower()


@functools.lru_cache
def _forms(table: str) -> tuple[frozenset[str], tuple[str, ...]]:
    """How a column that refers to a table may be named, and with what such names may end."""
    names = _names_of(table)
    ends = tuple(name + end for name in names for end in _ENDS)
    return frozenset([*names, *ends]), ends


def _names_of(table: str) -> list[str]:
    """What a row of a table may be called: its name, and what may be the singular of it."""
    name = _joined(table)
    ends = {"ies": "y", "ses": "s", "xes": "x", "ches": "ch", "shes": "sh", "s": ""}
    return [name] + [
        name.removesuffix(end) + one for end, one in ends.items() if name.endswith(end)
    ]


def _leads(one: tuple[str, str], two: tuple[str, str], tables: Tables) -> bool:
    """Whether a column leads from some rows to rows, and from none to nothing."""
    (child, column), (parent, id_) = one, two
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # texts that would have to be taken for integers
            at, refers = places(Key(child, ((column,),), parent, ((id_,),)), tables)
    except (TypeError, ValueError, UserWarning):
        return False
    return bool(refers.any() and (at[refers] >= 0).all())


# Values ------------------------------------------------------------------------------------------


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
