"""Rules over a table of labels, in a form that all languages share; and that table.

The table has a row for every record: top-bags, and all that is in them.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from keras_mmil._support.files import atomic_write
from keras_mmil._support.formatting import double_bound
from keras_mmil._support.types import Array, Config, Ints, PathLike
from keras_mmil.rules.explain.reading import Reading
from keras_mmil.rules.network.nesting import expand
from keras_mmil.rules.trees.columns import ABSENT, MISSING, Column
from keras_mmil.rules.trees.fields import Field
from keras_mmil.rules.trees.level import Clusters, Level, all_clusters, titles
from keras_mmil.rules.trees.rule_set import Condition, Rule

__all__ = [
    "COLUMNS",
    "Criterion",
    "Kind",
    "Program",
    "Quantity",
    "labels_table",
    "one_line",
    "program",
]

# Of the table, before those of fields.
COLUMNS = ("kind", "id", "bag", "weight", "cluster")

_INDICATORS = ("occurrence", "category", "token")
_TOP = "top"  # added to the name of top-bags where members of them have the same name
_MISSING = float(np.float32(MISSING))


@dataclass(frozen=True)
class Quantity:
    """What a condition is about.

    Attributes:
        measure: of members of a bag, by their cluster: "occurrence", "frequency", "count",
            "weight"; of a field: "number", "statistic", "boolean", "time", "category", "token".
        name: of the cluster, or of the field.
        members: which kind of records the members are; None for a field.
        column: of the table.
        value: the category or token to compare with, None for a missing value; of a time, which
            part of it.
    """

    measure: str
    name: str
    members: str | None
    column: str
    value: str | int | None

    @property
    def is_value(self) -> bool:
        """Whether it is one value of a categorical field."""
        return self.measure == "category" and self.value is not None

    def to_dict(self) -> Config:
        """For JSON."""
        return vars(self)


@dataclass(frozen=True)
class Criterion:
    """A condition in which no number stands for missing or infinite values.

    Attributes:
        quantity: what it is about.
        text: the condition in words, or in the syntax of the paper.
        wanted: the value that an "occurrence", "category" or "token" has to have; None for numbers.
        above: the number has to be greater; None for no bound.
        at_most: the number must not be greater; None for no bound.
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
        """For JSON."""
        return {**vars(self), "quantity": self.quantity.to_dict()}


@dataclass(frozen=True)
class Kind:
    """One kind of records.

    Attributes:
        name: in the table.
        clusters: of these records, as members of bags; None for top-bags.
        level: the rules that label them; None where the table has to hold their clusters.
        columns: of the table, for each field one or, for a time, several.
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
        """The rules that the class of any top-bag can depend on: label, text, and conditions."""
        if self.level is None:
            return
        for rule, criteria in self.rules:
            if self.level.rules.needed[rule.conclusion]:
                yield self.labels[rule.conclusion], self.level.rules.clause(rule), criteria

    @property
    def quantities(self) -> list[Quantity]:
        """The quantities in those rules, each once."""
        result = (each.quantity for _, _, criteria in self.needed for each in criteria)
        return list(dict.fromkeys(result))


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
        """Those that rules label, and on which the class of any top-bag can depend."""
        return [kind for kind in self.kinds if any(True for _ in kind.needed)]

    @property
    def given(self) -> list[str]:
        """Names of those whose clusters the table has to hold."""
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
        members = clusters[index] if index < len(clusters) else None
        level = by_record.get(index)
        if level is None:
            assert members is not None
            kinds.append(Kind(name, members, None, (), members.names))
            continue
        path = members.path if members else ""
        columns = tuple(_column_names(path, field, taken) for field in level.space.fields)
        rules = _rules(level, columns, names)
        kinds.append(Kind(name, members, level, columns, level.rules.names, rules))
    return Program(tuple(kinds))


def _column_names(path: str, field: Field, taken: set[str]) -> tuple[str, ...]:
    """The columns of a field, added to `taken`: no two names differ in case only."""
    name = f"{path}.{field.name}" if path else field.name
    names = [f"{name}.{column.value}" for column in field.columns if field.kind == "time"]
    result = []
    for each in names or [name or "_"]:  # DuckDB has no columns without a name
        result.append(_free(each, taken))
        taken.add(result[-1].lower())
    return tuple(result)


def _free(name: str, taken: Collection[str]) -> str:
    """A name, with a number appended if it is taken."""
    free, n = name, 1
    while free in taken or free.lower() in taken:
        n += 1
        free = f"{name}_{n}"
    return free


def one_line(text: str) -> str:
    """A text that fits into a comment of any language."""
    return " ".join(text.replace("\0", "\\0").split())


def _rules(
    level: Level, columns_of: Sequence[tuple[str, ...]], names: Sequence[str]
) -> tuple[tuple[Rule, tuple[Criterion, ...]], ...]:
    quantities = [
        Quantity(column.feature, column.name, names[bag.level], "cluster", None)
        for bag in level.clusters
        for column in bag.columns
    ]
    for field, columns in zip(level.space.fields, columns_of, strict=True):
        at = columns if field.kind == "time" else columns * len(field.columns)
        quantities += [
            Quantity(column.feature, column.name, None, name, column.value)
            for column, name in zip(field.columns, at, strict=True)
        ]
    return tuple(
        (rule, tuple(_criteria(rule.conditions, level.space.columns, quantities)))
        for rule in level.rules
    )


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


# The table ---------------------------------------------------------------------------------------


def labels_table(
    levels: Sequence[Level], reading: Reading, path: PathLike | None = None
) -> pa.Table:
    """The table of some top-bags, also written to a Parquet file; see `Explainer.labels_table`."""
    kinds = program(levels).kinds
    types = {"kind": pa.string(), "id": pa.int64(), "bag": pa.int64(), "weight": pa.float64()}
    types["cluster"] = pa.string()
    for kind in kinds:
        fields = kind.level.space.fields if kind.level else ()
        for field, names in zip(fields, kind.columns, strict=True):
            is_text = field.kind in ("category", "text")
            types |= dict.fromkeys(names, pa.string() if is_text else pa.float64())
    schema = pa.schema(types)
    parts = [
        pa.table({name: pa.array(x, types[name]) for name, x in part.items()})
        for part in _parts(kinds, reading)
    ]
    # Columns that a kind of records does not have are null.
    table = pa.concat_tables(parts, promote_options="default").select(list(types)).cast(schema)
    if path is not None:
        with atomic_write(path) as part:
            pyarrow.parquet.write_table(table, part)
    return table


def _parts(kinds: Sequence[Kind], reading: Reading) -> list[dict[str, Any]]:
    """The columns of each kind of records."""
    result = []
    for here, kind in zip(expand(reading.nestings, reading.parents), kinds, strict=False):
        bags = np.repeat(np.arange(len(here.row_splits) - 1), np.diff(here.row_splits))
        result.append(_columns(kind, here.rows, reading, bag=bags, weight=here.weights))
    top = np.arange(len(reading.network))
    nothing = np.full(len(top), None)
    result.append(_columns(kinds[-1], top, reading, bag=nothing, weight=np.ones(len(top))))
    return result


def _columns(
    kind: Kind, rows: Ints, reading: Reading, *, bag: Array, weight: Array
) -> dict[str, Any]:
    cluster = np.full(len(rows), None)
    if kind.level is None and kind.clusters is not None:
        nearest = reading.nearest[kind.clusters.level][rows]
        cluster = np.array(kind.labels, object)[nearest]
    values = (np.full(len(rows), kind.name, object), np.arange(len(rows)), bag, weight, cluster)
    result: dict[str, Any] = dict(zip(COLUMNS, values, strict=True))
    if kind.level is None:
        return result
    raw = reading.values[kind.level.record]
    for field, names, of_rows in zip(kind.level.space.fields, kind.columns, raw, strict=True):
        result |= zip(names, (x[rows] for x in field.exported(of_rows)), strict=True)
    return result
