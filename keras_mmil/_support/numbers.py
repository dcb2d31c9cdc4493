"""Numbers and times as text, with as many digits as they need; rules compare them in float32."""

import datetime
import math
from fractions import Fraction

import numpy as np

__all__ = ["bound_text", "double_bound", "number_text", "time_text"]

_WHOLE = 2**53  # whole numbers beyond it are not told apart


def number_text(value: float) -> str:
    """A number in as few digits as tell it from all others of its type, such as "12.5" or "3".

    Args:
        value: a Python float or a NumPy one.
    """
    return str(value).removesuffix(".0")


def double_bound(bound: float) -> float:
    """The greatest float64 that is at most a bound once it is rounded to float32.

    Rules compare numbers in float32; other systems, in float64, compare with this, between two
    float32s, so that no digit which gets lost on the way makes a difference.
    """
    if not np.isfinite(bound):
        return bound
    below = _float32_below(bound)
    middle = (float(below) + float(np.nextafter(below, np.float32(np.inf)))) / 2
    return middle if float(np.float32(middle)) <= bound else float(np.nextafter(middle, -np.inf))


def bound_text(bound: float, factor: int = 1) -> str:
    """The shortest decimal that numbers can be compared with instead of a bound.

    What is above it in decimal is above the bound in float32, and the other way round: for every
    number of no more decimals, and for every float32 that is written out.

    Args:
        bound: a finite number.
        factor: what the number in the text is multiplied by: 100 for per cent.
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
    """A time, in seconds since 1970 (UTC), as ISO 8601: a date, and what more it takes."""
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
