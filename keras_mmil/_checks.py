"""Checks of arguments."""

__all__ = ["positive_int"]


def positive_int(name, value, optional=False):
    """Return `value` if it is an int ≥ 1 (or None, where it is optional), else raise ValueError."""
    if value is None and optional:
        return value
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        expected = "an int ≥ 1 or None" if optional else "an int ≥ 1"
        raise ValueError(f"Expected {expected}. Received: {name}={value!r}")
    return value
