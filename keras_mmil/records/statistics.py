"""What was seen at the places of nested records: counts that can be merged.

Merging is associative, and keeps nothing that depends on how records came in batches: the
statistics of two parts, merged, are those of the whole (moments up to rounding).
"""

import functools
import re
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeAlias

__all__ = [
    "LONGEST",
    "MAX_COUNTED",
    "MAX_FIELDS",
    "MAX_POSITIONS",
    "MAX_VALUES",
    "N_SMALLEST",
    "TIME",
    "TYPES",
    "WORD",
    "Bags",
    "ByKey",
    "Observed",
    "Records",
    "Scalar",
    "Seen",
    "Values",
]

MAX_VALUES = 10_000  # distinct values of a place that are counted
MAX_FIELDS = 10_000  # distinct keys of the records at a place that are told apart
MAX_COUNTED = 10_000_000  # distinct values, at most, of all fields of the records at a place
MAX_POSITIONS = 1_000  # members of lists of one length that are told apart by their positions
LONGEST = 200  # characters of a text that is counted as a value
N_SMALLEST = 3
TYPES = ("number", "boolean", "text", "time", "record", "bag")

# The same in Python's regular expressions and in Arrow's.
WORD = r"[^ \t\n\v\f\r]+"
TIME = (  # ISO 8601
    r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
    r"([T ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.,][0-9]+)?)?"
    r"(Z|[+-][0-9]{2}(:?[0-5][0-9])?)?)?"
)

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
        n_times: how many of the texts are dates or times in the form of ISO 8601.
        n_words: words in all texts.
    """

    count: int = 0
    counts: dict[Scalar, int] | None = field(default_factory=dict)
    smallest: tuple[Scalar, ...] = ()
    largest: Scalar = None
    mean: float = 0.0
    squares: float = 0.0
    n_integers: int = 0
    n_times: int = 0
    n_words: int = 0

    @property
    def n_distinct(self) -> int | None:
        """Number of distinct values, None if they are not counted."""
        return None if self.counts is None else len(self.counts)

    def merged(self, other: Self) -> Self:
        """The statistics of both."""
        count = self.count + other.count
        if not (self.count and other.count):
            return self if self.count else other
        distance = other.mean - self.mean
        return type(self)(
            count=count,
            counts=_merged_counts(self.counts, other.counts),
            smallest=tuple(sorted({*self.smallest, *other.smallest})[:N_SMALLEST]),
            largest=max(self.largest, other.largest),
            mean=self.mean + distance * other.count / count,
            squares=self.squares + other.squares + distance**2 * (self.count * other.count / count),
            n_integers=self.n_integers + other.n_integers,
            n_times=self.n_times + other.n_times,
            n_words=self.n_words + other.n_words,
        )


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
            type_: replace(seen, counts=None)
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
        n_times=count if re.fullmatch(TIME, key) else 0,
        n_words=count * len(re.findall(WORD, key)),
    )


def _merged_counts(
    one: dict[Scalar, int] | None, two: dict[Scalar, int] | None
) -> dict[Scalar, int] | None:
    if one is None or two is None:
        return None
    merged = dict(one)
    for value, n in two.items():
        merged[value] = merged.get(value, 0) + n
    return merged if len(merged) <= MAX_VALUES else None
