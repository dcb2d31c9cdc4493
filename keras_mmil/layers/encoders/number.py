"""Numbers and booleans as vectors."""

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import keras
import tensorflow as tf

from keras_mmil._support.checks import check_number
from keras_mmil._support.types import Config
from keras_mmil.layers.encoders.base import FieldEncoder

__all__ = ["BooleanEncoder", "NumberEncoder", "standardized"]

_FARTHEST = 8.0  # standard deviations from the mean; what is farther is taken to be there


def standardized(values: tf.Tensor, mean: float, variance: float) -> tf.Tensor:
    """(x - mean) / √variance, between -8 and 8; of a variance of 0 the distance from the mean."""
    scale = 1 / math.sqrt(variance) if variance else 1.0
    return tf.clip_by_value((values - mean) * scale, -_FARTHEST, _FARTHEST)


@keras.saving.register_keras_serializable("keras_mmil")
class NumberEncoder(FieldEncoder):
    """A number: standardised, and where it is between given edges.

    For edges b₀ < b₁ < … < b_T there are T features: feature t goes from 0 to 1 while the number
    goes from b_t-1 to b_t (and beyond these is constant). A layer on them learns a curve that bends
    at the edges, and so thresholds, more easily than of the number alone.

    Args:
        mean, variance: of the numbers. What is more than 8 standard deviations away is taken to be
            there.
        edges: increasing numbers, none or at least two; such as quantiles.
        field: path of the field.

    Input shape:
        Floats [n], or in bags; NaN where they are missing.

    Output shape:
        The same with a last axis of 2, or 1 + number of edges.

    Reference:
        Gorishniy, Rubachev and Babenko, On Embeddings for Numerical Features in Tabular Deep
        Learning, 2022: piecewise linear encoding.
    """

    kind: ClassVar[str] = "number"

    def __init__(
        self,
        mean: float = 0.0,
        variance: float = 1.0,
        edges: Sequence[float] = (),
        field: str = "",
        **kwargs: Any,
    ) -> None:
        super().__init__(field, **kwargs)
        self.mean = check_number("mean", mean)
        self.variance = check_number("variance", variance, least=0)
        self.edges = [check_number("edges", edge) for edge in edges]
        if len(self.edges) == 1 or sorted(set(self.edges)) != self.edges:
            raise ValueError(
                f"Expected increasing edges, none or at least two. Received: edges={self.edges}"
            )

    @property
    def n_features(self) -> int:
        return 1 + max(len(self.edges) - 1, 0)

    def features(self, values: tf.Tensor) -> tf.Tensor:
        values = tf.where(tf.math.is_nan(values), tf.zeros_like(values), values)
        x = standardized(values, self.mean, self.variance)[:, None]
        if not self.edges:
            return x
        lower, upper = (tf.constant(e, values.dtype) for e in (self.edges[:-1], self.edges[1:]))
        between = (values[:, None] - lower) / (upper - lower)
        return tf.concat([x, tf.clip_by_value(between, 0, 1)], axis=1)

    def get_config(self) -> Config:
        config = {"mean": self.mean, "variance": self.variance, "edges": self.edges}
        return {**super().get_config(), **config}


@keras.saving.register_keras_serializable("keras_mmil")
class BooleanEncoder(FieldEncoder):
    """A boolean: 1 if it is true, -1 if it is false.

    Args:
        field: path of the field.

    Input shape:
        Floats [n], or in bags: 1 or 0, NaN where they are missing.

    Output shape:
        The same with a last axis of 2.
    """

    kind: ClassVar[str] = "boolean"

    @property
    def n_features(self) -> int:
        return 1

    def features(self, values: tf.Tensor) -> tf.Tensor:
        return tf.where(values > 0.5, 1.0, -1.0)[:, None]
