"""Aggregations Ξ: how the instances of a bag become one vector."""

import functools
from collections.abc import Callable, Sequence
from typing import TypeAlias

import keras

from keras_mmil._support.types import Config
from keras_mmil.layers.aggregations.attention import Attention
from keras_mmil.layers.aggregations.base import Aggregation
from keras_mmil.layers.aggregations.basic import Max, Mean, Std, Sum
from keras_mmil.layers.aggregations.lse import LSE
from keras_mmil.layers.aggregations.pnorm import PNorm

__all__ = [
    "LSE",
    "NAMES",
    "Aggregation",
    "Attention",
    "Max",
    "Mean",
    "PNorm",
    "Std",
    "Sum",
    "get",
    "get_all",
    "serialize",
]

_BY_NAME: dict[str, Callable[[], Aggregation]] = {
    "max": Max,
    "mean": Mean,
    "sum": Sum,
    "lse": LSE,
    "pnorm": PNorm,
    "std": Std,
    "attention": Attention,
    "gated_attention": functools.partial(Attention, gated=True),
}
NAMES = tuple(_BY_NAME)
"""The names that `get`, and so `BagLayer(aggregation=...)`, knows."""
Identifier: TypeAlias = str | Aggregation | Config  # what `get` takes
Aggregations: TypeAlias = Identifier | Sequence[Identifier]  # one, or several side by side


def get(identifier: Identifier) -> Aggregation:
    """Retrieve an aggregation.

    Args:
        identifier: a name ("max", "mean", "sum", "lse", "pnorm", "std", "attention",
            "gated_attention"), an `Aggregation`, or the config of one.

    Returns:
        An `Aggregation`: a new one, unless one was given.

    Raises:
        ValueError: if the identifier is none of these.
    """
    if isinstance(identifier, Aggregation):
        return identifier
    if isinstance(identifier, str) and identifier in _BY_NAME:
        return _BY_NAME[identifier]()
    if isinstance(identifier, dict):
        aggregation = keras.saving.deserialize_keras_object(identifier)
        if isinstance(aggregation, Aggregation):
            return aggregation
    raise ValueError(
        f"Expected an Aggregation, its config, or one of {', '.join(NAMES)}. "
        f"Received: aggregation={identifier!r}"
    )


def get_all(identifiers: Aggregations) -> tuple[Aggregation, ...]:
    """Retrieve one or several aggregations, as a tuple.

    Args:
        identifiers: what `get` takes, a list or tuple of it, or names joined by "|", as in
            "max|mean".
    """
    if isinstance(identifiers, str):
        identifiers = identifiers.split("|")
    several = identifiers if isinstance(identifiers, (list, tuple)) else (identifiers,)
    if not several:
        raise ValueError(f"Expected at least one aggregation. Received: {several!r}")
    return tuple(get(identifier) for identifier in several)


def serialize(aggregation: Aggregation) -> Config:
    """The config of an aggregation, which `get` takes back."""
    return keras.saving.serialize_keras_object(aggregation)
