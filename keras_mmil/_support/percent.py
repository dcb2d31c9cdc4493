"""Fractions as people read them."""

__all__ = ["percent"]


def percent(fraction: float, digits: int = 1, width: int = 0) -> str:
    """A fraction in per cent, such as "32.0 %".

    Args:
        fraction: a number.
        digits: how many behind the point.
        width: least number of characters before the space, so that figures below each other align.
    """
    return f"{100 * fraction:{width}.{digits}f} %"
