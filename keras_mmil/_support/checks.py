"""Checks of numbers among arguments, of Python or NumPy; a bool is not a number."""

import math
from numbers import Integral, Real
from typing import Any, Literal, NoReturn, overload

__all__ = ["check_int", "check_number", "is_int", "positive_int"]


def is_int(value: object) -> bool:
    """Whether a value is an integer, Python's or NumPy's, and not a bool."""
    return isinstance(value, Integral) and not isinstance(value, bool)


@overload
def check_int(
    name: str, value: Any, least: int = 0, most: float = math.inf, optional: Literal[False] = False
) -> int: ...


@overload
def check_int(
    name: str, value: Any, least: int = 0, most: float = math.inf, *, optional: Literal[True]
) -> int | None: ...


def check_int(
    name: str, value: Any, least: int = 0, most: float = math.inf, optional: bool = False
) -> int | None:
    """The value as an int of Python, which JSON knows; or None, where that is allowed.

    Raises:
        ValueError: if it is not an integer from `least` to `most`.
    """
    if value is None and optional:
        return None
    if not is_int(value) or not least <= value <= most:
        _raise("an int", name, value, least, most, " or None" if optional else "")
    return int(value)


@overload
def positive_int(name: str, value: Any, optional: Literal[False] = False) -> int: ...


@overload
def positive_int(name: str, value: Any, optional: Literal[True]) -> int | None: ...


def positive_int(name: str, value: Any, optional: bool = False) -> int | None:
    """The value as an int of Python, if it is at least 1; see `check_int`."""
    return check_int(name, value, 1, optional=True) if optional else check_int(name, value, 1)


def check_number(name: str, value: Any, least: float = -math.inf, most: float = math.inf) -> float:
    """The value as a float of Python, which JSON knows.

    Raises:
        ValueError: if it is not a number from `least` to `most`; NaN is not.
    """
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not least <= value <= most:
        _raise("a number", name, value, least, most)
    return float(value)


def _raise(
    kind: str, name: str, value: object, least: float, most: float, alternative: str = ""
) -> NoReturn:
    wanted = f"{kind} ≥ {least}" if most == math.inf else f"{kind} from {least} to {most}"
    raise ValueError(f"Expected {wanted}{alternative}. Received: {name}={value!r}")
