"""Two kinds of networks side by side, each of which keeps the weights of its best epoch.

Those that read statistics of bags learn something else than the others, and often sooner.
"""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_mmil._support.types import Array, Config
from keras_mmil.layers import BagLayer
from keras_mmil.layers.aggregations import Attention
from keras_mmil.training.stopping import is_over

__all__ = ["BestHalves", "HalfLoss", "are_separate"]

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


def are_separate(model: keras.Model) -> bool:
    """Whether the members share no weights, so that each half can keep its own."""
    layers = [layer for layer in model.layers if isinstance(layer, BagLayer)]
    return not any(isinstance(one, Attention) for layer in layers for one in layer.aggregations)


class BestHalves(keras.callbacks.Callback):
    """Stop when the losses of both halves no longer fall, and restore the best weights of each.

    Args:
        patience, min_delta: as of `EarlyStopping`.
    """

    def __init__(self, patience: int, min_delta: float) -> None:
        super().__init__()
        self._patience, self._min_delta = patience, min_delta
        self._by_half: tuple[list[float], list[float]] = ([], [])
        self._best: list[list[Array] | None] = [None, None]

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """Keep the weights of a half whose loss is lowest."""
        for half, losses in enumerate(self._by_half):
            loss = float((logs or {})[f"val_{_NAMES[half]}"])
            if np.isfinite(loss) and not any(loss >= earlier for earlier in losses):
                self._best[half] = [np.array(w) for w in self.model.trainable_variables]
            losses.append(loss)
        over = [is_over(losses, self._patience, self._min_delta) for losses in self._by_half]
        self.model.stop_training = all(over)

    def on_train_end(self, logs: Mapping[str, float] | None = None) -> None:
        """Restore the weights."""
        first, second = self._best
        if first is None or second is None:
            return
        for variable, one, two in zip(self.model.trainable_variables, first, second, strict=True):
            # The groups of a layer are next to each other on the last axis.
            n = one.shape[-1]
            cut = n if variable.path.endswith("partly_kernel") else n // 2
            variable.assign(np.concatenate([one[..., :cut], two[..., cut:]], axis=-1))
