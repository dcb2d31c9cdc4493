"""Two kinds of networks side by side, each of which keeps the weights of its best epoch.

Those that read statistics of bags learn something else than the others, and often sooner.
"""

import functools
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_mmil._support.types import Array, Config
from keras_mmil.layers import aggregations
from keras_mmil.layers.aggregations import Aggregations, Attention
from keras_mmil.training.stopping import Keep

__all__ = ["HALVES", "HalfLoss", "are_separate"]

_NAMES = ("first_half", "second_half")


@keras.saving.register_keras_serializable("keras_mmil")
class HalfLoss(keras.metrics.Mean):
    """The loss of the first or second half of the members of a network.

    Args:
        loss: name of the loss, of outputs [batch, members, n].
        half: 0 or 1.
    """

    def __init__(self, loss: str, half: int, name: str | None = None, **kwargs: Any) -> None:
        super().__init__(name=name or _NAMES[half], **kwargs)
        self.loss, self.half = loss, half

    def update_state(
        self, y_true: tf.Tensor, y_pred: tf.Tensor, sample_weight: tf.Tensor | None = None
    ) -> None:
        """Add the losses of a batch; labels and weights are [batch, members, …], too."""
        n = y_pred.shape[1] // 2
        at = slice(n) if self.half == 0 else slice(n, None)
        losses = keras.losses.get(self.loss)(y_true[:, at], y_pred[:, at])
        super().update_state(losses, None if sample_weight is None else sample_weight[:, at])

    def get_config(self) -> Config:
        """For saving."""
        return {**super().get_config(), "loss": self.loss, "half": self.half}


def are_separate(aggregation: Aggregations) -> bool:
    """Whether the members share no weights, so that each half can keep its own."""
    return not any(isinstance(each, Attention) for each in aggregations.get_all(aggregation))


def _kept(half: int, variable: keras.Variable, best: Array, now: Array) -> Array:
    """A variable in which a half of the members is as it is now: see `Best`."""
    if not variable.trainable:
        return now
    # The groups of a layer are next to each other on the last axis.
    n = now.shape[-1]
    cut = n if variable.path.endswith("partly_kernel") else n // 2
    first, second = (now, best) if half == 0 else (best, now)
    return np.concatenate([first[..., :cut], second[..., cut:]], axis=-1)


HALVES: Mapping[str, Keep] = {
    f"val_{name}": functools.partial(_kept, half) for half, name in enumerate(_NAMES)
}
