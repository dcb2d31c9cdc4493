"""One line for a whole training."""

import sys
import time
from collections.abc import Mapping
from typing import Any, TypeAlias

import keras
import numpy as np

__all__ = ["Progress"]

Logs: TypeAlias = Mapping[str, Any] | None
_WIDTH = 20  # characters of the bar
_SECONDS = 0.2  # between updates


class Progress(keras.callbacks.Callback):
    """A progress bar of all epochs on a terminal, which is gone at the end; elsewhere nothing.

    Args:
        epochs: number of epochs at most.
    """

    def __init__(self, epochs: int) -> None:
        super().__init__()
        self._epochs, self._epoch = epochs, 0
        self._seen: list[float] = []
        self._shown_at = 0.0

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        """Remember which it is."""
        self._epoch = epoch

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Show that something happens."""
        if time.perf_counter() - self._shown_at >= _SECONDS:
            self._show((batch + 1) / (self.params.get("steps") or np.inf))

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Show the loss."""
        self._seen.append(float((logs or {})["val_loss"]))
        self._show(1.0)

    def on_train_end(self, logs: Logs = None) -> None:
        """Empty the line."""
        if sys.stdout.isatty():
            print("\r\x1b[K", end="", flush=True)

    def _show(self, share_of_epoch: float) -> None:
        if not sys.stdout.isatty():
            return
        self._shown_at = time.perf_counter()
        share = (self._epoch + share_of_epoch) / self._epochs
        bar = ("━" * round(_WIDTH * share)).ljust(_WIDTH, "·")
        text = f"{bar} epoch {self._epoch + 1} of at most {self._epochs}"
        if self._seen:
            lowest = min((x for x in self._seen if not np.isnan(x)), default=np.nan)
            text += f", loss {self._seen[-1]:.4g}, lowest {lowest:.4g}"
        print(f"\r{text}\x1b[K", end="", flush=True)
