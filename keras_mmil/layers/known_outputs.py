"""Outputs that nothing is learned from."""

import keras
import tensorflow as tf

from keras_mmil._support.types import Shape

__all__ = ["KnownOutputs"]


@keras.saving.register_keras_serializable("keras_mmil")
class KnownOutputs(keras.layers.Layer):
    """In training, 1 for the outputs that the network was told; the others as they are.

    For a network that is told some of its labels, and is to find the others: to repeat what it
    knows would be no use, and to learn it spoils what it learns of the others. With a
    `MemberDropout` on the bag of what it is told, it learns from what was left out, and from what
    is not there.

    Outside of training all outputs stay as they are. For what was told, an output then says what
    the network would expect if it had not been told; and as it has seen of what is there only the
    share r that was left out, odds are r times those of being there: an output above r / (1 + r)
    says that it is likelier there than not (Elkan and Noto).

    Call arguments:
        outputs: probabilities.
        told: above 0 for what the network was told.
        training: whether this is training.

    Input shape:
        Two float tensors of one shape, [batch, things].

    Output shape:
        The same.

    Raises:
        ValueError: if the shapes differ.

    Example:

    >>> outputs, told = tf.constant([[0.2, 0.7]]), tf.constant([[1.0, 0.0]])
    >>> keras_mmil.layers.KnownOutputs()(outputs, told, training=True).numpy()
    array([[1. , 0.7]], dtype=float32)

    Reference:
        Elkan and Noto, Learning Classifiers from Only Positive and Unlabeled Data, 2008.
    """

    def build(self, outputs_shape: Shape, told_shape: Shape) -> None:
        """Nothing to create."""
        if tuple(outputs_shape) != tuple(told_shape):
            raise ValueError(
                f"KnownOutputs '{self.name}' expected tensors of one shape. Received: "
                f"outputs.shape={tuple(outputs_shape)}, told.shape={tuple(told_shape)}"
            )

    def call(self, outputs: tf.Tensor, told: tf.Tensor, training: bool = False) -> tf.Tensor:
        return tf.where(told > 0, tf.ones_like(outputs), outputs) if training else outputs

    def compute_output_shape(self, outputs_shape: Shape, told_shape: Shape) -> Shape:
        return outputs_shape
