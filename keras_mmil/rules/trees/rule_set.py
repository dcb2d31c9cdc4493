"""Rules as data: conditions, rules, the rules of one level, and definitions of clusters."""

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, asdict, dataclass
from functools import cached_property

import numpy as np

from keras_mmil._support.formatting import percent, share
from keras_mmil._support.types import Array, Config, Ints
from keras_mmil.rules.trees.columns import Column, alike, one_of
from keras_mmil.rules.trees.fields import Field

__all__ = ["Condition", "Definition", "Rule", "RuleSet", "left_out"]

_WIDEST = 80  # longest clause that the figures of all others are aligned with


@dataclass(frozen=True)
class Condition:
    """`low < x ≤ high` for one number that is known of a record.

    Attributes:
        column: index of the `Column`: of bags without names, that of the cluster.
        low: -inf for none.
        high: inf for none.
    """

    column: int
    low: float = -np.inf
    high: float = np.inf

    @property
    def requires(self) -> bool:
        """Whether members of the cluster must be there, not only be absent or few."""
        return self.low >= 0

    def holds(self, bags: Array) -> Array:
        """Whether the condition holds for feature vectors [bags, columns]: bool [bags]."""
        x = bags[:, self.column]
        # As float64, because NumPy would round a Python float to the dtype of x.
        return (x > np.float64(self.low)) & (x <= np.float64(self.high))

    def text(self, columns: Sequence[Column]) -> str:
        """The condition in words, or in the syntax of the paper."""
        return columns[self.column].text(self.low, self.high)

    def to_dict(self) -> Config:
        """For JSON: None for infinity."""
        low, high = (bound if np.isfinite(bound) else None for bound in (self.low, self.high))
        return {"column": self.column, "low": low, "high": high}


def _field_of(condition: Condition, columns: Sequence[Column]) -> str | None:
    """The field that has to have one value; None where the condition says something else."""
    column = columns[condition.column]
    return column.name if column.is_value and condition.requires else None


def _texts(conditions: Sequence[Condition], columns: Sequence[Column]) -> list[str]:
    """Conditions that all hold, as text: the values that one field may not have together."""
    result: dict[Condition | str, list[Condition]] = {}
    for each in conditions:
        column = columns[each.column]
        key = column.name if column.is_value and not each.requires else each
        result.setdefault(key, []).append(each)
    return [
        group[0].text(columns)
        if len(group) == 1
        else f"{columns[group[0].column].name} is none of {_values(group, columns)}"
        for group in result.values()
    ]


def _one_of(
    cases: Sequence[Sequence[Condition]], varying: Condition, columns: Sequence[Column]
) -> str:
    """That a field has one of the values that cases which differ in nothing else require."""
    compared = [each for case in cases for each in case if _field_of(each, columns)]
    return f"{columns[varying.column].name} is one of {_values(compared, columns)}"


def _values(conditions: Sequence[Condition], columns: Sequence[Column]) -> str:
    values = (columns[each.column].value for each in conditions)
    return one_of([value for value in values if value is not None])


@dataclass(frozen=True)
class Rule:
    """Bags for which all conditions hold are of the class `conclusion`.

    Attributes:
        level: index of the level whose rule it is.
        conclusion: index of the cluster of the bags, or of the class of top-bags.
        conditions: at most one per column.
        support: fraction of the training bags that the rule matches.
        precision: fraction of those that the network puts into the class; 0 if there are none, as
            for rules that match validation data only.
        coverage: fraction of the training bags of the class, by the network, that the rule matches:
            its recall.
    """

    level: int
    conclusion: int
    conditions: tuple[Condition, ...]
    _: KW_ONLY
    support: float
    precision: float
    coverage: float

    def matches(self, bags: Array) -> Array:
        """Whether all conditions hold for feature vectors [bags, columns]: bool [bags]."""
        holds = [np.ones(len(bags), bool), *(c.holds(bags) for c in self.conditions)]
        return np.logical_and.reduce(holds)

    def clause(self, columns: Sequence[Column], names: Sequence[str]) -> str:
        """The rule as a clause: "v1 ← o_u1=1, o_u3=0."."""
        if not self.conditions:
            return f"{names[self.conclusion]}."
        return f"{names[self.conclusion]} ← {', '.join(_texts(self.conditions, columns))}."

    def to_dict(self) -> Config:
        """For JSON."""
        return {**vars(self), "conditions": [each.to_dict() for each in self.conditions]}


@dataclass(frozen=True)
class _Line:
    """A rule as it is printed, or several that differ only in the value of one field.

    `numbers` are those of the rules in their set, from 1; the figures are those of all together.
    """

    numbers: tuple[int, ...]
    clause: str
    precision: float
    support: float
    coverage: float
    needed: bool

    @property
    def number(self) -> str:
        """The numbers as text, such as "3", or "3-22"."""
        first, last = self.numbers[0], self.numbers[-1]
        if last - first == len(self.numbers) - 1:
            return f"{first}-{last}" if last > first else str(first)
        return ",".join(map(str, self.numbers))


@dataclass(frozen=True)
class RuleSet:
    """The rules of one level: from the contents of a bag to its label.

    Rules that match the same bag agree, and every bag is matched.

    Attributes:
        rules: the rules.
        columns: what the conditions are about.
        names: names of the conclusions.
        needed: whether the class of any top-bag can depend on each conclusion. The classes of
            top-bags are needed; a cluster is if a rule with a needed conclusion tests it.
    """

    rules: tuple[Rule, ...]
    columns: tuple[Column, ...]
    names: tuple[str, ...]
    needed: tuple[bool, ...]

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def __len__(self) -> int:
        return len(self.rules)

    @property
    def needed_columns(self) -> tuple[bool, ...]:
        """Which columns a rule with a needed conclusion tests."""
        used = {c.column for r in self.rules if self.needed[r.conclusion] for c in r.conditions}
        return tuple(column in used for column in range(len(self.columns)))

    def predict(self, bags: Array) -> Ints:
        """The conclusion for feature vectors [bags, columns]: int [bags].

        Raises:
            ValueError: if no rule matches, which cannot happen for the features of a bag.
        """
        labels = np.full(len(bags), -1)
        for rule in self.rules:
            labels[rule.matches(bags)] = rule.conclusion
        if (labels < 0).any():
            raise ValueError(
                "Expected the features of bags. Received a vector that no bag has: "
                f"{bags[labels < 0][0].tolist()}"
            )
        return labels

    @property
    def constant(self) -> str | None:
        """Name of the conclusion of all rules; None if they differ."""
        conclusions = {rule.conclusion for rule in self.rules}
        return self.names[conclusions.pop()] if len(conclusions) == 1 else None

    @property
    def n_needed(self) -> int:
        """Number of rules with a needed conclusion."""
        return sum(self.needed[rule.conclusion] for rule in self.rules)

    @property
    def n_conditions(self) -> int:
        """Number of conditions in these."""
        return sum(len(rule.conditions) for rule in self.rules if self.needed[rule.conclusion])

    def clause(self, rule: Rule) -> str:
        """A rule of this set as a clause."""
        return rule.clause(self.columns, self.names)

    def shown(self, all: bool = False) -> list[_Line]:
        """The rules with a needed conclusion, or all; those that differ in one value together."""
        cases: list[tuple[Condition | int, ...]] = [
            (rule.conclusion, *rule.conditions) if all or self.needed[rule.conclusion] else ()
            for rule in self.rules
        ]
        groups = alike(cases, lambda x: None if isinstance(x, int) else _field_of(x, self.columns))
        return [self._line(group, varying) for group, varying in groups if cases[group[0]]]

    def _line(self, group: Sequence[int], varying: Condition | int | None) -> _Line:
        rules = [self.rules[index] for index in group]
        first, support = rules[0], sum(rule.support for rule in rules)
        clause, precision = self.clause(first), first.precision
        if isinstance(varying, Condition):
            # No record has two values, so of rules that differ in one no two match together.
            several = _one_of([rule.conditions for rule in rules], varying, self.columns)
            others = [c for c in first.conditions if c != varying]
            body = ", ".join([several, *_texts(others, self.columns)])
            clause = f"{self.names[first.conclusion]} ← {body}."
        if len(rules) > 1:
            precision = share(sum(rule.precision * rule.support for rule in rules), support)
        return _Line(
            numbers=tuple(index + 1 for index in group),
            clause=clause,
            precision=precision,
            support=support,
            coverage=sum(rule.coverage for rule in rules),
            needed=self.needed[first.conclusion],
        )

    def lines(self, all: bool = False) -> list[str]:
        """A line for each rule with a needed conclusion, or for all; numbered as in the set."""
        shown = self.shown(all)
        width = min(max((len(each.clause) for each in shown), default=0), _WIDEST)
        return [
            f"{each.number:>3}  {each.clause:<{width}}  "
            f"# precision {percent(each.precision, width=5)}, "
            f"support {percent(each.support, width=5)}, "
            f"coverage of the class {percent(each.coverage, width=5)}"
            f"{'' if each.needed else ', not used'}"
            for each in shown
        ]

    def text(self, all: bool = False) -> str:
        """The rules with a needed conclusion, a line each, and the number of others; or all."""
        note = left_out(0 if all else len(self) - self.n_needed)
        return "\n".join([*self.lines(all), *note])

    def __str__(self) -> str:
        return self.text()


def left_out(n_rules: int, n_clusters: int = 0) -> list[str]:
    """The line about rules and clusters that are not listed, if there are any."""
    counts = {"rule": n_rules, "cluster": n_clusters}
    named = [f"{n} {word}{'s' if n > 1 else ''}" for word, n in counts.items() if n]
    return [f"# Not used in any decision: {', '.join(named)}. See text(all=True)."] if named else []


@dataclass(frozen=True, eq=False)
class Definition:
    """A short definition of each cluster of some rows by their fields.

    The nearest centroids decide which cluster a row is in. Definitions put that into words, as well
    as a few conditions can, and decide nothing. Exactly one of them holds for every row.

    Attributes:
        fields: of the rows.
        cases: for each cluster the cases in which a row is said to be in it, each given by
            conditions that all have to hold, which are about `columns`. None where no case is.
        table: weights of the validation rows, by the cluster that the definitions say (first
            axis) and the cluster they are in, float64 [k, k].
    """

    fields: tuple[Field, ...]
    cases: tuple[tuple[tuple[Condition, ...], ...], ...]
    table: Array

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """What the conditions are about."""
        return tuple(column for field in self.fields for column in field.columns)

    @property
    def accuracy(self) -> float:
        """Fraction of the validation rows whose cluster is the one that the definitions say."""
        return share(self.table.trace(), self.table.sum())

    @property
    def majority(self) -> float:
        """Fraction of the validation rows in the largest cluster: the accuracy of a constant."""
        return share(self.table.sum(axis=0).max(), self.table.sum())

    def precision(self, cluster: int) -> float:
        """Fraction of the validation rows that fit the definition which are in the cluster.

        0 if none fit.
        """
        return share(self.table[cluster, cluster], self.table[cluster].sum())

    def recall(self, cluster: int) -> float:
        """Fraction of the validation rows in the cluster that fit its definition.

        0 if there are none.
        """
        return share(self.table[cluster, cluster], self.table[:, cluster].sum())

    def text(self, cluster: int) -> str | None:
        """The definition of a cluster, such as "price > 12.5 and returned"; None if it has none."""
        cases = self.cases[cluster]
        result = []
        for group, varying in alike(cases, lambda each: _field_of(each, self.columns)):
            others = [each for each in cases[group[0]] if each != varying]
            parts = _texts(others, self.columns)
            if varying is not None:
                parts.append(_one_of([cases[i] for i in group], varying, self.columns))
            result.append(" and ".join(parts) or "anything")
        return ", or ".join(result) or None

    def summary(self, cluster: int) -> str:
        """The definition of a cluster with its precision and recall, or that there is none."""
        text = self.text(cluster)
        if text is None:
            return "no short definition"
        precision, recall = percent(self.precision(cluster)), percent(self.recall(cluster))
        return f"{text} (precision {precision}, recall {recall})"

    @property
    def figures(self) -> str:
        """The accuracy of all definitions together, beside the majority share."""
        return f"accuracy {percent(self.accuracy)} (majority {percent(self.majority)})"

    def lines(self, words: str, names: Sequence[str], shown: Sequence[bool]) -> Iterator[str]:
        """A line for each cluster to be `shown`, if there are any, below their accuracy."""
        if not any(shown):
            return
        yield f"     definitions of {words}: {self.figures}"
        width = max(len(name) for name, here in zip(names, shown, strict=True) if here)
        for cluster, (name, here) in enumerate(zip(names, shown, strict=True)):
            if here:
                yield f"     {name + ':':<{width + 1}} {self.summary(cluster)}"

    def to_dict(self, names: Sequence[str]) -> Config:
        """For JSON, with the names of the clusters."""
        return {
            "accuracy": self.accuracy,
            "majority": self.majority,
            "columns": list(map(asdict, self.columns)),
            "clusters": [
                {
                    "cluster": name,
                    "text": self.text(cluster),
                    "cases": [[each.to_dict() for each in case] for case in self.cases[cluster]],
                    "precision": self.precision(cluster),
                    "recall": self.recall(cluster),
                }
                for cluster, name in enumerate(names)
            ],
        }
