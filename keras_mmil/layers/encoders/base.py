"""What all encoders share."""

from typing import Any, ClassVar

import keras
import tensorflow as tf

from keras_mmil._support.keras_internals import RawInputs
from keras_mmil._support.types import Config, Shape
from keras_mmil.layers._types import Nested
from keras_mmil.layers.grouping import with_rows

__all__ = ["FieldEncoder"]


class FieldEncoder(RawInputs):
    """Base of the layers that turn the values of a field into vectors.

    The last feature of each vector is 1 where the value is missing, and 0 elsewhere. The others are
    then learned: zeros at the start.

    A child states in `kind` what it reads, in `n_features` how many features it has beside that
    last one, and in `features` how it computes them.

    Args:
        field: path of the field, such as "orders.items.price"; read by explanations only.

    Input shape:
        Values [n], or in bags [batch, (n₁), …, (n_K)], ragged or dense.

    Output shape:
        The same with a last axis of `width`.
    """

    kind: ClassVar[str]
    takes_texts: bool = False

    def __init__(self, field: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.field = field

    @property
    def n_features(self) -> int:
        """Number of features, without that for missing."""
        raise NotImplementedError

    @property
    def width(self) -> int:
        """Size of a vector."""
        return self.n_features + 1

    def features(self, values: tf.Tensor) -> tf.Tensor:
        """The features [n, n_features] of values [n], finite also for those that are missing."""
        raise NotImplementedError

    def are_missing(self, values: tf.Tensor) -> tf.Tensor:
        """Which values are missing, bool [n]."""
        return tf.math.is_nan(values)

    def build(self, values_shape: Shape | None = None) -> None:
        self.missing = self.add_weight(
            shape=(self.n_features,), initializer="zeros", name="missing"
        )

    def call(self, values: Nested) -> Nested:
        self._check(values)
        flat = tf.reshape(getattr(values, "flat_values", values), [-1])
        is_missing = self.are_missing(flat)[:, None]
        x = tf.cast(self.features(flat), self.compute_dtype)
        x = tf.where(is_missing, tf.cast(self.missing, x.dtype), x)
        x = tf.concat([x, tf.cast(is_missing, x.dtype)], axis=1)
        return with_rows(values, tf.ensure_shape(x, [None, self.width]), 0)

    def compute_output_spec(self, values: keras.KerasTensor) -> keras.KerasTensor:
        self._check(values)
        shape = (*values.shape, self.width)
        return keras.KerasTensor(shape, dtype=self.compute_dtype, ragged=values.ragged)

    def get_config(self) -> Config:
        return {**super().get_config(), "field": self.field}

    def _check(self, values: Nested | keras.KerasTensor) -> None:
        dtype = keras.backend.standardize_dtype(values.dtype)
        if (dtype == "string") != self.takes_texts:
            expected = "texts" if self.takes_texts else "numbers"
            raise ValueError(
                f"{type(self).__name__} '{self.name}' expected {expected}. "
                f"Received: values.dtype={dtype}"
            )
