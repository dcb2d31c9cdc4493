"""Checkpoints of a training that may be killed at any moment."""

import csv
import re
import time
from pathlib import Path

import keras
import numpy as np

from keras_mmil._support.atomic import replacing

__all__ = ["Checkpoint"]

_NAME = re.compile(r"epoch-(\d+)\.keras")


class Checkpoint(keras.callbacks.Callback):
    """Save the whole training state after epochs, and the best model so far.

    Every file is written under another name and then renamed, so that none is ever half written:
    `epoch-NNNN.keras` (the newest only, with the optimizer's state), `best.keras` (the epoch with
    the lowest `monitor`) and `history.csv` (one line an epoch).

    Args:
        folder: where the files go; made if missing.
        monitor: the logged quantity, the lower the better, by which the best model is chosen; None
            for the last one.
        seconds: epochs that end sooner than this after the last save are saved with a later one, or
            at the end: saving may take longer than a short epoch.

    Attributes:
        history: list of dicts, one for each finished epoch: its number, its seconds, its logs.
    """

    def __init__(self, folder, monitor="val_loss", seconds=5.0):
        super().__init__()
        self.folder = Path(folder)
        self.monitor = monitor
        self.seconds = seconds
        self.history = []
        self._best = None  # values of the best epoch's variables, while they are not saved
        self._n_saved, self._saved_at = 0, -np.inf

    @property
    def best_path(self):
        """Path of the best model."""
        return self.folder / "best.keras"

    def restore(self):
        """Load the newest state.

        Returns:
            The model, compiled and with its optimizer's state, or None where nothing was saved.
        """
        saved = self._saved()
        if not saved:
            return None
        with open(self.folder / "history.csv", newline="") as file:
            rows = [
                {"epoch": int(epoch), **{key: float(value) for key, value in logs.items()}}
                for epoch, logs in ((row.pop("epoch"), row) for row in csv.DictReader(file))
            ]
        # An epoch whose state was not saved any more is trained again.
        self.history = rows[: max(saved)]
        self._n_saved = len(self.history)
        self._remove_others(max(saved))  # which a kill may have left
        return keras.models.load_model(saved[max(saved)])

    def clear(self):
        """Remove what an earlier training left in the folder."""
        for path in [*self._saved().values(), self.best_path, self.folder / "history.csv"]:
            path.unlink(missing_ok=True)

    def on_train_begin(self, logs=None):
        self.folder.mkdir(parents=True, exist_ok=True)

    def on_epoch_begin(self, epoch, logs=None):
        self._started = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        logs = {key: float(value) for key, value in (logs or {}).items()}
        if self.monitor is not None and self.monitor not in logs:
            raise ValueError(
                f"Expected the logs of an epoch to contain what is monitored, one of "
                f"{sorted(logs)}. Received: monitor={self.monitor!r}"
            )
        is_best = self.monitor is None or all(
            logs[self.monitor] < earlier[self.monitor] for earlier in self.history
        )
        seconds = time.perf_counter() - self._started
        self.history.append({"epoch": epoch, "seconds": seconds, **logs})
        if is_best:
            self._best = [variable.numpy() for variable in self._saved_variables()]
        if time.perf_counter() - self._saved_at >= self.seconds:
            self._save()

    def on_train_end(self, logs=None):
        if len(self.history) > self._n_saved:
            self._save()

    def _save(self):
        if self._best is not None:
            variables = self._saved_variables()
            latest = [variable.numpy() for variable in variables]
            _assign(variables, self._best)
            self._save_model(self.best_path)
            _assign(variables, latest)
            self._best = None
        self._save_history()
        # Last, because its presence says that the epoch is finished.
        n_epochs = len(self.history)
        self._save_model(self.folder / f"epoch-{n_epochs:04d}.keras")
        self._remove_others(n_epochs)
        self._n_saved, self._saved_at = n_epochs, time.perf_counter()

    def _remove_others(self, n_epochs):
        for number, path in self._saved().items():
            if number != n_epochs:
                path.unlink(missing_ok=True)

    def _saved_variables(self):
        """All that is saved. Keras does not save the states of random number generators."""
        return [*self.model.weights, *self.model.optimizer.variables]

    def _saved(self):
        """Paths of the saved states, by number of finished epochs."""
        matches = ((_NAME.fullmatch(path.name), path) for path in self.folder.glob("epoch-*"))
        return {int(match[1]): path for match, path in matches if match}

    def _save_model(self, path):
        with replacing(path) as part:
            self.model.save(part)

    def _save_history(self):
        with replacing(self.folder / "history.csv") as part, open(part, "w", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(self.history[0]))
            writer.writeheader()
            writer.writerows(self.history)


def _assign(variables, values):
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)
