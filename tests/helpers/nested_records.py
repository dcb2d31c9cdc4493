"""Nested records made at random, and what loops over them take values for."""

from hypothesis import strategies as st


def draw_values(scalars, keys):
    """A strategy for such scalars, and lists and dicts of them by such keys, nested."""
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
        max_leaves=8,
    )


def draw_records(values, keys):
    """A strategy for lists of dicts of such values by such keys."""
    return st.lists(st.dictionaries(keys, values, max_size=4), min_size=1, max_size=6)


def is_missing(value):
    if isinstance(value, int | float) and not isinstance(value, bool):
        return not abs(value) <= 3.4028234663852886e38
    return value is None


def type_of(value):
    types = {bool: "boolean", int: "number", float: "number", str: "text", dict: "record"}
    return types.get(type(value), "bag")
