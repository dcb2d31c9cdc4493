"""Symbolic rules as data. Text comes last."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np

from keras_mmil._support.types import Array, Config
from keras_mmil.interpretation.rules.columns import Column
from keras_mmil.interpretation.rules.wording import one_of

__all__ = ["Condition", "Rule", "equal_to", "none_of", "texts", "values_of"]


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
        """As JSON knows it: None for infinity."""
        low, high = (bound if np.isfinite(bound) else None for bound in (self.low, self.high))
        return {"column": self.column, "low": low, "high": high}

    @classmethod
    def from_dict(cls, data: Config) -> "Condition":
        """The inverse of `to_dict`."""
        low = -np.inf if data["low"] is None else data["low"]
        high = np.inf if data["high"] is None else data["high"]
        return cls(data["column"], low, high)


def equal_to(condition: Condition, columns: Sequence[Column]) -> str | None:
    """The field that has to be of one value; None where the condition says something else."""
    column = columns[condition.column]
    is_value = column.feature == "category" and column.value is not None
    return column.name if is_value and condition.requires else None


def texts(conditions: Sequence[Condition], columns: Sequence[Column]) -> list[str]:
    """Conditions that all hold, as text: the values that one field may not have together."""
    found: dict[Condition | str, list[Condition]] = {}
    for each in conditions:
        column = columns[each.column]
        is_value = column.feature == "category" and column.value is not None
        key = column.name if is_value and not each.requires else each
        found.setdefault(key, []).append(each)
    return [
        alike[0].text(columns) if len(alike) == 1 else none_of([columns[x.column] for x in alike])
        for alike in found.values()
    ]


def none_of(columns: Sequence[Column]) -> str:
    """That a field is none of the values that some columns are about."""
    return f"{columns[0].name} is none of {one_of(values_of(columns))}"


def values_of(columns: Sequence[Column]) -> list[str | int]:
    """The values that some columns are about."""
    return [column.value for column in columns if column.value is not None]


@dataclass(frozen=True)
class Rule:
    """Bags for which all conditions hold are of the class `conclusion`.

    Attributes:
        level: index of the level whose rule it is.
        conclusion: index of the cluster of the bags, or of the class of top-bags.
        conditions: at most one a column.
        support: fraction of the training bags that the rule matches.
        precision: fraction of those which the network puts into the class; 0 if there are none, as
            of rules that match validation data only.
        coverage: fraction of the training bags which the network puts into the class that the rule
            matches, its recall.
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
        return f"{names[self.conclusion]} ← {', '.join(texts(self.conditions, columns))}."

    def to_dict(self) -> Config:
        """As JSON knows it."""
        conditions = [condition.to_dict() for condition in self.conditions]
        return {**vars(self), "conditions": conditions}

    @classmethod
    def from_dict(cls, data: Config) -> "Rule":
        """The inverse of `to_dict`."""
        conditions = tuple(Condition.from_dict(each) for each in data["conditions"])
        return cls(**{**data, "conditions": conditions})
