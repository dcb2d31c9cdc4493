"""Checks of numbers among arguments, NumPy's or Python's; a bool is none."""

import math
from numbers import Integral, Real

__all__ = ["check_int", "check_number", "is_int", "positive_int"]


def is_int(value):
    """Whether a value is an integer, Python's or NumPy's, and not a bool."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def check_int(name, value, least=0, most=math.inf, optional=False):
    """The value as an int of Python, which JSON knows; or None, where that is allowed.

    Raises:
        ValueError: if it is no integer from `least` to `most`.
    """
    if value is None and optional:
        return None
    if not is_int(value) or not least <= value <= most:
        _raise("an int", name, value, least, most, optional)
    return int(value)


def positive_int(name, value, optional=False):
    """The value as an int of Python, if it is at least 1; see `check_int`."""
    return check_int(name, value, 1, optional=optional)


def check_number(name, value, least=-math.inf, most=math.inf, optional=False):
    """The value as a float of Python, which JSON knows; or None, where that is allowed.

    Raises:
        ValueError: if it is no number from `least` to `most`, or NaN.
    """
    if value is None and optional:
        return None
    if isinstance(value, bool) or not isinstance(value, Real) or not least <= value <= most:
        _raise("a number", name, value, least, most, optional)
    return float(value)


def _raise(kind, name, value, least, most, optional):
    wanted = f"{kind} ≥ {least}" if most == math.inf else f"{kind} from {least} to {most}"
    wanted += " or None" if optional else ""
    raise ValueError(f"Expected {wanted}. Received: {name}={value!r}")
