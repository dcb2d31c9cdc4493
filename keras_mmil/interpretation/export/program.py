"""Rules over a table of labels: what all languages that they are written in share.

The table has a row for every record there is: top-bags, and all that is in them. See `RowColumns`.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from keras_mmil._support.formatting import double_bound
from keras_mmil._support.types import Config
from keras_mmil.interpretation.rules.columns import ABSENT, MISSING, Column
from keras_mmil.interpretation.rules.fields import Field
from keras_mmil.interpretation.rules.level import Clusters, Level, all_clusters, titles
from keras_mmil.interpretation.rules.rule import Condition, Rule

__all__ = ["COLUMNS", "Criterion", "Kind", "Program", "Quantity", "one_line", "program"]

# Of the table, before those of fields.
COLUMNS = ("kind", "id", "bag", "weight", "cluster")

_INDICATORS = ("occurrence", "category", "token")
_TOP = "top"  # what top-bags are told apart by where members of them have their name
_MISSING = float(np.float32(MISSING))


@dataclass(frozen=True)
class Quantity:
    """What a condition is about.

    Attributes:
        measure: of members of a bag, by their cluster: "occurrence", "frequency", "count",
            "weight"; of a field: "number", "boolean", "time", "category", "token".
        name: of the cluster, or of the field.
        members: which kind of records the members are; None for a field.
        column: of the table.
        value: the category or token that the value is compared with, None for a missing value; of a
            time, which part of it.
    """

    measure: str
    name: str
    members: str | None
    column: str
    value: str | int | None

    def to_dict(self) -> Config:
        """As JSON knows it."""
        return vars(self)


@dataclass(frozen=True)
class Criterion:
    """A condition without tricks: no number stands for what is missing or for infinity.

    Attributes:
        quantity: what it is about.
        text: the condition in words, or in the syntax of the paper.
        wanted: of what is true or false ("occurrence", "category", "token"): which it has to be;
            None of numbers.
        above: the number has to be greater; None for no bound.
        at_most: the number may not be greater; None for no bound.
        present: whether the condition holds for numbers within the bounds at all.
        missing: whether it holds where the number is missing.
    """

    quantity: Quantity
    text: str
    wanted: bool | None = None
    above: float | None = None
    at_most: float | None = None
    present: bool = True
    missing: bool = False

    def to_dict(self) -> Config:
        """As JSON knows it."""
        return {**vars(self), "quantity": self.quantity.to_dict()}


@dataclass(frozen=True)
class Kind:
    """One kind of records.

    Attributes:
        name: in the table.
        clusters: of these records, as members of bags; None for top-bags.
        level: the rules that label them; None where the table has to say their clusters.
        columns: of the table, for each field and each number that is known of it.
        labels: names of the clusters, or classes.
        rules: each with the conditions that all have to hold.
    """

    name: str
    clusters: Clusters | None
    level: Level | None
    columns: tuple[tuple[str, ...], ...]
    labels: tuple[str, ...]
    rules: tuple[tuple[Rule, tuple[Criterion, ...]], ...] = ()

    @property
    def word(self) -> str:
        """What one of the records is called."""
        return self.level.word if self.level else self.name

    @property
    def needed(self) -> Iterator[tuple[str, str, tuple[Criterion, ...]]]:
        """The rules that the class of any top-bag can depend on.

        For each the label that it gives, its text, and its conditions.
        """
        if self.level is None:
            return
        for rule, criteria in self.rules:
            if self.level.rules.needed[rule.conclusion]:
                yield self.labels[rule.conclusion], self.level.rules.clause(rule), criteria

    @property
    def quantities(self) -> list[Quantity]:
        """What those rules are about, each once."""
        found = (each.quantity for _, _, criteria in self.needed for each in criteria)
        return list(dict.fromkeys(found))


@dataclass(frozen=True)
class Program:
    """All rules.

    Attributes:
        kinds: of records, each after those that are in it; the last is that of the top-bags.
    """

    kinds: tuple[Kind, ...]

    @property
    def top(self) -> Kind:
        """The top-bags."""
        return self.kinds[-1]

    @property
    def labelled(self) -> list[Kind]:
        """Those that rules label, as far as the class of any top-bag can depend on it."""
        return [kind for kind in self.kinds if any(True for _ in kind.needed)]

    @property
    def given(self) -> list[str]:
        """Names of those whose clusters the rules need the table to say."""
        named = {q.members for kind in self.kinds for q in kind.quantities}
        return [kind.name for kind in self.kinds if kind.level is None and kind.name in named]


def program(levels: Sequence[Level]) -> Program:
    """The rules of some levels, from the instances upwards."""
    clusters = all_clusters(levels)
    top = levels[-1]
    names: list[str] = []
    for title in titles(clusters):
        names.append(_free(title, names))
    names.append(_free(f"{top.word} ({_TOP})" if top.word in names else top.word, names))
    by_record = {level.record: level for level in levels}
    taken = set(COLUMNS)
    kinds = []
    for index, name in enumerate(names):
        level = by_record.get(index)
        fields = level.space.fields if level else ()
        path = clusters[index].path if index < len(clusters) else ""
        kind = Kind(
            name=name,
            clusters=clusters[index] if index < len(clusters) else None,
            level=level,
            columns=tuple(_column_names(path, field, taken) for field in fields),
            labels=level.rules.names if level else clusters[index].names,
            rules=(),
        )
        kinds.append(_with_rules(kind, names))
    return Program(tuple(kinds))


def _column_names(path: str, field: Field, taken: set[str]) -> tuple[str, ...]:
    """The columns of a field, which are then taken: no two differ in upper and lower case only."""
    name = f"{path}.{field.name}" if path else field.name
    names = [f"{name}.{column.value}" for column in field.columns if field.kind == "time"]
    found = []
    for each in names or [name or "_"]:  # DuckDB has no columns without a name
        found.append(_free(each, taken))
        taken.add(found[-1].lower())
    return tuple(found)


def _free(name: str, taken: Collection[str]) -> str:
    """A name, with a number behind it where it is taken."""
    free, n = name, 1
    while free in taken or free.lower() in taken:
        n += 1
        free = f"{name}_{n}"
    return free


def one_line(text: str) -> str:
    """A text as a comment may hold it in any language."""
    return " ".join(text.replace("\0", "\\0").split())


def _with_rules(kind: Kind, names: Sequence[str]) -> Kind:
    level = kind.level
    if level is None:
        return kind
    quantities = [
        Quantity(column.feature, column.name, names[bag.level], "cluster", None)
        for bag in level.clusters
        for column in bag.columns
    ]
    for field, columns in zip(level.space.fields, kind.columns, strict=True):
        at = columns if field.kind == "time" else columns * len(field.columns)
        quantities += [
            Quantity(column.feature, column.name, None, name, column.value)
            for column, name in zip(field.columns, at, strict=True)
        ]
    rules = tuple(
        (rule, tuple(_criteria(rule.conditions, level.space.columns, quantities)))
        for rule in level.rules
    )
    return Kind(**{**vars(kind), "rules": rules})


def _criteria(
    conditions: Sequence[Condition], columns: Sequence[Column], quantities: Sequence[Quantity]
) -> Iterator[Criterion]:
    for condition in conditions:
        quantity, low, high = quantities[condition.column], condition.low, condition.high
        text = condition.text(columns)
        if quantity.measure in _INDICATORS:
            if low >= 0 or high < 1:  # else it always holds
                yield Criterion(quantity, text, wanted=low >= 0)
        elif quantity.measure == "count":
            least = None if low < 0 else int(np.floor(low))
            most = int(np.floor(high)) if np.isfinite(high) else None
            yield Criterion(quantity, text, above=least, at_most=most)
        elif quantity.members is not None:
            # Above 0 is any at all, and at most 0 is none.
            above = None if low < 0 else double_bound(low) if low else 0.0
            at_most = _finite(double_bound(high)) if high else 0.0
            yield Criterion(quantity, text, above=above, at_most=at_most)
        else:
            present = high >= ABSENT
            yield Criterion(
                quantity,
                text,
                above=double_bound(low) if present and low >= ABSENT else None,
                at_most=_finite(double_bound(high)) if present else None,
                present=present,
                missing=low < _MISSING <= high,
            )


def _finite(bound: float) -> float | None:
    return bound if np.isfinite(bound) else None
