"""What a tree compares with thresholds: one number of a record, and how to say that it is there."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np

from keras_mmil._support.formatting import bound_text, double_bound, time_text
from keras_mmil.interpretation.rules.wording import is_plural

__all__ = ["ABSENT", "DAY", "MISSING", "STEPS", "Column"]

DAY = 86_400.0  # seconds
STEPS = (DAY, 60.0, 1.0, 1e-6)  # of times, in seconds

MISSING = -3e38  # of numbers, which a missing one is below; float32 holds it
ABSENT = MISSING / 4  # between what is missing and what is there, wherever a tree may split

_Say: TypeAlias = Callable[["Column", float, float], str]


@dataclass(frozen=True)
class Column:
    """One number that is known of a record.

    Attributes:
        feature: what it measures: "occurrence", "frequency", "count" or "weight" of a cluster among
            the members of a bag; "number", "boolean" or a part of a "time" of a field; whether a
            field is a "category", or holds a "token".
        name: of the cluster, or of the field.
        bag: of a cluster, what its bag is called in the data; empty where it has no name.
        value: the category or the token; of a time, which part of it.
        is_optional: whether the field was missing in some of the training data. Where it was not, a
            condition that also holds for missing values does not say so.
        step: of a time, see `Field`.
    """

    feature: str
    name: str
    bag: str = ""
    value: str | int | None = None
    is_optional: bool = True
    step: float = 0.0

    @property
    def is_of_cluster(self) -> bool:
        """Whether it is about the members of a bag, not about a field."""
        return self.feature in _PAPER

    def text(self, low: float, high: float) -> str:
        """The condition that it is above `low`, and at most `high`.

        Conditions on bags without a name are in the syntax of the paper, such as "o_u1=1".
        """
        table = _PAPER if self.is_of_cluster and not self.bag else _WORDS
        return table[self.feature](self, low, high)


# In the syntax of the paper ---------------------------------------------------------------------


def _occurrence(column: Column, low: float, high: float) -> str:
    return f"o_{column.name}={int(low >= 0)}"


def _frequency(column: Column, low: float, high: float) -> str:
    return _interval(f"f_{column.name}", low, high, 100) + " %"


def _weight(column: Column, low: float, high: float) -> str:
    return _interval(f"c_{column.name}", low, high)


def _count(column: Column, low: float, high: float) -> str:
    least, most = np.floor(low) + 1, np.floor(high)
    if least == most:
        return f"c_{column.name} = {least:.0f}"
    if most == np.inf:
        return f"c_{column.name} ≥ {least:.0f}"
    if least <= 0:
        return f"c_{column.name} ≤ {most:.0f}"
    return f"c_{column.name} ∈ [{least:.0f}, {most:.0f}]"


def _interval(symbol: str, low: float, high: float, factor: int = 1) -> str:
    if high == np.inf:
        return f"{symbol} > {bound_text(low, factor)}"
    if low < 0:
        return f"{symbol} ≤ {bound_text(high, factor)}"
    return f"{symbol} ∈ ({bound_text(low, factor)}, {bound_text(high, factor)}]"


# In words ---------------------------------------------------------------------------------------


def _some(column: Column, low: float, high: float) -> str:
    are = "are" if is_plural(column.bag) else "is"
    return f"{'some' if low >= 0 else 'no'} {column.bag} {are} {column.name}"


def _share(column: Column, low: float, high: float) -> str:
    if high == 0 or (low == 0 and high >= 1):
        return _some(column, low, high)
    if high >= 1:
        share = f"more than {_percent(low)}"
    elif low < 0:
        share = f"at most {_percent(high)}"
    elif low == 0:
        share = f"some but at most {_percent(high)}"
    else:
        share = f"more than {_percent(low)} and at most {_percent(high)}"
    return f"{share} of {column.bag} are {column.name}"


def _percent(share: float) -> str:
    return f"{bound_text(share, 100)} %"


def _how_many(column: Column, low: float, high: float) -> str:
    least, most = max(np.floor(low) + 1, 0), np.floor(high)
    if most == 0 or (least == 1 and most == np.inf):
        return _some(column, low, high)
    if least == most:
        number = f"exactly {_numeral(least)}"
    elif most == np.inf:
        number = f"at least {_numeral(least)}"
    elif least == 0:
        number = f"at most {_numeral(most)}"
    else:
        number = f"{least:.0f} {'or' if most == least + 1 else 'to'} {most:.0f}"
    # What the data call one of them is not known, or what they call several.
    of_them = f"of the {column.bag}" if is_plural(column.bag) else f"of {column.bag}"
    if number.endswith("one"):
        return f"{number} {of_them} is {column.name}"
    return f"{number} {column.bag if is_plural(column.bag) else of_them} are {column.name}"


def _numeral(n: float) -> str:
    return "one" if n == 1 else f"{n:.0f}"


def _how_much(column: Column, low: float, high: float) -> str:
    return _interval(f"total weight of {column.bag} that are {column.name}", low, high)


def _number(column: Column, low: float, high: float) -> str:
    return _ordered(column, column.name, low, high, bound_text)


def _boolean(column: Column, low: float, high: float) -> str:
    if low >= 0:
        return column.name
    if high < ABSENT:
        return f"{column.name} is missing"
    if high == np.inf:
        return f"{column.name} is present"
    return f"{column.name} is false" if low > MISSING else f"not {column.name}"


def _category(column: Column, low: float, high: float) -> str:
    if column.value is None:
        return f"{column.name} is {'missing' if low >= 0 else 'present'}"
    return f"{column.name} {'=' if low >= 0 else '≠'} {column.value!r}"


def _token(column: Column, low: float, high: float) -> str:
    if column.value is None:
        return f"{column.name} is {'missing' if low >= 0 else 'present'}"
    verb = "contains" if low >= 0 else "does not contain"
    return f"{column.name} {verb} {column.value!r}"


def _time(column: Column, low: float, high: float) -> str:
    if column.value == "day":
        show = partial(_time_bound, step=column.step)
        return _ordered(column, column.name, low, high, show)
    name = f"{column.value} of {column.name}"
    return _ordered(column, name, low, high, lambda x: f"{np.floor(x):.0f}")


def _time_bound(days: float, step: float) -> str:
    """The last multiple of a step, in seconds, that is not above a bound as rules see it.

    Without a step the shortest text of those that are the same to rules, which know days in
    float32.
    """
    if step:
        return time_text(math.floor(double_bound(days) * DAY / step) * step)
    found = (math.floor(days * DAY / step) * step for step in STEPS)
    return time_text(
        next((x for x in found if np.float32(x / DAY) == np.float32(days)), days * DAY)
    )


def _ordered(
    column: Column, name: str, low: float, high: float, show: Callable[[float], str]
) -> str:
    """A condition on what may be missing, which is below all that is there."""
    if high < ABSENT:
        return f"{name} is missing"
    if low == -np.inf:
        return f"{name} ≤ {show(high)}" + (" or missing" if column.is_optional else "")
    if low < ABSENT:
        return f"{name} is present" if high == np.inf else f"{name} ≤ {show(high)}"
    if high == np.inf:
        return f"{name} > {show(low)}"
    return f"{name} ∈ ({show(low)}, {show(high)}]"


_PAPER: Mapping[str, _Say] = {
    "occurrence": _occurrence,
    "frequency": _frequency,
    "count": _count,
    "weight": _weight,
}
_WORDS: Mapping[str, _Say] = {
    "occurrence": _some,
    "frequency": _share,
    "count": _how_many,
    "weight": _how_much,
    "number": _number,
    "boolean": _boolean,
    "category": _category,
    "token": _token,
    "time": _time,
}
