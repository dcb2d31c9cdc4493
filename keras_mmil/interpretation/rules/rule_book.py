"""The rules of all levels together."""

import json
from dataclasses import dataclass

from keras_mmil.interpretation.rules.level import listing

__all__ = ["RuleBook"]


@dataclass(frozen=True)
class RuleBook:
    """The rules of all levels, from the instances upwards. Iterating yields each `Rule`.

    Attributes:
        levels: tuple of `Level`.
    """

    levels: tuple

    def __iter__(self):
        return (rule for level in self.levels for rule in level.rules)

    def __len__(self):
        return sum(len(level.rules) for level in self.levels)

    @property
    def constant(self):
        """Name of the one class that the rules put all top-bags into; None if there are several."""
        return self.levels[-1].rules.constant

    def text(self, all=False):
        """The rules, level by level.

        Args:
            all: whether to show also the rules and clusters that are not needed: those that no
                class of top-bags depends on. Else the last line says how many these are.
        """
        return listing(self.levels, all)

    def __str__(self):
        return self.text()

    def records(self):
        """One dict for each rule, from the instances upwards."""
        for level in self.levels:
            rules = level.rules
            for number, rule in enumerate(rules, 1):
                yield {
                    "level": rule.level,
                    "bags": level.bag_word,
                    "number": number,
                    "conclusion": rules.names[rule.conclusion],
                    "conditions": [c.text(rules.member_names) for c in rule.conditions],
                    "precision": rule.precision,
                    "support": rule.support,
                    "coverage": rule.coverage,
                    "needed": rules.needed[rule.conclusion],
                    "clause": rules.clause(rule),
                }

    def to_dict(self):
        """As JSON knows it: rules as data, with their names and texts, level by level."""
        return {
            "levels": [
                {
                    "rows": level.word,
                    "bags": level.bag_word,
                    "clusters": list(level.names),
                    "needed": list(level.needed),
                    "conclusions": list(level.rules.names),
                    "rules": [
                        {**rule.to_dict(), "clause": level.rules.clause(rule)}
                        for rule in level.rules
                    ],
                }
                for level in self.levels
            ]
        }

    def to_json(self, indent=1):
        """`to_dict` as a JSON text."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False)

    def to_dataframe(self):
        """One row for each rule, see `records`.

        Raises:
            ImportError: without pandas.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError(
                "Expected pandas to make a DataFrame: pip install 'keras-mmil[report]'"
            ) from error
        return pd.DataFrame(list(self.records()))
