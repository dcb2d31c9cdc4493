"""What the statistics of a schema say about a network: encoders, and where equal things are likely."""

import math
from collections.abc import Sequence

import numpy as np

from keras_mmil.layers import (
    BooleanEncoder,
    CategoryEncoder,
    NumberEncoder,
    TextEncoder,
    TimeEncoder,
)
from keras_mmil.layers.encoders import FieldEncoder
from keras_mmil.records.fields import Field
from keras_mmil.records.leaves import DTYPES, seconds
from keras_mmil.records.statistics import Bags, Records, Values

__all__ = ["dtype_of", "encoder_of", "mean_size", "n_rows_likely"]

_ONE_HOT = 64  # categories, at most, of one-hot vectors


def dtype_of(field: Field) -> str:
    """The dtype that values are read as."""
    if field.kind == "category":
        return "string" if field.type == "text" else "int64"
    return DTYPES[field.kind]


def encoder_of(
    field: Field, *, units: int, min_count: int, n_edges: int, name: str
) -> FieldEncoder:
    """The encoder of a field of values.

    Args:
        field: of a kind of values.
        units: of learned vectors, of words and of many categories.
        min_count: how often a category has been seen that is not to be unknown.
        n_edges: of numbers; 0 for none.
        name: of the layer.
    """
    seen = _values(field)
    common = {"field": field.path, "name": name}
    if field.kind == "boolean":
        return BooleanEncoder(**common)
    if field.kind == "number":
        edges = _quantiles(seen, n_edges)
        return NumberEncoder(seen.mean, seen.squares / seen.count, edges, **common)
    if field.kind == "time":
        return TimeEncoder(*_moments_of_times(seen), **common)
    if field.kind == "text":
        return TextEncoder(units=units, **common)
    counts = seen.counts or {}
    vocabulary = [x for x, n in counts.items() if n >= min_count] or list(counts)
    if not vocabulary:
        raise ValueError(
            f"Expected a category whose values are counted. Received: {field.path!r}, which has too "
            "many; choose text"
        )
    return CategoryEncoder(
        sorted(vocabulary), None if len(vocabulary) <= _ONE_HOT else units, **common
    )


def mean_size(bag: Field) -> float:
    """Number of members of a bag, on average."""
    members = bag.seen
    if isinstance(members, Bags):
        return members.members.count / members.count
    assert isinstance(members, Records)
    return members.entries().each.count / members.count


def n_rows_likely(fields: Sequence[Field]) -> float:
    """How many different rows of some fields there are at least, infinite if many or unknown."""
    n = [_values(field).n_distinct for field in fields]
    return max((math.inf if each is None else each + 1 for each in n), default=1)


def _values(field: Field) -> Values:
    if not isinstance(field.seen, Values):
        raise TypeError(f"Expected a field of values. Received: {field.path!r}, a {field.kind}")
    return field.seen


def _quantiles(seen: Values, n_edges: int) -> list[float]:
    """Different edges with about as many values between each two; none where too few are known."""
    if n_edges < 2 or not seen.counts:
        return []
    order = sorted(seen.counts.items())
    values = np.array([float(value) for value, _ in order])
    below = np.cumsum([n for _, n in order]) / seen.count
    places = np.searchsorted(below, np.linspace(0, 1, n_edges)).clip(max=len(values) - 1)
    edges = np.unique(values[places].astype(np.float32))
    return edges.tolist() if len(edges) > 1 else []


def _moments_of_times(seen: Values) -> tuple[float, float]:
    """Mean and variance in seconds since 1970; for texts, those of the different ones."""
    if seen.squares or not isinstance(seen.largest, str):
        return seen.mean, seen.squares / seen.count
    texts = [*(seen.counts or (*seen.smallest, seen.largest))]
    x = np.array([seconds(text) for text in texts])
    return float(x.mean()), float(x.var())
