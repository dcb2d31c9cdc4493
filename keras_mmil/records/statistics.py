"""What was seen at the places of nested records: counts that can be merged.

Merging is associative, and keeps nothing that depends on how records came in batches: the
statistics of two parts, merged, are those of the whole (moments up to rounding).
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Self

__all__ = [
    "LONGEST",
    "MAX_FIELDS",
    "MAX_VALUES",
    "N_SMALLEST",
    "TYPES",
    "Bags",
    "Observed",
    "Records",
    "Values",
]

MAX_VALUES = 10_000  # distinct values of a place that are counted
MAX_FIELDS = 1_000  # distinct keys of the records at a place that are told apart
LONGEST = 200  # characters of a text that is counted as a value
N_SMALLEST = 3
TYPES = ("number", "boolean", "text", "time", "record", "bag")


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
    counts: dict[Hashable, int] | None = field(default_factory=dict)
    smallest: tuple = ()
    largest: float | str | bool | None = None
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
class Records:
    """Records: JSON objects, structs.

    Attributes:
        count: how many.
        fields: what was seen at each key, in the order in which keys were first seen. Each of them
            has been looked for in all records.
        keys: which keys were seen; None as long as `fields` tells them apart.
        each: where `fields` does not tell keys apart, what was seen at all of them.
    """

    count: int = 0
    fields: dict[str, "Observed"] = field(default_factory=dict)
    keys: Values | None = None
    each: "Observed | None" = None

    def __post_init__(self) -> None:
        if self.keys is None and len(self.fields) > MAX_FIELDS:
            self._collapse()

    def merged(self, other: Self) -> Self:
        """The statistics of both."""
        if self.keys is not None or other.keys is not None:
            one, two = self.collapsed(), other.collapsed()
            return type(self)(
                self.count + other.count,
                keys=one.keys.merged(two.keys),
                each=one.each.merged(two.each),
            )
        names = dict.fromkeys([*self.fields, *other.fields])
        fields = {
            name: self.fields.get(name, Observed(self.count)).merged(
                other.fields.get(name, Observed(other.count))
            )
            for name in names
        }
        return type(self)(self.count + other.count, fields)

    def collapsed(self) -> Self:
        """The same without telling keys apart: as bags of values by key."""
        if self.keys is not None:
            return self
        copy = type(self)(self.count)
        copy.fields = dict(self.fields)
        copy._collapse()
        return copy

    def _collapse(self) -> None:
        counts = {name: seen.n_present for name, seen in self.fields.items() if seen.n_present}
        self.keys, self.each = Values(), Observed()
        for name, seen in self.fields.items():
            if seen.n_present:
                self.keys = self.keys.merged(key_values({name: counts[name]}))
                present = Observed(seen.n_present, seen.by_type)
                self.each = self.each.merged(present)
        self.fields = {}


@dataclass
class Bags:
    """Bags: JSON arrays, lists.

    Attributes:
        count: how many.
        members: what was seen of their members.
        largest: the greatest number of members.
    """

    count: int = 0
    members: "Observed" = field(default_factory=lambda: Observed())
    largest: int = 0

    def merged(self, other: Self) -> Self:
        """The statistics of both."""
        return type(self)(
            self.count + other.count,
            self.members.merged(other.members),
            max(self.largest, other.largest),
        )


@dataclass
class Observed:
    """What was seen at one place of the records.

    Attributes:
        count: how often something could have been there.
        by_type: what was there, by its type, one of `TYPES`. The rest is missing: null, NaN,
            infinite, or absent.
    """

    count: int = 0
    by_type: dict[str, Values | Records | Bags] = field(default_factory=dict)

    @property
    def n_present(self) -> int:
        """How often something was there."""
        return sum(seen.count for seen in self.by_type.values())

    @property
    def share_missing(self) -> float:
        """Share of the places with nothing there; 0 where there is no place."""
        return 1 - self.n_present / self.count if self.count else 0.0

    def merged(self, other: Self) -> Self:
        """The statistics of both."""
        by_type = {}
        for type_ in TYPES:
            parts = [each.by_type[type_] for each in (self, other) if type_ in each.by_type]
            if parts:
                by_type[type_] = parts[0] if len(parts) == 1 else parts[0].merged(parts[1])
        return type(self)(self.count + other.count, by_type)


def key_values(counts: dict[str, int]) -> Values:
    """The statistics of keys, from how often each was seen."""
    return Values(
        count=sum(counts.values()),
        counts=counts if len(counts) <= MAX_VALUES else None,
        smallest=tuple(sorted(counts)[:N_SMALLEST]),
        largest=max(counts, default=None),
    )


def _merged_counts(
    one: dict[Hashable, int] | None, two: dict[Hashable, int] | None
) -> dict[Hashable, int] | None:
    if one is None or two is None:
        return None
    merged = dict(one)
    for value, n in two.items():
        merged[value] = merged.get(value, 0) + n
    return merged if len(merged) <= MAX_VALUES else None
