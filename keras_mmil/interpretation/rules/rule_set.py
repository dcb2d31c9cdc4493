"""The rules of one level."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from keras_mmil._support.formatting import percent, share
from keras_mmil._support.types import Array, Ints
from keras_mmil.interpretation.rules.columns import Column
from keras_mmil.interpretation.rules.rule import (
    Condition,
    Rule,
    equal_to,
    texts,
    values_of,
)
from keras_mmil.interpretation.rules.wording import alike, one_of

__all__ = ["RuleSet", "left_out"]

_WIDEST = 80  # longest clause that the figures of all others are aligned with


@dataclass(frozen=True)
class Shown:
    """A rule as it is shown, or several that differ in the value of one field.

    Attributes:
        numbers: of the rules in their set, from 1.
        clause: their text.
        precision, support, coverage: see `Rule`; of all together.
        needed: whether the class of any top-bag can depend on them.
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
    """The rules of one level: from what is in a bag to its label.

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
            ValueError: if no rule matches, which no bag's features do.
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
        """Name of what all rules conclude, whatever is in a bag; None if they differ."""
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

    def shown(self, all: bool = False) -> list["Shown"]:
        """The rules with a needed conclusion, or all; those that differ in one value together."""
        cases: list[tuple[Condition | int, ...]] = [
            (rule.conclusion, *rule.conditions) if all or self.needed[rule.conclusion] else ()
            for rule in self.rules
        ]
        return [
            self._shown(group, varying)
            for group, varying in alike(cases, self._field_of)
            if cases[group[0]]
        ]

    def _field_of(self, part: Condition | int) -> str | None:
        return None if isinstance(part, int) else equal_to(part, self.columns)

    def _shown(self, group: Sequence[int], varying: Condition | int | None) -> "Shown":
        rules = [self.rules[index] for index in group]
        first, support = rules[0], sum(rule.support for rule in rules)
        clause = self.clause(first)
        if isinstance(varying, Condition):
            # No record is of two values: rules that differ in one match none together.
            found = [c for rule in rules for c in rule.conditions if self._field_of(c)]
            values = values_of([self.columns[c.column] for c in found])
            several = f"{self.columns[varying.column].name} is one of {one_of(values)}"
            others = [c for c in first.conditions if c != varying]
            body = ", ".join([several, *texts(others, self.columns)])
            clause = f"{self.names[first.conclusion]} ← {body}."
        return Shown(
            numbers=tuple(index + 1 for index in group),
            clause=clause,
            precision=share(sum(rule.precision * rule.support for rule in rules), support)
            if len(rules) > 1
            else first.precision,
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
    """What to print about rules and clusters that are not listed: one line, or none."""
    counts = {"rule": n_rules, "cluster": n_clusters}
    named = [f"{n} {word}{'s' if n > 1 else ''}" for word, n in counts.items() if n]
    return [f"# Not used in any decision: {', '.join(named)}. See text(all=True)."] if named else []
