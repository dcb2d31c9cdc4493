"""The rules of all levels together."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from keras_mmil._support.types import Config
from keras_mmil.interpretation.rules.level import Level, listing
from keras_mmil.interpretation.rules.rule import Rule

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["RuleBook"]


@dataclass(frozen=True)
class RuleBook:
    """The rules of all levels, from the instances upwards. Iterating yields each `Rule`.

    Attributes:
        levels: from the instances upwards.
    """

    levels: tuple[Level, ...]

    def __iter__(self) -> Iterator[Rule]:
        return (rule for level in self.levels for rule in level.rules)

    def __len__(self) -> int:
        return sum(len(level.rules) for level in self.levels)

    @property
    def constant(self) -> str | None:
        """Name of the one class that the rules put all top-bags into; None if there are several."""
        return self.levels[-1].rules.constant

    def text(self, all: bool = False) -> str:
        """The rules, level by level.

        Args:
            all: whether to list also the rules and clusters that no class of top-bags depends on;
                otherwise the last line gives their number.
        """
        return listing(self.levels, all)

    def __str__(self) -> str:
        return self.text()

    def records(self) -> Iterator[Config]:
        """One dict for each rule, from the instances upwards."""
        for level in self.levels:
            rules = level.rules
            for number, rule in enumerate(rules, 1):
                yield {
                    "level": rule.level,
                    "bags": level.word,
                    "number": number,
                    "conclusion": rules.names[rule.conclusion],
                    "conditions": [c.text(rules.columns) for c in rule.conditions],
                    "precision": rule.precision,
                    "support": rule.support,
                    "coverage": rule.coverage,
                    "needed": rules.needed[rule.conclusion],
                    "clause": rules.clause(rule),
                }

    def to_dict(self) -> Config:
        """As JSON knows it: rules as data, with their names and texts, level by level."""
        return {
            "levels": [
                {
                    "bags": level.word,
                    "path": level.path,
                    "members": [
                        {
                            "rows": clusters.word,
                            "path": clusters.path,
                            "clusters": list(clusters.names),
                            "needed": list(needed),
                            "definition": clusters.definition
                            and clusters.definition.to_dict(clusters.names),
                        }
                        for clusters, needed in zip(level.clusters, level.needed, strict=True)
                    ],
                    "columns": list(map(asdict, level.rules.columns)),
                    "conclusions": list(level.rules.names),
                    "rules": [
                        {**rule.to_dict(), "clause": level.rules.clause(rule)}
                        for rule in level.rules
                    ],
                }
                for level in self.levels
            ]
        }

    def to_json(self, indent: int | None = 1) -> str:
        """`to_dict` as a JSON text."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False)

    def to_dataframe(self) -> "pd.DataFrame":
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
