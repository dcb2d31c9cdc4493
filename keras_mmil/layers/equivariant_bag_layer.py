"""A dense layer on sets whose result does not depend on the order of the instances."""

from typing import Any

import keras
import tensorflow as tf

from keras_mmil._support.checks import positive_int
from keras_mmil._support.keras_internals import RawInputs
from keras_mmil._support.types import Config, Shape
from keras_mmil.layers import aggregations
from keras_mmil.layers._types import Activation, Nested
from keras_mmil.layers.aggregations import Identifier
from keras_mmil.layers.grouping import bag_of_each, group, with_rows
from keras_mmil.layers.segments import spread

__all__ = ["EquivariantBagLayer"]


@keras.saving.register_keras_serializable("keras_mmil")
class EquivariantBagLayer(RawInputs, keras.layers.Dense):
    """Map every instance by what sets it apart from its bag: ρᵢ = α(w(φᵢ - Ξⱼ φⱼ) + b).

    The bags stay as they are, so that such layers can be stacked before a `BagLayer` reduces them.
    As w(φᵢ - Ξⱼ φⱼ) = w φᵢ - w Ξⱼ φⱼ, there is one product for the instances, and a small one for
    the bags.

    Args:
        units: size of ρ.
        activation: α.
        aggregation: Ξ, "max" or "mean"; or another that `BagLayer` takes.
        use_bias, kernel_initializer, …: as in `keras.layers.Dense`.

    Input shape:
        RaggedTensor or tensor [batch, (n₁), …, (n_K), features]: the innermost bags are the sets.

    Output shape:
        [batch, (n₁), …, (n_K), units], nested likewise.

    Raises:
        ValueError: if the inputs are no bags of vectors, or have a Keras mask.

    Example:

    >>> clouds = tf.random.normal((2, 100, 3))
    >>> x = keras_mmil.layers.EquivariantBagLayer(256)(clouds)
    >>> keras_mmil.layers.BagLayer(None)(x).shape
    TensorShape([2, 256])

    Reference:
        Zaheer et al., Deep Sets, 2017: equation 4, and its variant by maxima.
    """

    def __init__(
        self,
        units: int,
        activation: Activation = "tanh",
        aggregation: Identifier = "max",
        **kwargs: Any,
    ) -> None:
        super().__init__(positive_int("units", units), activation=activation, **kwargs)
        self.aggregation = aggregations.get(aggregation)
        if not self.aggregation.built:
            self.aggregation.dtype_policy = self.dtype_policy

    def build(self, inputs_shape: Shape) -> None:
        self._check(inputs_shape)
        features = inputs_shape[-1]
        super().build((None, features))
        self.input_spec = None  # Dense's knows no ragged axes
        if not self.aggregation.built:
            self.aggregation.build((None, features))

    def call(self, inputs: Nested) -> Nested:
        self._check(inputs.shape)
        rows, bags, _ = group(tf.cast(inputs, self.compute_dtype), item_rank=1)
        # A batch without instances loses its inner dimension, hence the reshape.
        rows = tf.reshape(rows, [-1, inputs.shape[-1]])
        row_ids = bag_of_each(bags.row_splits)
        n_bags = tf.shape(bags.row_splits)[0] - 1
        centres = self.aggregation(rows, row_ids=row_ids, num_segments=n_bags)
        kernel = tf.cast(self.kernel, self.compute_dtype)
        shifts = -(centres @ kernel)  # (bags, units)
        if self.use_bias:
            shifts += tf.cast(self.bias, self.compute_dtype)
        x = self.activation(rows @ kernel + spread(shifts, row_ids))  # (instances, units)
        return with_rows(inputs, x)

    def compute_output_spec(self, inputs: keras.KerasTensor) -> keras.KerasTensor:
        self._check(inputs.shape)
        return keras.KerasTensor(
            (*inputs.shape[:-1], self.units), dtype=self.compute_dtype, ragged=inputs.ragged
        )

    def get_config(self) -> Config:
        return {**super().get_config(), "aggregation": aggregations.serialize(self.aggregation)}

    def _check(self, shape: Shape) -> None:
        if len(shape) < 3 or shape[-1] is None:
            raise ValueError(
                f"EquivariantBagLayer '{self.name}' expected bags [batch, (n), features] or "
                f"deeper, of a known number of features. Received: inputs.shape={tuple(shape)}"
            )
