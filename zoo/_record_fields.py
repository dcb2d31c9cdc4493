"""What the statistics of a schema say about a network: encoders, and where equals are likely."""

import math

import numpy as np

from keras_mmil.layers import (
    BooleanEncoder,
    CategoryEncoder,
    FieldEncoder,
    NumberEncoder,
    TextEncoder,
    TimeEncoder,
)
from keras_mmil.records.fields import Field
from keras_mmil.records.kinds import DIGITS
from keras_mmil.records.leaves import DTYPES
from keras_mmil.records.statistics import Bags, Records, Values

__all__ = ["dtype_of", "encoder_of", "mean_size", "moments", "n_distinct"]

_ONE_HOT = 64  # categories, at most, of one-hot vectors


def dtype_of(field: Field) -> str:
    """The dtype that the values of a field are read as."""
    if field.kind == "category":
        return "string" if field.type == "text" or field.form == DIGITS else "int64"
    return DTYPES[field.kind]


def encoder_of(
    field: Field, *, units: int, min_count: int, n_edges: int, name: str
) -> FieldEncoder:
    """The encoder of a field of values.

    Args:
        field: of a kind of values.
        units: of learned vectors, of words and of many categories.
        min_count: how often a category has been seen that is not to be unknown.
        n_edges: of numbers, at most; 0 for none.
        name: of the layer.
    """
    seen = _values(field)
    if field.kind == "boolean":
        return BooleanEncoder(field.path, name=name)
    if field.kind == "number":
        return NumberEncoder(*moments(field), _quantiles(seen, n_edges), field.path, name=name)
    if field.kind == "time":
        return TimeEncoder(*moments(field), field.path, name=name)
    if field.kind == "text":
        return TextEncoder(units=units, field=field.path, name=name)
    counts = seen.counts or {}
    known = [value for value, n in counts.items() if n >= min_count] or list(counts)
    learned = None if len(known) <= _ONE_HOT else units
    return CategoryEncoder(sorted(known), learned, field.path, name=name)


def moments(field: Field) -> tuple[float, float]:
    """Mean and variance of numbers or times, as they are read."""
    seen = _values(field)
    return seen.mean, seen.squares / seen.count


def mean_size(bag: Field) -> float:
    """Number of members of a bag, on average."""
    if isinstance(bag.seen, Bags):
        return bag.seen.members.count / bag.seen.count
    if isinstance(bag.seen, Records):
        return bag.seen.entries().each.count / bag.seen.count
    raise TypeError(f"Expected a bag. Received: {bag.path!r}, a {bag.kind}")


def n_distinct(field: Field) -> float:
    """How many different values there are, missing counted; infinite if they are not counted."""
    n = _values(field).n_distinct
    return math.inf if n is None else n + (field.share_missing > 0)


def _values(field: Field) -> Values:
    if field.values is None:
        raise TypeError(f"Expected a field of values. Received: {field.path!r}, a {field.kind}")
    return field.values


def _quantiles(seen: Values, n_edges: int) -> list[float]:
    """Edges with about as many values between each two; none where values are not counted."""
    if n_edges < 2 or not seen.counts:
        return []
    values, counts = np.array(sorted(seen.counts.items()), np.float64).T
    below = np.cumsum(counts) / seen.count
    places = np.searchsorted(below, np.linspace(0, 1, n_edges)).clip(max=len(values) - 1)
    edges = np.unique(values[places].astype(np.float32))
    return edges.tolist() if len(edges) > 1 else []
