"""What a tree compares with thresholds: one number of a record, and the wording of conditions."""

import math
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias, TypeVar

import numpy as np

from keras_mmil._support.formatting import bound_text, double_bound, time_text

__all__ = [
    "ABSENT",
    "ALL",
    "DAY",
    "MISSING",
    "MOST_CATEGORIES",
    "STEPS",
    "Column",
    "alike",
    "excluded",
    "is_plural",
    "one_of",
    "singular",
]

DAY = 86_400.0  # seconds
STEPS = (DAY, 60.0, 1.0, 1e-6)  # of times, in seconds

MISSING = -3e38  # stands for a missing number, below all others; float32 holds it
ALL = 1 - 2.0**-20  # above it, a frequency is that of all members, also in float32
ABSENT = MISSING / 4  # between missing and present, wherever a tree may split

MOST_CATEGORIES = 100  # of a field that conditions may be about
_MOST_VALUES = 8  # that are listed
# What the names of statistics say of members, and how one member and several are said to be so.
_SAID = {
    " with ": ("has ", "have "),
    " (": ("is (", "are ("),
    " containing ": ("contains ", "contain "),
    " = ": ("is ", "are "),
    " > ": ("is above ", "are above "),
}
_PLAIN = re.compile(r"\w+(\.\w+)+")  # the path of a bag in a bag
_SIGN = re.compile(rf"(.*?)({'|'.join(map(re.escape, _SAID))})(.*)")
_PLURALS = ("people", "children", "men", "women", "data", "media", "criteria")
_SINGULARS = ("ss", "us", "is", "news", "series")
_ONE = {"people": "person", "children": "child", "women": "woman", "men": "man"}
_ONE |= {"ies": "y", "sses": "ss", "xes": "x", "ches": "ch", "shes": "sh", "s": ""}

_Say: TypeAlias = Callable[["Column", float, float], str]
_T = TypeVar("_T", bound=Hashable)


@dataclass(frozen=True)
class Column:
    """One number that is known of a record.

    Attributes:
        feature: what it measures: "occurrence", "frequency", "count" or "weight" of a cluster among
            the members of a bag; "number", "boolean" or a part of a "time" of a field; whether a
            field is a "category", or holds a "token"; a "statistic" of a bag.
        name: of the cluster, or of the field.
        bag: of a cluster, what its bag is called in the data; empty where it has no name.
        value: the category or the token; of a time, which part of it.
        is_optional: whether the field was missing in some of the training data. If not, a
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

    @property
    def is_value(self) -> bool:
        """Whether it is about one value of a categorical field."""
        return self.feature == "category" and self.value is not None

    def summarizes(self, bag: str) -> bool:
        """Whether it is a statistic of a bag, or of bags in its members."""
        if self.feature != "statistic" or not bag:
            return False
        _, _, of = self.name.partition(" of ")
        return re.match(rf"{re.escape(bag)}(?!\w)", of) is not None

    def text(self, low: float, high: float) -> str:
        """The condition that it is above `low`, and at most `high`.

        Conditions on bags without a name are in the syntax of the paper, such as "o_u1=1".
        """
        table = _PAPER if self.is_of_cluster and not self.bag else _WORDS
        return table[self.feature](self, low, high)


# In the syntax of the paper ---------------------------------------------------------------------


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
    share = _percentage(low, high)
    are = "are" if share.endswith(" of") or is_plural(column.bag) else "is"
    return f"{share} {column.bag} {are} {column.name}"


def _percentage(low: float, high: float) -> str:
    """Shares above `low` and at most `high`, such as "more than 40 % of"."""
    if low >= ALL or (low < 0 and ALL <= high < 1):
        return "all" if low >= ALL else "not all"
    least, most = (f"{bound_text(bound, 100)} %" for bound in (max(low, 0.0), min(high, 1.0)))
    if high >= 1:
        return f"more than {least} of"
    if low < 0:
        return f"at most {most} of"
    if low == 0:
        return f"some but at most {most} of"
    return f"more than {least} and at most {most} of"


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
    # The data name either one member or several; the other form is unknown.
    of_them = f"of the {column.bag}" if is_plural(column.bag) else f"of {column.bag}"
    if number.endswith("one"):
        return f"{number} {of_them} is {column.name}"
    return f"{number} {column.bag if is_plural(column.bag) else of_them} are {column.name}"


def _statistic(column: Column, low: float, high: float) -> str:
    """A condition on a statistic of a bag, such as "number of orders with kind = 'toy'"."""
    what, _, of = column.name.partition(" of ")
    if what not in ("number", "share"):
        return _ordered(column, column.name, low, high, bound_text)
    least, most = max(np.floor(low) + 1, 0), np.floor(high)
    bag, one, several = _members(of)
    of = _spoken(bag) + of.removeprefix(bag)
    bag, has_many = _spoken(bag), is_plural(bag)
    if high == 0 or (what == "number" and most == 0):  # a share may be missing: of no members
        return f"no {bag} {several}".rstrip()
    if high == np.inf and (low == 0 or (what == "number" and least == 1)):
        return f"some {bag} {several}".rstrip()
    if what == "share":
        if high < ABSENT:
            return f"no {bag}"
        if high == np.inf and -np.inf < low < ABSENT:
            return f"some {bag}"
        none = " or there are none" if low == -np.inf and column.is_optional else ""
        return f"{_percentage(low, high)} {bag} {several}{none}"
    if one and most == 1:
        number = "exactly" if least == 1 else "at most"
        return f"{number} one of {'the ' if has_many else ''}{bag} {one}"
    if least == most:
        return f"exactly {least:.0f} {of}"
    if most == np.inf:
        return f"at least {least:.0f} {of}"
    return f"at most {most:.0f} {of}" if least == 0 else f"{least:.0f} to {most:.0f} {of}"


def _spoken(bag: str) -> str:
    """A bag in a bag: "items of orders" for "orders.items"."""
    return " of ".join(reversed(bag.split("."))) if _PLAIN.fullmatch(bag) else bag


def _members(of: str) -> tuple[str, str, str]:
    """Members that have something, as in the name of a statistic: of what bag, and what.

    The latter is said of one of them, and of several; empty if it is about all members.
    """
    found = _SIGN.match(of)
    if found is None:
        return of, "", ""
    bag, sign, what = found.groups()
    one, several = _SAID[sign]
    return bag, one + what, several + what


def _numeral(n: float) -> str:
    return "one" if n == 1 else f"{n:.0f}"


def _boolean(column: Column, low: float, high: float) -> str:
    if low >= 0:
        return column.name
    if high < ABSENT:
        return f"{column.name} is missing"
    if high == np.inf:
        return f"{column.name} is present"
    return f"{column.name} is false" if low > MISSING else f"not {column.name}"


def _value(column: Column, low: float, high: float) -> str:
    if column.value is None:
        return f"{column.name} is {'missing' if low >= 0 else 'present'}"
    if column.feature == "category":
        verb = "=" if low >= 0 else "≠"
    else:
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

    Without a step, the shortest text of those that are equal to rules, which hold days as float32.
    """
    if step:
        return time_text(math.floor(double_bound(days) * DAY / step) * step)
    result = (math.floor(days * DAY / step) * step for step in STEPS)
    return time_text(
        next((x for x in result if np.float32(x / DAY) == np.float32(days)), days * DAY)
    )


def _ordered(
    column: Column, name: str, low: float, high: float, show: Callable[[float], str]
) -> str:
    """A condition on a value that may be missing; what is missing is below all others."""
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
    "occurrence": lambda column, low, high: f"o_{column.name}={int(low >= 0)}",
    "frequency": lambda column, low, high: _interval(f"f_{column.name}", low, high, 100) + " %",
    "count": _count,
    "weight": lambda column, low, high: _interval(f"c_{column.name}", low, high),
}
_WORDS: Mapping[str, _Say] = {
    "occurrence": _some,
    "frequency": _share,
    "count": _how_many,
    "weight": lambda column, low, high: _interval(
        f"total weight of {column.bag} that are {column.name}", low, high
    ),
    "number": lambda column, low, high: _ordered(column, column.name, low, high, bound_text),
    "statistic": _statistic,
    "boolean": _boolean,
    "category": _value,
    "token": _value,
    "time": _time,
}


# Plurals, and lists of values -------------------------------------------------------------------


def is_plural(name: str) -> bool:
    """Whether what the data call a bag reads as several things: "orders", but not "type"."""
    name = name.lower()
    return name.endswith(_PLURALS) or (name.endswith("s") and not name.endswith(_SINGULARS))


def singular(name: str) -> str:
    """What one of the members of a bag is called: "order" for "orders", "type" for "type"."""
    if is_plural(name):
        for several, one in _ONE.items():
            if name.lower().endswith(several):
                return name[: -len(several)] + one
    return name


def excluded(
    name: str, values: Sequence[str | int], known: Sequence[str | int], is_optional: bool
) -> str:
    """That a field has none of some values; or, if only one is left, that it has this.

    Args:
        name: of the field.
        values: those that it does not have.
        known: all that are known; or the first of many.
        is_optional: whether it may also be missing.
    """
    left = [value for value in known if value not in values]
    if len(left) == 1 and len(known) < MOST_CATEGORIES and not is_optional:
        return f"{name} = {left[0]!r}"
    return f"{name} ≠ {values[0]!r}" if len(values) == 1 else f"{name} is none of {one_of(values)}"


def one_of(values: Sequence[str | int]) -> str:
    """Values as a list: all of a few, else the first and how many more."""
    shown = ", ".join(map(repr, values[:_MOST_VALUES]))
    more = len(values) - _MOST_VALUES
    return f"{shown} and {more} more" if more > 0 else shown


def alike(
    cases: Sequence[tuple[_T, ...]], field_of: Callable[[_T], Hashable | None]
) -> list[tuple[list[int], _T | None]]:
    """Group cases, each the conditions that all have to hold, that differ in one field's value.

    `field_of` tells which field a condition compares with one value, if any. Returns for each group
    the indices of its cases, in order, and the condition of the first case in which the others
    differ; None where a case is alone.
    """
    groups: dict[Hashable, list[int]] = {}
    varying: dict[Hashable, _T | None] = {}
    for index, case in enumerate(cases):
        result = [each for each in case if field_of(each) is not None]
        key: Hashable = index
        if len(result) == 1:
            key = (field_of(result[0]), frozenset(each for each in case if each is not result[0]))
        groups.setdefault(key, []).append(index)
        varying.setdefault(key, result[0] if len(result) == 1 else None)
    return [(group, varying[key] if len(group) > 1 else None) for key, group in groups.items()]
