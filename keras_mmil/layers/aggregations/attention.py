"""Attention-weighted mean of each bag."""

from typing import Any

import keras
import tensorflow as tf

from keras_mmil._support.checks import positive_int
from keras_mmil._support.types import Config, Shape
from keras_mmil.layers import segments
from keras_mmil.layers.aggregations.base import Aggregation

__all__ = ["Attention"]


@keras.saving.register_keras_serializable("keras_mmil")
class Attention(Aggregation):
    """Attention: Σᵢ aᵢ ρᵢ with a = softmax(s) in each bag, sᵢ = q · tanh(V ρᵢ).

    The gated form is sᵢ = q · (tanh(V ρᵢ) ⊙ sigmoid(U ρᵢ)). A multiplicity wᵢ counts as wᵢ
    equal instances: aᵢ ∝ wᵢ exp(sᵢ).

    Args:
        hidden_units: number of rows of V (and U).
        gated: whether to use the gated form.

    Reference:
        Ilse, Tomczak and Welling, Attention-based Deep Multiple Instance Learning, 2018.
    """

    def __init__(self, hidden_units: int = 64, gated: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.hidden_units = positive_int("hidden_units", hidden_units)
        self.gated = bool(gated)

    def build(self, values_shape: Shape) -> None:
        shape = (values_shape[-1], self.hidden_units)
        self.content = self.add_weight(shape=shape, name="content")  # V
        if self.gated:
            self.gate = self.add_weight(shape=shape, name="gate")  # U
        self.query = self.add_weight(shape=(self.hidden_units, 1), name="query")  # q

    def attention_weights(
        self,
        values: tf.Tensor,
        row_ids: tf.Tensor,
        num_segments: tf.Tensor | int,
        weights: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """The share aᵢ of each instance in its bag, [instances, 1]; sums to 1 in each bag."""
        hidden = keras.ops.tanh(keras.ops.matmul(values, self.content))  # (instances, hidden)
        if self.gated:
            hidden *= keras.ops.sigmoid(keras.ops.matmul(values, self.gate))
        scores = keras.ops.matmul(hidden, self.query)  # (instances, 1)
        return segments.segment_softmax(scores, row_ids, num_segments, weights)

    def reduce(
        self,
        values: tf.Tensor,
        row_ids: tf.Tensor,
        num_segments: tf.Tensor | int,
        weights: tf.Tensor | None,
    ) -> tf.Tensor:
        shares = self.attention_weights(values, row_ids, num_segments, weights)
        return segments.segment_sum(values * shares, row_ids, num_segments)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "hidden_units": self.hidden_units,
            "gated": self.gated,
        }
