"""Rows by their ids."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from keras_mmil._support.keras_internals import RawInputs
from keras_mmil._support.types import Shape
from keras_mmil.layers._checks import check_ids
from keras_mmil.layers.segments.kernels import gather_rows

__all__ = ["Gather"]


@keras.saving.register_keras_serializable("keras_mmil")
class Gather(RawInputs):
    """Bring rows to where they are wanted: the way back from `DistinctRows` and `DistinctBags`.

    Call arguments:
        inputs: a pair of rows and ids of rows.

    Input shape:
        Rows [rows, features], and ints [n] below the number of rows.

    Output shape:
        [n, features].

    Raises:
        ValueError: if the inputs are no such pair, or the ids are no integers.

    Example:

    >>> rows = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    >>> keras_mmil.layers.Gather()([rows, tf.constant([1, 0, 1])]).numpy()
    array([[3., 4.],
           [1., 2.],
           [3., 4.]], dtype=float32)
    """

    def build(self, inputs_shape: Sequence[Shape] | None = None) -> None:
        """Nothing to create."""

    def call(self, inputs: Sequence[tf.Tensor]) -> tf.Tensor:
        rows, ids = self._checked(inputs)
        return gather_rows(rows, ids)

    def compute_output_spec(self, inputs: Sequence[keras.KerasTensor]) -> keras.KerasTensor:
        rows, ids = self._checked(inputs)
        return keras.KerasTensor((ids.shape[0], *rows.shape[1:]), dtype=rows.dtype)

    def _checked(self, inputs: Sequence[Any]) -> Sequence[Any]:
        shapes = [tuple(x.shape) for x in inputs] if isinstance(inputs, (list, tuple)) else inputs
        if not isinstance(shapes, list) or list(map(len, shapes)) != [2, 1]:
            raise ValueError(
                f"Gather '{self.name}' expected a pair of rows [rows, features] and ids [n]. "
                f"Received: {shapes}"
            )
        check_ids(self, ids=inputs[1])
        return inputs
