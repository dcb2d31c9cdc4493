"""Log-sum-exp, a smooth maximum, of each bag."""

import math
from typing import Any

import keras
import tensorflow as tf

from keras_mmil._support.checks import check_number
from keras_mmil._support.types import Config, Shape
from keras_mmil.layers import segments
from keras_mmil.layers.aggregations.base import Aggregation

__all__ = ["LSE"]


@keras.saving.register_keras_serializable("keras_mmil")
class LSE(Aggregation):
    """Smooth maximum: log(Σᵢ wᵢ exp(M ρᵢ)) / M.

    Args:
        sharpness: M > 0, the start value where it is learned; the maximum is reached as M → ∞.
        learned: whether M is learned, one for each unit (through its logarithm, so that it
            stays positive).

    Reference:
        Ramon and De Raedt, Multi Instance Neural Networks, 2000.
    """

    def __init__(self, sharpness: float = 1.0, learned: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.sharpness = check_number("sharpness", sharpness)
        if not 0 < self.sharpness < math.inf:
            raise ValueError(f"Expected a finite sharpness > 0. Received: sharpness={sharpness}")
        self.learned = bool(learned)

    def build(self, values_shape: Shape) -> None:
        if self.learned:
            self.log_sharpness = self.add_weight(
                shape=(values_shape[-1],),
                initializer=keras.initializers.Constant(math.log(self.sharpness)),
                name="log_sharpness",
            )

    def reduce(
        self,
        values: tf.Tensor,
        row_ids: tf.Tensor,
        num_segments: tf.Tensor | int,
        weights: tf.Tensor | None,
    ) -> tf.Tensor:
        sharpness = keras.ops.exp(self.log_sharpness) if self.learned else self.sharpness
        return segments.segment_lse(values, row_ids, num_segments, weights, sharpness)

    def get_config(self) -> Config:
        return {**super().get_config(), "sharpness": self.sharpness, "learned": self.learned}
