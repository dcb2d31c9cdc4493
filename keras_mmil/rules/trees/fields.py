"""The fields of records, as numbers that a tree compares with thresholds."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from keras_mmil._support.formatting import number_text, time_text
from keras_mmil._support.types import MISSING_INT, MISSING_TEXT, Array
from keras_mmil.rules.trees.columns import DAY, MISSING, MOST_CATEGORIES, STEPS, Column

__all__ = ["KINDS", "Field", "field_of", "name_in"]

_MOST_TOKENS = 200
_LEAST_TEXTS = 2  # that must hold a token before a condition may be about it
_TOKEN = re.compile(r"[^\W_]+")
_LARGEST = 1e37  # numbers are clipped to this, and so stay above what is missing
_FARTHEST = 3e11  # seconds from 1970, as in `TimeEncoder`
# By the kind of array.
_MISSING: Mapping[str, bytes | int] = {"O": MISSING_TEXT.encode(), "i": MISSING_INT}
_WIDEST = 60  # characters of a text


@dataclass(frozen=True)
class Field:
    """A field, and which conditions there may be on it.

    Attributes:
        name: what it is called in rules.
        kind: "number", "boolean", "category", "text" or "time"; or "statistic" of a bag.
        values: the categories, or the tokens of texts, that conditions may be about.
        is_optional: whether it was missing in some of the training data.
        step: of times, how exact rules are on them: seconds that all of the training data were
            multiples of, such as those of a day; 0 where that is not known.
    """

    name: str
    kind: str
    values: tuple[str | int, ...] = ()
    is_optional: bool = True
    step: float = 0.0

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """One for each number that is known of a value."""
        feature, parts = _COLUMNS[self.kind]
        values = (None, *self.values) if parts is None else parts
        return tuple(
            Column(feature, self.name, "", value, self.is_optional, self.step) for value in values
        )

    def matrix(self, raw: Array) -> Array:
        """What is known of raw values [n]: float32 [n, columns]."""
        return _MATRIX[self.kind](self, raw)

    def exported(self, raw: Array) -> tuple[Array, ...]:
        """Raw values [n] as other systems read them: arrays of objects [n], None where missing.

        Numbers and booleans are floats, categories are texts, texts are their tokens with a space
        before and after each, and times are floats, one array for each part.
        """
        if self.kind in ("category", "text"):
            distinct, index = np.unique(raw, return_inverse=True)
            texts = np.empty(len(distinct), object)
            for row, value in enumerate(distinct):
                if not _is_missing(value):
                    text = str(_plain(value))
                    is_text = self.kind == "text"
                    texts[row] = f" {' '.join(sorted(_tokens(text)))} " if is_text else text
            return (texts[index.reshape(-1)],)
        numbers = (self.matrix(raw) if self.kind == "time" else raw[:, None]).astype(float)
        is_missing = np.isnan(raw)
        columns = numbers.astype(object)
        columns[is_missing] = None
        return tuple(columns.T)

    def shown(self, value: Any) -> str:
        """A raw value as text."""
        if self.kind in ("category", "text"):
            if _is_missing(value):
                return "missing"
            content = _plain(value)
            text = repr(content)
            text = text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"
            # Rules in words speak of the values that were there in training.
            is_new = self.kind == "category" and 0 < len(self.values) < MOST_CATEGORIES
            return f"{text} (new)" if is_new and content not in self.values else text
        if np.isnan(value):
            return "missing"
        if self.kind == "boolean":
            return str(bool(value)).lower()
        if self.kind == "time":
            return time_text(float(value))
        # Statistics are computed: a third is no more readable with all digits.
        return number_text(float(f"{value:.6g}") if self.kind == "statistic" else value)

    def feasible(self, low: Array, high: Array) -> Array:
        """Whether boxes `(low, high]`, each [..., columns], hold a value: bool [...].

        True where that is unknown.
        """
        if self.kind != "category":
            return np.all(low < high, axis=-1)
        allows_0, allows_1 = (low < 0) & (high >= 0), (low < 1) & (high >= 1)
        n_others = (~allows_0).sum(axis=-1)  # columns that have to be 1; at most one can be
        return np.all(allows_0 | allows_1, axis=-1) & (n_others <= 1)


def field_of(name: str, kind: str, raw: Array, weights: Array) -> Field:
    """The `Field` of raw values [n] with weights [n]; its own values are the most frequent."""
    if kind in ("category", "text"):  # as an object, because NumPy's strings end before "\0"
        is_missing = np.equal(raw, np.array(_MISSING[raw.dtype.kind], object))
    else:
        is_missing = np.isnan(raw)
    step = _step(raw[~is_missing & (weights > 0)]) if kind == "time" else 0.0
    field = Field(name, kind, is_optional=bool(is_missing[weights > 0].any()), step=step)
    if kind == "category":
        return replace(field, values=_most_frequent(_counted(raw, weights), MOST_CATEGORIES))
    if kind != "text":
        return field
    counts: Counter[str | int] = Counter()
    for text, weight in _counted(raw, weights).items():
        counts.update(dict.fromkeys(_tokens(str(text)), weight))
    few = Counter({token: n for token, n in counts.items() if n >= _LEAST_TEXTS})
    return replace(field, values=_most_frequent(few, _MOST_TOKENS))


def _step(seconds: Array) -> float:
    """The longest of `STEPS` that all times are multiples of, else the shortest."""
    *whole, shortest = STEPS
    return next((step for step in whole if not (seconds % step).any()), shortest)


def name_in(outer: str, path: str) -> str:
    """The name of a part of records inside them: `price` for `orders.price` in `orders`."""
    inner = path.removeprefix(outer)
    if outer and inner == path:  # "mean of orders.items.price" in orders
        return path.replace(f" {outer}.", " ")
    if not outer or not inner:
        return path
    return inner.removeprefix("[]").removeprefix(".") or "value"


# Raw values to numbers --------------------------------------------------------------------------


def _numbers(_: Field, raw: Array) -> Array:
    there = np.clip(raw, -_LARGEST, _LARGEST)
    return np.where(np.isnan(raw), MISSING, there).astype(np.float32)[:, None]


def _indicators(field: Field, raw: Array) -> Array:
    """Ones in the columns of the category or tokens of each value, or in the first if missing."""
    distinct, index = np.unique(raw, return_inverse=True)
    known = {value: i + 1 for i, value in enumerate(field.values)}
    matrix = np.zeros((len(distinct), len(field.columns)), np.float32)
    for row, value in enumerate(distinct):
        if _is_missing(value):
            matrix[row, 0] = 1
        else:
            content = _plain(value)
            tokens = (content,) if field.kind == "category" else _tokens(str(content))
            matrix[row, [known[x] for x in tokens if x in known]] = 1
    return matrix[index.reshape(-1)]


def _times(field: Field, raw: Array) -> Array:
    is_there = ~np.isnan(raw)
    seconds = np.clip(np.where(is_there, raw, 0.0), -_FARTHEST, _FARTHEST)
    days = np.floor(seconds / DAY)
    dates = days.astype("datetime64[D]")
    months = dates.astype("datetime64[M]").astype(int)
    parts = {
        "day": seconds / DAY,
        "year": months // 12 + 1970,
        "month": months % 12 + 1,
        "weekday": (days + 3) % 7 + 1,  # 1970-01-01 was a Thursday; Monday is 1
        "hour": np.floor(seconds % DAY / 3600),
    }
    matrix = np.stack([parts[str(column.value)] for column in field.columns], axis=1)
    return np.where(is_there[:, None], matrix, MISSING).astype(np.float32)


def _tokens(text: str) -> set[str]:
    return set(_TOKEN.findall(text.lower()))


def _plain(value: object) -> str | int:
    return value.decode(errors="replace") if isinstance(value, bytes) else int(value)  # type: ignore[call-overload] # NumPy's int


def _is_missing(value: object) -> bool:
    return value in _MISSING.values()


def _counted(raw: Array, weights: Array) -> Counter[str | int]:
    distinct, index = np.unique(raw, return_inverse=True)
    counts = np.bincount(index.reshape(-1), weights, minlength=len(distinct))
    pairs = zip(distinct, counts, strict=True)
    return Counter({_plain(x): n for x, n in pairs if n > 0 and not _is_missing(x)})


def _most_frequent(counts: Mapping[str | int, float], n: int) -> tuple[str | int, ...]:
    order: Iterable[str | int] = sorted(counts, key=lambda value: (-counts[value], str(value)))
    return tuple(order)[:n]


_COLUMNS: Mapping[str, tuple[str, tuple[str | None, ...] | None]] = {
    "number": ("number", (None,)),
    "statistic": ("statistic", (None,)),
    "boolean": ("boolean", (None,)),
    "time": ("time", ("day", "year", "month", "weekday", "hour")),
    "category": ("category", None),
    "text": ("token", None),
}
_MATRIX: Mapping[str, Callable[[Field, Array], Array]] = {
    "number": _numbers,
    "statistic": _numbers,
    "boolean": _numbers,
    "category": _indicators,
    "text": _indicators,
    "time": _times,
}
KINDS = tuple(_COLUMNS)
