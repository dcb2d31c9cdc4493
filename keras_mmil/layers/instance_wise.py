"""Any Keras layer, applied to every instance."""

from typing import Any

import keras
import tensorflow as tf

from keras_mmil._support.keras_internals import RawInputs, check_no_mask
from keras_mmil._support.types import Shape
from keras_mmil.layers.grouping import depth_of

__all__ = ["InstanceWise"]


@keras.saving.register_keras_serializable("keras_mmil")
class InstanceWise(RawInputs, keras.layers.Wrapper):
    """Apply a Keras layer or model to every instance, and keep the structure of the bags.

    The layer sees all instances of the batch as one dense batch, so BatchNormalization averages
    over instances. In place of a batch without instances it sees one of zeros, whose result is
    dropped, so that moving averages do not become NaN. `training` is False by default, also for
    Keras's augmentation layers, which are active by default.

    Args:
        layer: the layer or model, for inputs [instances, ...].

    Input shape:
        RaggedTensor [batch, (n₁), …, (n_K), ...]: the axes of unknown size are the bags.

    Output shape:
        RaggedTensor [batch, (n₁), …, (n_K), ...] of the layer's outputs.

    Raises:
        ValueError: if the input is dense (use the layer itself, or `keras.layers.TimeDistributed`),
            or the layer's output has a Keras mask, which later layers would not see.

    Example:

    >>> encode = InstanceWise(keras.layers.Dense(8, activation="relu"))
    >>> encode(keras.Input((None, None, 5), ragged=True)).shape
    (None, None, None, 8)
    """

    def __init__(self, layer: keras.Layer, **kwargs: Any) -> None:
        super().__init__(layer, **kwargs)

    def build(self, input_shape: Shape) -> None:
        if not self.layer.built:
            inner = input_shape[depth_of(input_shape) :]
            self._check_instances(input_shape, len(inner))
            self.layer.build((None, *inner))

    def call(self, inputs: tf.RaggedTensor, training: bool | None = None) -> tf.RaggedTensor:
        if not isinstance(inputs, tf.RaggedTensor):
            raise ValueError(self._dense_message(inputs))
        flat = inputs.flat_values
        self._check_instances(inputs.shape, len(flat.shape) - 1)
        is_empty = tf.shape(flat)[0] == 0
        one_row = tf.concat([[1], tf.shape(flat)[1:]], axis=0)
        instances = tf.cond(is_empty, lambda: tf.zeros(one_row, flat.dtype), lambda: flat)
        instances = tf.ensure_shape(instances, [None, *flat.shape[1:]])
        # Keras's augmentation layers are active unless `training` is False.
        outputs = self.layer(instances, training=bool(training))
        check_no_mask(self, outputs, "outputs of its layer")
        outputs = tf.cond(is_empty, lambda: outputs[:0], lambda: outputs)
        return inputs.with_flat_values(outputs)

    def _check_instances(self, shape: Shape, rank: int) -> None:
        """Raise for instances that are numbers where the layer needs vectors."""
        spec = getattr(self.layer, "input_spec", None)
        if rank == 0 and (getattr(spec, "min_ndim", None) or 0) > 1:
            raise ValueError(
                f"InstanceWise '{self.name}' expected instances that are vectors, for a "
                f"{type(self.layer).__name__}. Received: inputs.shape={tuple(shape)}, of bags of "
                "numbers. If the innermost lists are instances, give their inner_shape to "
                "`ragged.from_nested_lists` or `tf.ragged.constant`, such as inner_shape=(3,)"
            )

    def compute_output_spec(
        self, inputs: keras.KerasTensor, training: bool | None = None
    ) -> keras.KerasTensor:
        if not inputs.ragged:
            raise ValueError(self._dense_message(inputs))
        depth = depth_of(inputs.shape)
        instance = keras.KerasTensor((None, *inputs.shape[depth:]), dtype=inputs.dtype)
        output = self.layer.compute_output_spec(instance)
        return keras.KerasTensor(
            (*inputs.shape[:depth], *output.shape[1:]), dtype=output.dtype, ragged=True
        )

    def _dense_message(self, inputs: tf.Tensor | keras.KerasTensor) -> str:
        return (
            f"InstanceWise '{self.name}' expected a RaggedTensor; call the layer itself, or "
            f"keras.layers.TimeDistributed, on a dense one. Received: inputs.shape="
            f"{tuple(inputs.shape)}"
        )
