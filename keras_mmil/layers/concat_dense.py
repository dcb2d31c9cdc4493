"""A dense layer on concatenations of rows that are never made."""

from typing import Any

import keras
import tensorflow as tf

from keras_mmil._support.checks import positive_int
from keras_mmil._support.keras_internals import RawInputs
from keras_mmil._support.types import Config, Shape
from keras_mmil.layers._checks import check_ids
from keras_mmil.layers._projection import project_tuples
from keras_mmil.layers._renamed import ReadsOldConfigs
from keras_mmil.layers._types import Nested
from keras_mmil.layers.grouping import with_rows

__all__ = ["ConcatDense"]


@keras.saving.register_keras_serializable("keras_mmil")
class ConcatDense(ReadsOldConfigs, RawInputs, keras.layers.Dense):
    """Dense layer on instances that are P rows side by side: α(w·[φ¹; …; φᴾ] + b).

    As w·[φ¹; …; φᴾ] = w¹φ¹ + … + wᴾφᴾ, every row is multiplied once with the part of w for each
    position, however many instances it is in: a word, for one, in all its trigrams. The products
    are gathered and added. `BagLayer(window_size=P)` does the same within a bag-layer.

    Args:
        units: size of the output.
        window_size: P.
        activation, use_bias, kernel_initializer, …: as in `keras.layers.Dense`.

    Call arguments:
        inputs: a row for each distinct thing, float [rows, features].
        members: the P rows of each instance, ragged or dense ints with a last axis of size P.

    Input shape:
        [rows, features], and members [batch, …, P].

    Output shape:
        That of `members` with units for P. Its weights are those of a `Dense` on the
        concatenations: kernel [P * features, units].

    Raises:
        ValueError: if `members` is missing, holds no integers, or its last axis is not of size P;
            or if an input has a Keras mask.

    Example:

    >>> words = tf.random.normal((5, 4))
    >>> trigrams = tf.ragged.constant([[[0, 1, 2], [1, 2, 4]], [[3, 3, 3]]], inner_shape=(3,))
    >>> keras_mmil.layers.ConcatDense(6, window_size=3)(words, trigrams).shape
    TensorShape([2, None, 6])
    """

    def __init__(self, units: int, window_size: int, **kwargs: Any) -> None:
        super().__init__(positive_int("units", units), **kwargs)
        self.window_size = positive_int("window_size", window_size)

    def build(self, inputs_shape: Shape, members_shape: Shape | None = None) -> None:
        features = self._check(inputs_shape, members_shape)
        super().build((None, features * self.window_size))
        self.input_spec = None  # Dense's is about concatenations

    def call(self, inputs: tf.Tensor, members: Nested) -> Nested:
        self._check(inputs.shape, members.shape)
        check_ids(self, members=members)
        ids = members.flat_values if isinstance(members, tf.RaggedTensor) else members
        kernel = tf.cast(self.kernel, self.compute_dtype)
        bias = tf.cast(self.bias, self.compute_dtype) if self.use_bias else None
        rows = tf.cast(inputs, self.compute_dtype)
        x = project_tuples(rows, kernel, bias, tf.reshape(ids, [-1, self.window_size]))
        x = x if self.activation is None else self.activation(x)  # (instances, units)
        return with_rows(members, x)

    def compute_output_spec(
        self, inputs: keras.KerasTensor, members: keras.KerasTensor
    ) -> keras.KerasTensor:
        self._check(inputs.shape, members.shape)
        check_ids(self, members=members)
        return keras.KerasTensor(
            (*members.shape[:-1], self.units), dtype=self.compute_dtype, ragged=members.ragged
        )

    def get_config(self) -> Config:
        return {**super().get_config(), "window_size": self.window_size}

    def _check(self, inputs_shape: Shape, members_shape: Shape | None) -> int:
        """The number of features of a row; or ValueError for other shapes than are taken."""
        features = inputs_shape[-1] if len(inputs_shape) == 2 else None
        if features is None:
            raise ValueError(
                f"ConcatDense '{self.name}' expected rows [rows, features]. "
                f"Received: inputs.shape={tuple(inputs_shape)}"
            )
        if members_shape is None or len(members_shape) < 2 or members_shape[-1] != self.window_size:
            shape = None if members_shape is None else tuple(members_shape)
            raise ValueError(
                f"ConcatDense '{self.name}' expected members [batch, …, {self.window_size}], the "
                f"rows of each instance. Received: members.shape={shape}"
            )
        return features
