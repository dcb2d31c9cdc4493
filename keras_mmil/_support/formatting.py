"""Numbers, times, shares and tables for people to read; rules compare numbers in float32."""

import datetime
import html
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np

from keras_mmil._support.types import Array

_WHOLE = 2**53  # whole numbers beyond it are not told apart


def share(part: float, whole: float) -> float:
    """A part as a fraction of the whole; 0 of nothing."""
    return float(part / whole) if whole else 0.0


def majority(labels: Array) -> float:
    """The share of the most frequent of the labels [n]: the accuracy of always predicting it."""
    return float(np.unique(labels, return_counts=True)[1].max() / len(labels))


def agreement(metric: str, labels: Array, truth: Array) -> dict[str, float]:
    """The accuracy of labels, as `metric`, and `majority` of the truth, as `metric`_majority."""
    return {metric: float(np.mean(labels == truth)), f"{metric}_majority": majority(truth)}


def percent(fraction: float, digits: int = 1, width: int = 0) -> str:
    """A fraction in per cent, such as "32.0 %", padded to a width before the space."""
    return f"{100 * fraction:{width}.{digits}f} %"


def number_text(value: float) -> str:
    """A float, Python's or NumPy's, in as few digits as identify it, such as "12.5" or "3"."""
    return str(value).removesuffix(".0")


def double_bound(bound: float) -> float:
    """The greatest float64 that is at most a bound once it is rounded to float32.

    Rules compare numbers in float32. Other systems compare in float64 with this value, between two
    float32s, so that lost digits make no difference.
    """
    if not np.isfinite(bound):
        return bound
    below = _float32_below(bound)
    middle = (float(below) + float(np.nextafter(below, np.float32(np.inf)))) / 2
    return middle if float(np.float32(middle)) <= bound else float(np.nextafter(middle, -np.inf))


def bound_text(bound: float, factor: int = 1) -> str:
    """The shortest decimal that separates the same numbers as a finite bound.

    Numbers are above it in decimal if and only if they are above the bound in float32: numbers with
    no more decimals than it has, and all float32s that are written in full. The number in the text
    is multiplied by `factor`, 100 for per cent.
    """
    below, most = _float32_below(bound), Fraction(double_bound(bound)) * factor
    exponent = math.floor(math.log10(abs(most))) + 1 if most else 0
    while True:
        scale = Fraction(10) ** -exponent
        found = Fraction(math.floor(most * scale)) / scale
        # Of whole numbers, float32 knows only the first seven or eight digits.
        is_exact = exponent <= 0 or found == math.floor(most) or abs(most) > _WHOLE
        if is_exact and np.float32(float(found / factor)) == below:
            return number_text(float(found))
        exponent -= 1


def time_text(seconds: float) -> str:
    """A time, in seconds since 1970 (UTC), in ISO 8601, to the minute or as exact as necessary."""
    try:
        time = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds)
    except OverflowError:
        return f"{number_text(seconds / 86_400)} days after 1970-01-01"
    if time.microsecond:
        return time.isoformat().rstrip("0")
    if time.second:
        return time.isoformat()
    return time.isoformat()[: 16 if time.hour or time.minute else 10]


def _float32_below(bound: float) -> np.float32:
    """The greatest float32 that is at most a bound."""
    below = np.float32(bound)
    # As a Python float, because NumPy would round the bound to float32.
    return below if float(below) <= bound else np.nextafter(below, np.float32(-np.inf))


def preformatted(text: str) -> str:
    """A text in HTML, with its line breaks."""
    return f'<pre style="white-space:pre-wrap">{html.escape(text)}</pre>'


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of texts in HTML."""

    def row(tag: str, cells: Sequence[str]) -> str:
        style = ' style="text-align:left"'
        return f"<tr>{''.join(f'<{tag}{style}>{html.escape(c)}</{tag}>' for c in cells)}</tr>"

    return f"<table>{row('th', heads)}{''.join(row('td', cells) for cells in rows)}</table>"
