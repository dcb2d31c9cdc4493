"""Fractions as people read them."""

__all__ = ["percent", "share"]


def percent(fraction: float, digits: int = 1, width: int = 0) -> str:
    """A fraction in per cent, such as "32.0 %".

    Args:
        fraction: a number.
        digits: how many behind the point.
        width: least number of characters before the space, so that figures below each other align.
    """
    return f"{100 * fraction:{width}.{digits}f} %"


def share(part: float, whole: float) -> float:
    """A part as a fraction of the whole; 0 of nothing."""
    return float(part / whole) if whole else 0.0
