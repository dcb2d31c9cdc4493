"""What was seen at the places of nested records: counts that can be merged.

Merging is associative, and keeps nothing that depends on how records came in batches: the
statistics of two parts, merged, are those of the whole (moments up to rounding).
"""

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keras_mmil._support.types import Floats, Ints
from keras_mmil.records import forms

__all__ = [
    "LONGEST",
    "MAX_COUNTED",
    "MAX_FIELDS",
    "MAX_OTHERS",
    "MAX_POSITIONS",
    "MAX_VALUES",
    "N_SMALLEST",
    "TYPES",
    "WORD",
    "Bags",
    "ByKey",
    "Observed",
    "Reading",
    "Records",
    "Scalar",
    "Seen",
    "Values",
    "readings",
]

MAX_VALUES = 10_000  # distinct values of a place that are counted
MAX_FIELDS = 10_000  # distinct keys of the records at a place that are told apart
MAX_COUNTED = 10_000_000  # distinct values, at most, of all fields of the records at a place
MAX_POSITIONS = 1_000  # members of lists of one length that are told apart by their positions
MAX_OTHERS = 20  # distinct texts beside those of a form that are counted
LONGEST = 200  # characters of a text that is counted as a value
N_SMALLEST = 3
TYPES = ("number", "boolean", "text", "time", "record", "bag")

WORD = r"[^ \t\n\v\f\r]+"  # the same in Python's regular expressions and in Arrow's
_EXACT = 2.0**53  # floats below it tell integers apart

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
        mean, squares: mean, and sum of the squared distances from it; of numbers and times (in
            seconds since 1970), else 0.
        n_integers: how many of the numbers are integers.
        n_wide: how many of the numbers have more digits than float64 holds: integers above 2⁵³,
            and decimals.
        n_words: words in all texts.
        readings: of texts that are not counted, how they can be read otherwise: see `as_forms`.
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

    @functools.cached_property
    def as_forms(self) -> "dict[str, Reading]":
        """What the texts are, read as numbers, booleans or times, in each form that some have."""
        if self.counts is None or not isinstance(self.largest, str):
            return self.readings
        return readings(list(self.counts), list(self.counts.values()))

    def none_read(self) -> "Reading":
        """What there is of a form that none of the texts have."""
        few = None if self.counts is None else _few(self.counts)
        return Reading(Values(), few, self.smallest[0])

    def uncounted(self) -> Self:
        """The same, where distinct values are not counted."""
        return replace(self, counts=None, readings=self.as_forms)

    def merged(self, other: Self) -> Self:
        """The statistics of both."""
        count = self.count + other.count
        if not (self.count and other.count):
            return self if self.count else other
        distance = other.mean - self.mean
        counts = _merged_counts(self.counts, other.counts)
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
    """Texts, read in one of `forms.FORMS`.

    Attributes:
        values: those of the form: statistics of numbers, booleans or times.
        others: the texts that are not of the form, and how often each was seen; None if there are
            over `MAX_OTHERS` distinct ones, or some are longer than `LONGEST`.
        example: the first of them in sorted order, cut at `LONGEST`; empty if there are none.
    """

    values: Values
    others: dict[str, int] | None = field(default_factory=dict)
    example: str = ""

    def merged(self, other: Self) -> Self:
        """The statistics of both."""
        examples = [each.example for each in (self, other) if each.others != {}]
        return type(self)(
            self.values.merged(other.values),
            _few(_summed(self.others, other.others)),
            min(examples, default=""),
        )


def readings(
    texts: Sequence[str], counts: Sequence[int], longer: str | None = None
) -> dict[str, Reading]:
    """Distinct texts in each form that some of them have.

    Args:
        texts: distinct ones, of at most `LONGEST` characters.
        counts: how often each was seen.
        longer: the first in sorted order of others, which are longer, cut at `LONGEST`; None if
            there are none.
    """
    array, n = pa.array(texts, pa.large_string()), np.asarray(counts, np.int64)
    may_be = forms.candidates(array)
    some = array.take(pa.array(may_be))
    found: dict[str, Reading] = {}
    for form, type_ in forms.FORMS.items() if len(may_be) else ():
        x = forms.parsed(some, form)
        is_read = ~np.isnan(x)
        if is_read.any():
            is_other = np.ones(len(array), bool)
            is_other[may_be[is_read]] = False
            at = np.flatnonzero(is_other)
            is_few = longer is None and len(at) <= MAX_OTHERS
            others = {texts[i]: counts[i] for i in at.tolist()} if is_few else None
            first = pc.min(array.take(pa.array(at))).as_py()
            example = min((text for text in (first, longer) if text is not None), default="")
            found[form] = Reading(
                _values_of(type_, x[is_read], n[may_be[is_read]]), others, example
            )
    return found


def _few(texts: dict[str, int] | None) -> dict[str, int] | None:
    return texts if texts is not None and len(texts) <= MAX_OTHERS else None


def _values_of(type_: str, x: Floats, n: Ints) -> Values:
    """The statistics of numbers, booleans or times.

    Args:
        x: finite floats.
        n: how often each was seen.
    """
    distinct, place = np.unique(x, return_inverse=True)
    n = np.bincount(place, n).astype(np.int64)
    is_whole = distinct == np.floor(distinct)
    values = [
        bool(value)
        if type_ == "boolean"
        else int(value)
        if whole and abs(value) < _EXACT
        else value
        for value, whole in zip(distinct.tolist(), is_whole.tolist(), strict=True)
    ]
    count = int(n.sum())
    mean = 0.0 if type_ == "boolean" else float(np.dot(distinct, n) / count)
    squares = 0.0 if type_ == "boolean" else float(np.dot(np.square(distinct - mean), n))
    return Values(
        count=count,
        counts=dict(zip(values, n.tolist(), strict=True)) if len(values) <= MAX_VALUES else None,
        smallest=tuple(values[:N_SMALLEST]),
        largest=values[-1],
        mean=mean,
        squares=squares,
        n_integers=int(n[is_whole].sum()) if type_ == "number" else 0,
    )


def _merged_readings(one: Values, two: Values) -> dict[str, Reading]:
    """The readings of texts that are not counted."""
    found: dict[str, Reading] = {}
    for form in forms.FORMS:
        parts = [each.as_forms.get(form) for each in (one, two)]
        if any(parts):
            first, second = (
                part or each.none_read() for part, each in zip(parts, (one, two), strict=True)
            )
            found[form] = first.merged(second)
    return found


@dataclass
class ByKey:
    """The entries of records whose keys are not told apart.

    Attributes:
        keys: which keys were seen.
        each: what was seen at all of them.
    """

    keys: Values = field(default_factory=Values)
    each: "Observed" = field(default_factory=lambda: Observed())

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

    count: int = 0
    fields: dict[str, "Observed"] = field(default_factory=dict)
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
            name: self.fields.get(name, Observed(self.count)).merged(
                other.fields.get(name, Observed(other.count))
            )
            for name in {**self.fields, **other.fields}
        }
        return type(self)(count, fields)

    def entries(self) -> ByKey:
        """The statistics of keys and values, as of a bag."""
        if self.by_key is not None:
            return self.by_key
        entries = [
            ByKey(_of_key(name, seen.n_present), Observed(seen.n_present, seen.by_type))
            for name, seen in self.fields.items()
            if seen.n_present
        ]
        while len(entries) > 1:  # in pairs, for merging takes as long as there are keys
            last = entries[len(entries) // 2 * 2 :]
            entries = [a.merged(b) for a, b in zip(entries[::2], entries[1::2], strict=False)]
            entries += last
        return entries[0] if entries else ByKey()


@dataclass
class Bags:
    """Bags: JSON arrays, lists.

    Attributes:
        lengths: their numbers of members.
        members: what was seen of their members.
        positions: what was seen at each position, where all that are not empty have one length,
            from 2 to `MAX_POSITIONS`, and the members are scalars; else none.
        is_fixed: whether their length was fixed by a type.
    """

    lengths: Values = field(default_factory=Values)
    members: "Observed" = field(default_factory=lambda: Observed())
    positions: tuple["Observed", ...] = ()
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
        positions: tuple[Observed, ...] = ()
        if not (self.largest and other.largest):  # one of them has empty lists alone
            positions = self.positions or other.positions
        elif len(self.positions) == len(other.positions) and _are_scalars(members):
            pairs = zip(self.positions, other.positions, strict=True)
            positions = tuple(one.merged(two) for one, two in pairs)
        is_fixed = self.is_fixed or other.is_fixed
        return type(self)(self.lengths.merged(other.lengths), members, positions, is_fixed)


@dataclass
class Observed:
    """What was seen at one place of the records.

    Attributes:
        count: how often something could have been there.
        by_type: what was there, by its type, in the order of `TYPES`. The rest is missing: null,
            NaN, infinite (as float32), or absent.
        key: of keys of linked tables "to customers.id" or "of customers"; else empty.
    """

    count: int = 0
    by_type: dict[str, "Seen"] = field(default_factory=dict)
    key: str = ""

    @property
    def n_present(self) -> int:
        """How often something was there."""
        return sum(seen.count for seen in self.by_type.values())

    @property
    def share_missing(self) -> float:
        """Share of the places with nothing there; 0 where there is no place."""
        return 1 - self.n_present / self.count if self.count else 0.0

    def counted(self, limit: int) -> Self:
        """The same, where more distinct values than the limit are not counted."""
        by_type = {
            type_: seen.uncounted()
            if isinstance(seen, Values) and (seen.n_distinct or 0) > limit
            else seen
            for type_, seen in self.by_type.items()
        }
        return replace(self, by_type=by_type)

    def merged(self, other: Self) -> Self:
        """The statistics of both."""
        by_type: dict[str, Seen] = {}
        for type_ in TYPES:
            parts = [each.by_type[type_] for each in (self, other) if type_ in each.by_type]
            if parts:
                by_type[type_] = functools.reduce(_merged, parts)
        return type(self)(self.count + other.count, by_type, self.key or other.key)


Seen: TypeAlias = Values | Records | Bags


def _are_scalars(members: Observed) -> bool:
    return members.by_type.keys().isdisjoint(("record", "bag"))


def _merged(one: Seen, two: Seen) -> Seen:
    if isinstance(one, Values) and isinstance(two, Values):
        return one.merged(two)
    if isinstance(one, Records) and isinstance(two, Records):
        return one.merged(two)
    if isinstance(one, Bags) and isinstance(two, Bags):
        return one.merged(two)
    raise TypeError(f"Expected statistics of one type. Received: {one} and {two}")


def _of_key(key: str, count: int) -> Values:
    """The statistics of a key that was seen so often."""
    shown = key[:LONGEST]
    return Values(
        count=count,
        counts={key: count} if len(key) <= LONGEST else None,
        smallest=(shown,),
        largest=shown,
        n_words=count * len(re.findall(WORD, key)),
    )


def _merged_counts(
    one: dict[Scalar, int] | None, two: dict[Scalar, int] | None
) -> dict[Scalar, int] | None:
    merged = _summed(one, two)
    return merged if merged is not None and len(merged) <= MAX_VALUES else None


def _summed(
    one: dict[Scalar, int] | None, two: dict[Scalar, int] | None
) -> dict[Scalar, int] | None:
    if one is None or two is None:
        return None
    merged = dict(one)
    for value, n in two.items():
        merged[value] = merged.get(value, 0) + n
    return merged
