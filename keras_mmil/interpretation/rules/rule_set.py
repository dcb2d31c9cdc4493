"""The rules of one level."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from keras_mmil._support.percent import percent
from keras_mmil._support.types import Array, Ints
from keras_mmil.interpretation.rules.columns import Column
from keras_mmil.interpretation.rules.rule import Rule

__all__ = ["RuleSet", "left_out"]

_WIDEST = 80  # longest clause that the figures of all others are aligned with


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

    def lines(self, all: bool = False) -> list[str]:
        """A line for each rule with a needed conclusion, or for all; numbered as in the set."""
        needed = [self.needed[rule.conclusion] for rule in self.rules]
        shown = [
            (number, rule, self.clause(rule), "" if here else ", not used")
            for number, (rule, here) in enumerate(zip(self.rules, needed, strict=True), 1)
            if all or here
        ]
        width = min(max((len(clause) for _, _, clause, _ in shown), default=0), _WIDEST)
        return [
            f"{number:3}  {clause:<{width}}  # precision {percent(rule.precision, width=5)}, "
            f"support {percent(rule.support, width=5)}, "
            f"coverage of the class {percent(rule.coverage, width=5)}{note}"
            for number, rule, clause, note in shown
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
