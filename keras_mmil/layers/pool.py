"""One prediction of several."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from keras_mmil._support.checks import check_number
from keras_mmil._support.types import Config, Shape

__all__ = ["Pool"]

LEAST = 1e-3
"""The least probability that is pooled, so that none is a veto."""


@keras.saving.register_keras_serializable("keras_mmil")
class Pool(keras.layers.Layer):
    """Pool predictions: the product of probabilities to the power of weights, or a weighted sum.

    Weights that sum to more than 1 make probabilities more extreme, as is right for predictions by
    different evidence, or for the cautious ones of a forest. A single prediction of weight 1 stays
    as it is.

    Args:
        weights: of the predictions, ≥ 0.
        activation: "softmax" for probabilities of classes, "sigmoid" for those of labels (or of the
            second of two classes), "linear" for numbers, which are summed.

    Input shape:
        A list of tensors [batch, n].

    Output shape:
        [batch, n].

    Reference:
        Genest and Zidek, Combining Probability Distributions, 1986: the logarithmic pool.
    """

    def __init__(self, weights: Sequence[float], activation: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        # Keras's layers have an attribute `weights`.
        self.shares = [check_number("weights", weight, least=0) for weight in weights]
        if activation not in ("linear", "sigmoid", "softmax"):
            raise ValueError(
                f"Expected 'linear', 'sigmoid' or 'softmax'. Received: activation={activation!r}"
            )
        self.activation = keras.activations.get(activation)

    def build(self, shapes: Sequence[Shape]) -> None:
        if len(shapes) != len(self.shares):
            raise ValueError(
                f"Pool '{self.name}' expected {len(self.shares)} predictions, one for each weight. "
                f"Received: {len(shapes)}"
            )

    def call(self, inputs: Sequence[tf.Tensor]) -> tf.Tensor:
        pairs = list(zip(self.shares, inputs, strict=True))
        if self.shares == [1.0]:
            return inputs[0]
        if self.activation is keras.activations.linear:
            return tf.add_n([weight * x for weight, x in pairs])
        of_each = [(weight, tf.clip_by_value(x, LEAST, 1 - LEAST)) for weight, x in pairs]
        if self.activation is keras.activations.softmax:
            return tf.nn.softmax(tf.add_n([weight * tf.math.log(x) for weight, x in of_each]))
        logits = [weight * (tf.math.log(x) - tf.math.log1p(-x)) for weight, x in of_each]
        return tf.sigmoid(tf.add_n(logits))

    def compute_output_spec(self, inputs: Sequence[keras.KerasTensor]) -> keras.KerasTensor:
        return keras.KerasTensor(inputs[0].shape, dtype=self.compute_dtype)

    def get_config(self) -> Config:
        activation = keras.activations.serialize(self.activation)
        return {**super().get_config(), "weights": self.shares, "activation": activation}
