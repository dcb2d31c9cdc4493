"""Power mean of each bag."""

import math
from typing import Any

import keras
import tensorflow as tf

from keras_mmil._support.types import Config, Shape
from keras_mmil.layers import segments
from keras_mmil.layers.aggregations.base import Aggregation

__all__ = ["PNorm"]


@keras.saving.register_keras_serializable("keras_mmil")
class PNorm(Aggregation):
    """Power mean: (Σᵢ wᵢ |ρᵢ|ᵖ / Σᵢ wᵢ)^(1/p); p = 1 is the mean of |ρ|, p → ∞ its maximum.

    Args:
        p: the exponent, ≥ 1, or > 1 where it is learned (its start value).
        learned: whether p is learned, one for each unit (as p = 1 + exp(r)).

    Reference:
        Gulcehre et al., Learned-Norm Pooling for Deep Feedforward and Recurrent Neural
        Networks, 2014.
    """

    def __init__(self, p: float = 2.0, learned: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not 1 <= p < math.inf or (learned and p == 1):
            raise ValueError(
                "Expected a finite exponent p ≥ 1, and > 1 where it is learned. "
                f"Received: p={p}, learned={learned}"
            )
        self.p = float(p)
        self.learned = bool(learned)

    def build(self, values_shape: Shape) -> None:
        if self.learned:
            self.raw_p = self.add_weight(
                shape=(values_shape[-1],),
                initializer=keras.initializers.Constant(math.log(self.p - 1.0)),
                name="raw_p",
            )

    def reduce(
        self,
        values: tf.Tensor,
        row_ids: tf.Tensor,
        num_segments: tf.Tensor | int,
        weights: tf.Tensor | None,
    ) -> tf.Tensor:
        p = 1.0 + keras.ops.exp(self.raw_p) if self.learned else self.p
        return segments.segment_pnorm(values, row_ids, num_segments, weights, p)

    def get_config(self) -> Config:
        return {**super().get_config(), "p": self.p, "learned": self.learned}
