"""How near the members of bags come to those of other bags."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_mmil._support.checks import positive_int
from keras_mmil._support.keras_internals import RawInputs
from keras_mmil._support.types import Array, Config, Shape
from keras_mmil.layers._types import Nested
from keras_mmil.layers.grouping import bag_of_each, drop_absent, flat_columns, group
from keras_mmil.layers.segments import gather_rows

__all__ = ["NearestMembers", "spread", "squared_distances"]

_STEP = 1e-4  # distances are rounded to it, as their last digits depend on the batch


@keras.saving.register_keras_serializable("keras_mmil")
class NearestMembers(RawInputs):
    """Describe bags of numbers by the least distance of a member to each of some prototypes.

    Prototypes are members of other bags. What makes a bag positive is often one member that is like
    those of other positive bags in many numbers at once, which no threshold of one number tells
    (Chen, Bi and Wang, MILES: multiple-instance learning via embedded instance selection, 2006).

    Args:
        n_prototypes: how many.
        means, scales: of each number, which are standardised; what is missing is the mean.

    Call arguments:
        columns: values of the numbers, [rows] each.
        members, weights: as in `BagLayer`.

    Output:
        Root mean squares of differences, float32 [bags, n_prototypes], NaN where a bag is empty.
    """

    def __init__(
        self, n_prototypes: int, means: Sequence[float], scales: Sequence[float], **kwargs: Any
    ) -> None:
        super().__init__(trainable=kwargs.pop("trainable", False), **kwargs)
        self.n_prototypes = positive_int("n_prototypes", n_prototypes)
        self.means, self.scales = tuple(means), tuple(scales)

    def build(self, *shapes: Shape) -> None:
        """Create the prototypes, which are set from outside: standardised rows."""
        self.prototypes = self.add_weight(
            shape=(self.n_prototypes, len(self.means)),
            dtype="float32",
            initializer="zeros",
            trainable=False,
            name="prototypes",
        )

    def standardized(self, columns: Sequence[tf.Tensor]) -> tf.Tensor:
        """Rows of values, float32 [rows, numbers]."""
        x = tf.stack([tf.cast(x, tf.float32) for x in columns], axis=1)
        scales = np.where(np.array(self.scales) > 0, self.scales, 1.0)
        x = (x - tf.constant(self.means, tf.float32)) / tf.constant(scales, tf.float32)
        return tf.where(tf.math.is_finite(x), x, 0.0)

    def call(
        self, columns: Sequence[Nested], members: Nested, weights: Nested | None = None
    ) -> tf.Tensor:
        x = self.standardized(flat_columns(columns))
        distances = squared_distances(x, tf.convert_to_tensor(self.prototypes))
        distances = tf.sqrt(distances / len(self.means))
        _, bags, _ = group(members, 0, weights, n_rows=tf.shape(x)[0])
        row_ids, rows, weights = bag_of_each(bags.row_splits), bags.members, bags.weights
        if weights is not None:
            rows, row_ids, _ = drop_absent(rows, row_ids, weights)
        n_bags = tf.shape(bags.row_splits)[0] - 1
        least = tf.math.unsorted_segment_min(gather_rows(distances, rows), row_ids, n_bags)
        is_empty = least == least.dtype.max
        return tf.where(is_empty, np.nan, tf.round(least / _STEP) * _STEP)

    def compute_output_spec(
        self,
        columns: Sequence[keras.KerasTensor],
        members: keras.KerasTensor,
        weights: keras.KerasTensor | None = None,
    ) -> keras.KerasTensor:
        return keras.KerasTensor((None, self.n_prototypes), dtype="float32")

    def get_config(self) -> Config:
        config = {"n_prototypes": self.n_prototypes, "means": self.means, "scales": self.scales}
        return {**super().get_config(), **config}


def squared_distances(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Of each row of x, [n, columns], from each row of y, [m, columns]: [n, m]."""
    squares = [tf.reduce_sum(each * each, axis=1) for each in (x, y)]
    product = tf.matmul(x, y, transpose_b=True)
    return tf.nn.relu(squares[0][:, None] + squares[1] - 2 * product)


def spread(row_splits: Array, n: int) -> Array:
    """Positions of so many members, about as many of each bag: the first ones, int64."""
    sizes = np.diff(row_splits)
    ranks = np.arange(row_splits[-1]) - np.repeat(row_splits[:-1], sizes)
    return np.sort(np.argsort(ranks, kind="stable")[:n])
