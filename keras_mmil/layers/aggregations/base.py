"""Base class of the aggregations Ξ of a bag-layer."""

import keras
import tensorflow as tf

from keras_mmil._support.keras_internals import RawInputs
from keras_mmil._support.types import Shape
from keras_mmil.layers import segments

__all__ = ["Aggregation"]


class Aggregation(RawInputs):
    """Element-wise aggregation of the instances of each bag to one vector.

    A child states its formula in `reduce`, and its weights, if it has any, in `build`. It may do
    better than gather the instances in `reduce_members`.

    Input shape:
        `values` [instances, units], float; `row_ids` [instances], sorted, int32 or int64: the bag
        of each instance; `num_segments`: the number of bags; `weights` [instances] or None:
        multiplicities or importance, > 0. With `members` [instances], ints, `values` are
        [rows, units], and instance i is row `members[i]`.

    Output shape:
        [num_segments, units]. A bag without instances yields zeros.
    """

    # Whether an increasing function of the values may as well be applied to the result.
    keeps_order = False

    @property
    def identifier(self) -> str:
        """Name by which `aggregations.get` finds this aggregation."""
        return type(self).__name__.lower()

    def build(self, values_shape: Shape) -> None:
        """Create the weights for values of shape [instances, units]."""

    def call(
        self,
        values: tf.Tensor,
        row_ids: tf.Tensor | None = None,
        num_segments: tf.Tensor | int | None = None,
        weights: tf.Tensor | None = None,
        members: tf.Tensor | None = None,
    ) -> tf.Tensor:
        if values.shape.rank != 2 or not values.dtype.is_floating:
            raise ValueError(
                f"Aggregation '{self.name}' expected float values of shape [instances, units]. "
                f"Received: values.shape={values.shape}, values.dtype={values.dtype.name}"
            )
        if row_ids is None or num_segments is None:
            raise ValueError(
                f"Aggregation '{self.name}' expected the bag of each instance and the number "
                f"of bags. Received: row_ids={row_ids}, num_segments={num_segments}"
            )
        if members is None:
            return self.reduce(values, row_ids, num_segments, weights)
        return self.reduce_members(values, members, row_ids, num_segments, weights)

    def reduce(
        self,
        values: tf.Tensor,
        row_ids: tf.Tensor,
        num_segments: tf.Tensor | int,
        weights: tf.Tensor | None,
    ) -> tf.Tensor:
        """Reduce `values` [instances, units] to [num_segments, units]."""
        raise NotImplementedError

    def reduce_members(
        self,
        values: tf.Tensor,
        members: tf.Tensor,
        row_ids: tf.Tensor,
        num_segments: tf.Tensor | int,
        weights: tf.Tensor | None,
    ) -> tf.Tensor:
        """Reduce the rows `members` [instances] of `values` [rows, units] likewise."""
        instances = segments.gather_rows(values, members)
        return self.reduce(instances, row_ids, num_segments, weights)

    def compute_output_spec(
        self,
        values: keras.KerasTensor,
        row_ids: keras.KerasTensor | None = None,
        num_segments: keras.KerasTensor | int | None = None,
        weights: keras.KerasTensor | None = None,
        members: keras.KerasTensor | None = None,
    ) -> keras.KerasTensor:
        return keras.KerasTensor((None, values.shape[-1]), dtype=self.compute_dtype)
