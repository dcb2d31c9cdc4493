"""The rules of all levels together."""

import json
from dataclasses import dataclass

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

    def __str__(self):
        return "\n\n".join(map(str, self.levels))

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
                    "support": rule.support,
                    "precision": rule.precision,
                    "needed": rules.needed[rule.conclusion],
                    "clause": rules.text(rule),
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
                        {**rule.to_dict(), "clause": level.rules.text(rule)} for rule in level.rules
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
