"""When to stop a training: when the validation loss no longer falls noticeably."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

from keras_mmil._support.types import Array

__all__ = ["EarlyStopping", "is_over"]


def is_over(losses: Sequence[float], patience: int, min_delta: float = 0.0) -> bool:
    """Whether a loss has not fallen noticeably for some epochs.

    Args:
        losses: of each epoch so far.
        patience: number of such epochs.
        min_delta: by how much it has to fall below the lowest loss so far, as a fraction of the
            loss of the first epoch.
    """
    lowest, since = np.inf, 0
    least = min_delta * next((loss for loss in losses if np.isfinite(loss)), 0.0)
    for loss in losses:
        if loss < lowest - least:
            lowest, since = loss, 0
        else:  # also for NaN
            since += 1
    return since >= patience


class EarlyStopping(keras.callbacks.Callback):
    """Stop when the validation loss `is_over`, and restore the weights of its best epoch.

    Keras's takes `min_delta` as an absolute number, and forgets epochs that are better by less.
    """

    def __init__(self, patience: int, min_delta: float = 0.0) -> None:
        super().__init__()
        self.patience, self.min_delta = patience, min_delta

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        self._by_epoch: list[float] = []
        self._best: list[Array] | None = None

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        loss = (logs or {})["val_loss"]
        if np.isfinite(loss) and not any(loss >= earlier for earlier in self._by_epoch):
            self._best = self.model.get_weights()
        self._by_epoch.append(loss)
        if is_over(self._by_epoch, self.patience, self.min_delta):
            self.model.stop_training = True

    def on_train_end(self, logs: Mapping[str, Any] | None = None) -> None:
        if self._best is not None:
            self.model.set_weights(self._best)
