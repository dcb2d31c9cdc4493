"""Statistics of what is at the places of nested records, from Arrow arrays.

Merging them is associative and does not depend on batches: the merged statistics of two parts are
those of the whole (moments up to rounding).
"""

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Self, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keras_mmil._support.arrow_lists import lengths_and_members
from keras_mmil._support.types import Array, Floats, Ints
from keras_mmil.records import arrow, scalars
from keras_mmil.records.paths import child, position
from keras_mmil.records.to_arrow import entries

__all__ = [
    "LONGEST",
    "MAX_FIELDS",
    "MAX_OTHERS",
    "MAX_POSITIONS",
    "MAX_VALUES",
    "N_SMALLEST",
    "TYPES",
    "Bags",
    "ByKey",
    "FieldProfile",
    "Reading",
    "Records",
    "Scalar",
    "Seen",
    "Values",
    "profile",
]

MAX_VALUES = 10_000  # distinct values of a place that are counted
MAX_FIELDS = 10_000  # distinct keys of the records at a place that are told apart
MAX_COUNTED = 10_000_000  # distinct values, at most, of all fields of the records at a place
MAX_POSITIONS = 1_000  # positions of lists of one length that are told apart
MAX_OTHERS = 20  # distinct texts beside those of a form that are counted
LONGEST = 200  # characters of a text that is counted as a value
N_SMALLEST = 3
TYPES = ("number", "boolean", "text", "time", "record", "bag")
_WORD = r"[^ \t\n\v\f\r]+"  # the same in Python's regular expressions and in Arrow's

# bool, int, float or str. The values of one place and type can be ordered.
Scalar: TypeAlias = Any


@dataclass
class Values:
    """Values of one scalar type.

    Attributes:
        count: how many.
        counts: how often each value was seen; None if there are over `MAX_VALUES` distinct ones,
            or some are longer than `LONGEST`.
        smallest: the first values in sorted order (texts cut at `LONGEST`), to be shown.
        largest: the last one, None if there is no value.
        mean, squares: of numbers and times (in seconds since 1970) the mean, and the sum of the
            squared distances from it; else 0.
        n_integers: number of integers.
        n_wide: number of numbers with more digits than float64 holds.
        n_words: words in all texts.
        readings: of texts that are not counted: see `as_forms`.
    """

    count: int = 0
    counts: dict[Scalar, int] | None = field(default_factory=dict)
    smallest: tuple[Scalar, ...] = ()
    largest: Scalar = None
    mean: float = 0.0
    squares: float = 0.0
    n_integers: int = 0
    n_wide: int = 0
    n_words: int = 0
    readings: "dict[str, Reading]" = field(default_factory=dict)

    @property
    def n_distinct(self) -> int | None:
        """Number of distinct values, None if they are not counted."""
        return None if self.counts is None else len(self.counts)

    @property
    def repeats(self) -> float:
        """How often a distinct value was seen, on average; 0 if they are not counted."""
        return self.count / len(self.counts) if self.counts else 0.0

    @functools.cached_property
    def as_forms(self) -> "dict[str, Reading]":
        """The texts read as numbers, booleans or times, in each form that some of them have."""
        if self.counts is None or not isinstance(self.largest, str):
            return self.readings
        return _readings(list(self.counts), list(self.counts.values()))

    def none_read(self) -> "Reading":
        """The texts read in a form that none of them has."""
        others = self.counts if self.counts is not None and len(self.counts) <= MAX_OTHERS else None
        return Reading(Values(), others, self.smallest[0])

    def uncounted(self) -> Self:
        """The same, without counts of distinct values."""
        return replace(self, counts=None, readings=self.as_forms)

    def merged(self, other: Self) -> Self:
        """The statistics of both."""
        count = self.count + other.count
        if not (self.count and other.count):
            return self if self.count else other
        distance = other.mean - self.mean
        counts = _summed(self.counts, other.counts, MAX_VALUES)
        return type(self)(
            count=count,
            counts=counts,
            smallest=tuple(sorted({*self.smallest, *other.smallest})[:N_SMALLEST]),
            largest=max(self.largest, other.largest),
            mean=self.mean + distance * other.count / count,
            squares=self.squares + other.squares + distance**2 * (self.count * other.count / count),
            n_integers=self.n_integers + other.n_integers,
            n_wide=self.n_wide + other.n_wide,
            n_words=self.n_words + other.n_words,
            readings=_merged_readings(self, other) if counts is None else {},
        )


@dataclass
class Reading:
    """Texts that are read in one of `scalars.FORMS`.

    Attributes:
        values: statistics of the numbers, booleans or times.
        others: the texts that do not have the form, and how often each was seen; None if there are
            over `MAX_OTHERS` distinct ones, or some are longer than `LONGEST`.
        example: the first of them in sorted order, cut at `LONGEST`; empty if there are none.
    """

    values: Values
    others: dict[str, int] | None = field(default_factory=dict)
    example: str = ""

    def merged(self, other: Self) -> Self:
        """The statistics of both."""
        examples = [each.example for each in (self, other) if each.others != {}]
        others = _summed(self.others, other.others, MAX_OTHERS)
        return type(self)(self.values.merged(other.values), others, min(examples, default=""))


def _summed(
    one: dict[Scalar, int] | None, two: dict[Scalar, int] | None, limit: int
) -> dict[Scalar, int] | None:
    """The sums of counts; None if there are more than the limit."""
    if one is None or two is None:
        return None
    merged = dict(one)
    for value, n in two.items():
        merged[value] = merged.get(value, 0) + n
    return merged if len(merged) <= limit else None


def _merged_readings(one: Values, two: Values) -> dict[str, Reading]:
    merged: dict[str, Reading] = {}
    for form in scalars.FORMS:
        if form in one.as_forms or form in two.as_forms:
            first, second = (each.as_forms.get(form) or each.none_read() for each in (one, two))
            merged[form] = first.merged(second)
    return merged


def _readings(
    texts: Sequence[str], counts: Sequence[int], longer: str | None = None
) -> dict[str, Reading]:
    """Distinct texts of up to `LONGEST` characters, seen so often, in each form that some have.

    `longer` is the first of longer texts in sorted order, cut at `LONGEST`.
    """
    array, n = pa.array(texts, pa.large_string()), np.asarray(counts, np.int64)
    may_be = scalars.candidates(array)
    some = array.take(pa.array(may_be))
    readings: dict[str, Reading] = {}
    for form, type_ in scalars.FORMS.items() if len(may_be) else ():
        x = scalars.parse(some, form)
        is_read = ~np.isnan(x)
        if is_read.any():
            is_other = np.ones(len(array), bool)
            is_other[may_be[is_read]] = False
            at = np.flatnonzero(is_other)
            is_few = longer is None and len(at) <= MAX_OTHERS
            others = {texts[i]: counts[i] for i in at.tolist()} if is_few else None
            first = pc.min(array.take(pa.array(at))).as_py()
            example = min((text for text in (first, longer) if text is not None), default="")
            values = _values_of(type_, x[is_read], n[may_be[is_read]])
            readings[form] = Reading(values, others, example)
    return readings


def _values_of(type_: str, x: Floats, n: Ints) -> Values:
    """The statistics of numbers, booleans or times x, each of which was seen n times."""
    distinct, place = np.unique(x, return_inverse=True)
    n = np.bincount(place, n).astype(np.int64)
    is_whole = distinct == np.floor(distinct)
    is_boolean = type_ == "boolean"
    values = [bool(x) if is_boolean else _simplest(x) for x in distinct.tolist()]
    count = int(n.sum())
    mean = 0.0 if is_boolean else float(np.dot(distinct, n) / count)
    return Values(
        count=count,
        counts=dict(zip(values, n.tolist(), strict=True)) if len(values) <= MAX_VALUES else None,
        smallest=tuple(values[:N_SMALLEST]),
        largest=values[-1],
        mean=mean,
        squares=0.0 if is_boolean else float(np.dot(np.square(distinct - mean), n)),
        n_integers=int(n[is_whole].sum()) if type_ == "number" else 0,
    )


@dataclass
class ByKey:
    """The entries of records whose keys are not told apart: the keys, and what all of them hold."""

    keys: Values = field(default_factory=Values)
    each: "FieldProfile" = field(default_factory=lambda: FieldProfile())

    def merged(self, other: Self) -> Self:
        """The statistics of both."""
        return type(self)(self.keys.merged(other.keys), self.each.merged(other.each))


@dataclass
class Records:
    """Records: JSON objects, structs, maps.

    Attributes:
        count: how many.
        fields: what was seen at each key, in the order in which keys were first seen. Each of them
            has been looked for in all records.
        by_key: the entries, where `fields` does not tell keys apart: over `MAX_FIELDS` of them.
    """

    count: int
    fields: dict[str, "FieldProfile"]
    by_key: ByKey | None = None

    def __post_init__(self) -> None:
        if len(self.fields) > MAX_FIELDS:
            self.fields, self.by_key = {}, self.entries()
        limit = MAX_COUNTED // max(len(self.fields), 1)
        if limit < MAX_VALUES:
            self.fields = {name: part.counted(limit) for name, part in self.fields.items()}

    def merged(self, other: Self) -> Self:
        """The statistics of both."""
        count = self.count + other.count
        if self.by_key is not None or other.by_key is not None:
            return type(self)(count, {}, self.entries().merged(other.entries()))
        fields = {
            name: self.fields.get(name, FieldProfile(self.count)).merged(
                other.fields.get(name, FieldProfile(other.count))
            )
            for name in {**self.fields, **other.fields}
        }
        return type(self)(count, fields)

    def entries(self) -> ByKey:
        """The statistics of keys and values, as in a bag."""
        if self.by_key is not None:
            return self.by_key
        entries = [
            ByKey(_values_of_key(name, seen.n_present), FieldProfile(seen.n_present, seen.by_type))
            for name, seen in self.fields.items()
            if seen.n_present
        ]
        while len(entries) > 1:  # in pairs, as merging takes as long as there are keys
            last = entries[len(entries) // 2 * 2 :]
            entries = [a.merged(b) for a, b in zip(entries[::2], entries[1::2], strict=False)]
            entries += last
        return entries[0] if entries else ByKey()


def _values_of_key(key: str, count: int) -> Values:
    cut = key[:LONGEST]
    counts: dict[Scalar, int] | None = {key: count} if len(key) <= LONGEST else None
    return Values(count, counts, (cut,), cut, n_words=count * len(re.findall(_WORD, key)))


@dataclass
class Bags:
    """Bags: JSON arrays, lists.

    Attributes:
        lengths: their numbers of members.
        members: what was seen of their members.
        positions: what was seen at each position, if all bags that are not empty have one length,
            from 2 to `MAX_POSITIONS`, and the members are scalars; else none.
        is_fixed: whether an Arrow type fixes their length.
    """

    lengths: Values
    members: "FieldProfile"
    positions: tuple["FieldProfile", ...] = ()
    is_fixed: bool = False

    @property
    def count(self) -> int:
        """How many."""
        return self.lengths.count

    @property
    def largest(self) -> int:
        """The greatest number of members."""
        return int(self.lengths.largest or 0)

    def merged(self, other: Self) -> Self:
        """The statistics of both."""
        members = self.members.merged(other.members)
        positions: tuple[FieldProfile, ...] = ()
        if not (self.largest and other.largest):  # one of them has only empty lists
            positions = self.positions or other.positions
        elif len(self.positions) == len(other.positions) and members.are_scalars:
            pairs = zip(self.positions, other.positions, strict=True)
            positions = tuple(one.merged(two) for one, two in pairs)
        is_fixed = self.is_fixed or other.is_fixed
        return type(self)(self.lengths.merged(other.lengths), members, positions, is_fixed)


@dataclass
class FieldProfile:
    """What was seen at one place of the records.

    Attributes:
        count: how often something could have been there.
        by_type: what was there, by its type, in the order of `TYPES`. The rest is missing: null,
            NaN, infinite (as float32), or absent.
        key: of keys of linked tables "to customers.id" or "of customers"; of columns of rows at the
            top that come again in records "again churned"; of the rows of another table "by" the
            key, in JSON; else empty.
        copied: of a member of a bag, the path of the field of the record around the bag that all
            values repeat; empty if there is none.
    """

    count: int = 0
    by_type: dict[str, "Seen"] = field(default_factory=dict)
    key: str = ""
    copied: str = ""

    @property
    def n_present(self) -> int:
        """How often something was there."""
        return sum(seen.count for seen in self.by_type.values())

    @property
    def share_missing(self) -> float:
        """Share of the places with nothing there; 0 where there is no place."""
        return 1 - self.n_present / self.count if self.count else 0.0

    @property
    def are_scalars(self) -> bool:
        """Whether neither records nor bags were there."""
        return self.by_type.keys().isdisjoint(("record", "bag"))

    def counted(self, limit: int) -> Self:
        """The same, without counts of more distinct values than the limit."""
        by_type = {
            type_: seen.uncounted()
            if isinstance(seen, Values) and (seen.n_distinct or 0) > limit
            else seen
            for type_, seen in self.by_type.items()
        }
        return replace(self, by_type=by_type)

    @property
    def is_key(self) -> bool:
        """Whether it is a key of linked tables."""
        return bool(self.key) and not self.key.startswith((arrow.AGAIN, arrow.BY))

    def merged(self, other: Self) -> Self:
        """The statistics of both."""
        by_type: dict[str, Any] = {}
        for type_ in TYPES:
            parts: list[Any] = [x.by_type[type_] for x in (self, other) if type_ in x.by_type]
            if parts:
                by_type[type_] = parts[0].merged(parts[1]) if len(parts) == 2 else parts[0]
        copied = {x.copied for x in (self, other) if x.n_present}
        of = copied.pop() if len(copied) == 1 else ""
        return type(self)(self.count + other.count, by_type, self.key or other.key, of)


_FIRST = 64  # members, by which most fields are told from copies

Seen: TypeAlias = Records | Bags | Values


def profile(array: pa.Array, path: str = "") -> FieldProfile:
    """The statistics of a place, and of all places in it; its path is for errors.

    Raises TypeError if a type stands for no part of a record, ValueError if bytes are no text.
    """
    seen: dict[str, Seen] = {}
    for type_, alternative in arrow.alternatives(array, path).items():
        values = arrow.present(alternative, path).values
        if len(values):
            seen[type_] = _PROFILE[type_](values, path)
    return FieldProfile(len(array), {type_: seen[type_] for type_ in TYPES if type_ in seen})


def _records(values: pa.Array, path: str) -> Records:
    if pa.types.is_map(values.type):
        keys, items, _ = entries(values, path)
        of_keys = profile(keys, path).by_type.get("text", Values())
        if not isinstance(of_keys, Values) or of_keys.count < len(keys):
            raise TypeError(f"Expected keys that are texts. Received: others at {path!r}")
        return Records(len(values), {}, ByKey(of_keys, profile(items, path)))
    names = [field.name for field in values.type]
    if len(set(names)) < len(names):
        raise ValueError(f"Expected fields of different names. Received: {names} at {path!r}")
    fields: dict[str, FieldProfile] = {}
    for field_, column in zip(values.type, values.flatten(), strict=True):
        fields[field_.name] = profile(column, child(path, field_.name))
        fields[field_.name].key = (field_.metadata or {}).get(arrow.KEY, b"").decode()
    _mark_copies(values, fields, path)
    return Records(len(values), fields)


def _mark_copies(values: pa.Array, fields: dict[str, FieldProfile], path: str) -> None:
    """Mark the fields of members of bags that repeat what identifies the record around the bag.

    Records that come out of databases have such keys, which say nothing and can be learnt by heart.
    """
    columns = dict(zip((field_.name for field_ in values.type), values.flatten(), strict=True))
    for name, bags in columns.items():
        is_bag = pa.types.is_list(bags.type) or pa.types.is_large_list(bags.type)
        if not (is_bag and pa.types.is_struct(bags.type.value_type)):
            continue
        members, around = pc.list_flatten(bags), pc.list_parent_indices(bags)
        for field_, x in zip(members.type, members.flatten(), strict=True):
            for of, ids in columns.items():
                if ids.type == x.type and _is_scalar(x.type) and _is_copy(x, ids, around):
                    _member(fields[name], field_.name).copied = child(path, of)


def _member(bags: FieldProfile, name: str) -> FieldProfile:
    """What was seen of a field of the members of bags; one of its own if they are no records."""
    seen = bags.by_type["bag"]
    assert isinstance(seen, Bags)
    inside = seen.members.by_type.get("record")
    return (
        inside.fields.get(name, FieldProfile()) if isinstance(inside, Records) else FieldProfile()
    )


def _is_scalar(type_: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(type_) or pa.types.is_string(type_) or pa.types.is_large_string(type_)
    )


def _is_copy(x: pa.Array, ids: pa.Array, around: pa.Array) -> bool:
    """Whether all values of members are those of the records around them, which are distinct."""
    if ids.null_count or x.null_count == len(x):
        return False
    for n in (_FIRST, len(x)):
        if not pc.all(pc.equal(x[:n], ids.take(around[:n])), min_count=0).as_py():
            return False
    return bool(pc.count_distinct(ids).as_py() == len(ids))


def _bags(values: pa.Array, path: str) -> Bags:
    lengths, members = lengths_and_members(values)
    is_fixed = pa.types.is_fixed_size_list(values.type)
    bags = Bags(_numbers(pa.array(lengths), path), profile(members, path), is_fixed=is_fixed)
    n, n_filled = bags.largest, int(np.count_nonzero(lengths))
    if bags.members.are_scalars and 2 <= n <= MAX_POSITIONS and len(members) == n * n_filled:
        at = np.arange(0, len(members), n)
        bags.positions = tuple(
            profile(members.take(pa.array(at + i)), position(path, i)) for i in range(n)
        )
    return bags


def _numbers(values: pa.Array, path: str) -> Values:
    x = arrow.as_floats(values)
    is_whole = x == np.floor(x)
    seen = _measured(values, x, int(is_whole.sum()))
    if pa.types.is_integer(values.type):
        seen.n_integers = len(x)
        seen.n_wide = int(np.count_nonzero(np.abs(x) >= arrow.WHOLE))
    elif pa.types.is_decimal(values.type):
        is_wide, is_whole = arrow.digits_lost(values)
        seen.n_integers, seen.n_wide = int(is_whole.sum()), int(is_wide.sum())
    return seen


def _times(values: pa.Array, path: str) -> Values:
    return _measured(values, values.to_numpy(), 0)


def _measured(values: pa.Array, x: Array, n_integers: int) -> Values:
    counts = _counts(values)
    mean = x.mean()
    squares = float(np.square(x - mean).sum())
    smallest, largest = _ends(values, counts)
    return Values(len(x), counts, smallest, largest, float(mean), squares, n_integers)


def _booleans(values: pa.Array, path: str) -> Values:
    counts = _counts(values)
    return Values(len(values), counts, *_ends(values, counts))


def _texts(values: pa.Array, path: str) -> Values:
    counts = _counts(values)
    if counts is not None and max(map(len, counts)) > LONGEST:
        counts = None
    if counts is not None:  # each distinct text once
        distinct, n = pa.array(list(counts), pa.large_string()), list(counts.values())
        n_words = int(np.dot(arrow.as_numpy(pc.count_substring_regex(distinct, _WORD)), n))
        return Values(len(values), counts, *_ends(values, counts), n_words=n_words)
    values = values.cast(pa.large_string())
    ends = _ends(pc.utf8_slice_codeunits(values, 0, LONGEST), None)
    n_words = pc.sum(pc.count_substring_regex(values, _WORD), min_count=0).as_py()
    is_short = pc.less_equal(pc.utf8_length(values), LONGEST)
    distinct, n = pc.value_counts(values.filter(is_short)).flatten()
    longer = values.filter(pc.invert(is_short))
    first = pc.min(longer).as_py()[:LONGEST] if len(longer) else None
    readings = _readings(distinct.to_pylist(), n.to_pylist(), first)
    return Values(len(values), None, *ends, n_words=int(n_words), readings=readings)


_PROFILE: dict[str, Callable[[pa.Array, str], Seen]] = {
    "number": _numbers,
    "boolean": _booleans,
    "text": _texts,
    "time": _times,
    "record": _records,
    "bag": _bags,
}


def _counts(values: pa.Array) -> dict[Scalar, int] | None:
    """How often each value occurs, None if there are too many distinct ones."""
    if pa.types.is_integer(values.type):
        least, most = (bound.as_py() for bound in pc.min_max(values).values())
        if most - least < MAX_VALUES:  # faster than hashing
            x = values.to_numpy()
            wide = x if x.dtype == np.uint64 else x.astype(np.int64)
            n_of = np.bincount((wide - wide.dtype.type(least)).astype(np.int64)).tolist()
            return {least + i: n for i, n in enumerate(n_of) if n}
    look = 2 * MAX_VALUES  # the first values show whether there are many more
    if len(values) > 5 * look and len(pc.unique(values[:look])) > MAX_VALUES:
        return None
    pairs = pc.value_counts(values)
    counts: dict[Scalar, int] = {}
    if len(pairs) <= 2 * MAX_VALUES:  # Arrow tells 0.0 and -0.0 apart
        distinct, n = pairs.flatten()
        for value, n_equal in zip(distinct.to_pylist(), n.to_pylist(), strict=True):
            value = _simplest(value)
            counts[value] = counts.get(value, 0) + n_equal
    return counts if 0 < len(counts) <= MAX_VALUES else None


def _simplest(value: Scalar) -> Scalar:
    """A value, with whole numbers that floats tell apart as ints, and no decimals."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < arrow.WHOLE:
        return int(value)
    return value


def _ends(
    values: pa.Array, counts: dict[Scalar, int] | None
) -> tuple[tuple[Scalar, ...], Scalar | None]:
    """The smallest values, and the largest one."""
    if counts is not None:
        in_order = sorted(counts)
        return tuple(in_order[:N_SMALLEST]), in_order[-1]
    if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        x = values.to_numpy()
        smallest, largest = [x.min()], x.max()
        while len(smallest) < N_SMALLEST and smallest[-1] < largest:
            smallest.append(x.min(where=x > smallest[-1], initial=largest))
        return tuple(value.item() for value in smallest), largest.item()
    least, most = pc.min_max(values).values()
    smallest, left = [least], values
    while len(smallest) < N_SMALLEST:
        left = left.filter(pc.greater(left, smallest[-1]))
        if not len(left):
            break
        smallest.append(pc.min(left))
    return tuple(_simplest(each.as_py()) for each in smallest), _simplest(most.as_py())
