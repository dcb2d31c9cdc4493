"""Shares with exact intervals of confidence."""

import math
from dataclasses import asdict, dataclass

from scipy.stats import binomtest

from keras_mmil._support.formatting import percent
from keras_mmil._support.types import Config

__all__ = ["Interval", "interval"]


@dataclass(frozen=True)
class Interval:
    """A share, and the interval that contains the true one with at least some probability.

    Attributes:
        estimate: k / n; NaN of nothing.
        low, high: ends of the interval, from 0 to 1.
        n: number of cases.
        k: number of those that count.
    """

    estimate: float
    low: float
    high: float
    n: int
    k: int

    def to_dict(self) -> Config:
        """As JSON knows it: None for NaN."""
        return asdict(self) | {"estimate": self.estimate if self.n else None}

    def __str__(self) -> str:
        ends = f"{percent(self.low)} to {percent(self.high)}"
        return f"{percent(self.estimate) if self.n else 'unknown'} ({ends})"


def interval(k: int, n: int, level: float = 0.95) -> Interval:
    """The interval of Clopper and Pearson, which is exact: never too short, for any share and n.

    Args:
        k: number of cases that count.
        n: number of cases, drawn independently; of none, the interval is from 0 to 1.
        level: least probability that the interval contains the true share, between 0 and 1.

    Reference:
        Clopper and Pearson, The Use of Confidence or Fiducial Limits, 1934.
    """
    if n == 0:
        return Interval(math.nan, 0.0, 1.0, 0, 0)
    ends = binomtest(int(k), int(n)).proportion_ci(level, method="exact")
    return Interval(k / n, float(ends.low), float(ends.high), int(n), int(k))
