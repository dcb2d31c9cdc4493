"""Checkpoints of a training that may be interrupted at any moment."""

import csv
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import keras
import numpy as np
import tensorflow as tf

from keras_mmil._support.archives import load_network
from keras_mmil._support.files import atomic_write
from keras_mmil._support.types import Array, PathLike
from keras_mmil.model.replicas import is_chief, of_chief, on_this_worker

__all__ = ["Checkpoint"]

_NAME = re.compile(r"epoch-(\d+)\.keras")


Logs: TypeAlias = Mapping[str, Any] | None  # of an epoch, as Keras gives them to callbacks


class Checkpoint(keras.callbacks.Callback):
    """Save the whole training state after epochs, and the best model so far.

    Every file is written under another name and then renamed, so that none is ever incomplete:
    `epoch-NNNN.keras` (the newest only, with the optimizer's state), `best.keras` (the epoch with
    the lowest `monitor`) and `history.csv` (one line an epoch).

    Of several workers, only the chief writes, and all restore what it finds. In that case the
    folder must be one that all share, and all methods are for calls within the strategy's scope.

    Args:
        folder: where the files go; made if missing.
        monitor: the logged quantity by which the best model is chosen, the lower the better; with
            None the last model is the best.
        seconds: epochs that end sooner than this after the last save are saved with a later one, or
            at the end: saving may take longer than a short epoch.

    Attributes:
        history: list of dicts, one for each finished epoch: its number, its seconds, its logs.
    """

    def __init__(
        self, folder: PathLike, monitor: str | None = "val_loss", seconds: float = 5.0
    ) -> None:
        super().__init__()
        self.folder = Path(folder)
        self.monitor = monitor
        self.seconds = seconds
        self.history: list[dict[str, float]] = []
        # Values of the best epoch's variables, while they are not saved.
        self._best: list[Array] | None = None
        self._n_saved, self._saved_at = 0, -np.inf

    @property
    def best_path(self) -> Path:
        """Path of the best model."""
        return self.folder / "best.keras"

    @property
    def newest_path(self) -> Path:
        """Path of the model of the last epoch, once that is saved."""
        return self._path_of(len(self.history))

    @property
    def has_best(self) -> bool:
        """Whether what is monitored was a number in some epoch."""
        return self.monitor is None or any(not np.isnan(e[self.monitor]) for e in self.history)

    def restore(self) -> keras.Model | None:
        """Load the newest state.

        Returns:
            The model, compiled and with its optimizer's state, or None where nothing was saved.
        """
        newest = of_chief(tf.distribute.get_strategy(), max(self._saved(), default=0))
        if not newest:
            return None
        path = self._path_of(newest)
        if not path.exists():
            raise FileNotFoundError(
                f"Expected the chief's checkpoint in a folder of all workers. Received: {path}"
            )
        # Epochs after the last saved state are trained again.
        self.history = self._read_history()[:newest]
        if [row.get("epoch") for row in self.history] != list(range(newest)):
            raise ValueError(
                f"Expected the {newest} epochs of {path}. Received: "
                f"{self.folder / 'history.csv'} with {len(self.history)}, or others"
            )
        self._n_saved = len(self.history)
        if is_chief(tf.distribute.get_strategy()):
            self._remove_others(newest)  # which an interruption may have left
        return load_network(path)

    def clear(self) -> None:
        """Remove what an earlier training left in the folder."""
        if not is_chief(tf.distribute.get_strategy()):
            return
        for path in [*self._saved().values(), self.best_path, self.folder / "history.csv"]:
            path.unlink(missing_ok=True)

    def on_train_begin(self, logs: Logs = None) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        self._started = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        logs = {key: float(value) for key, value in (logs or {}).items()}
        if self.monitor is not None and self.monitor not in logs:
            raise ValueError(
                f"Expected the logs of an epoch to contain what is monitored, one of "
                f"{sorted(logs)}. Received: monitor={self.monitor!r}"
            )
        # NaN is never the best, and no epoch loses against it.
        is_best = self.monitor is None or (
            not np.isnan(logs[self.monitor])
            and all(not logs[self.monitor] >= earlier[self.monitor] for earlier in self.history)
        )
        seconds = time.perf_counter() - self._started
        self.history.append({"epoch": epoch, "seconds": seconds, **logs})
        if not is_chief(self.model.distribute_strategy):
            return
        if is_best:
            self._best = [variable.numpy() for variable in self._saved_variables()]
        if time.perf_counter() - self._saved_at >= self.seconds:
            self._save()

    def on_train_end(self, logs: Logs = None) -> None:
        if len(self.history) > self._n_saved and is_chief(self.model.distribute_strategy):
            self._save()

    def _save(self) -> None:
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
        self._save_model(self._path_of(n_epochs))
        self._remove_others(n_epochs)
        self._n_saved, self._saved_at = n_epochs, time.perf_counter()

    def _remove_others(self, n_epochs: int) -> None:
        for number, path in self._saved().items():
            if number != n_epochs:
                path.unlink(missing_ok=True)

    def _saved_variables(self) -> list[keras.Variable]:
        """All that is saved. Keras does not save the states of random number generators."""
        return [*self.model.weights, *self.model.optimizer.variables]

    def _saved(self) -> dict[int, Path]:
        """Paths of the saved states, by number of finished epochs."""
        matches = ((_NAME.fullmatch(path.name), path) for path in self.folder.glob("epoch-*"))
        return {int(match[1]): path for match, path in matches if match}

    def _path_of(self, n_epochs: int) -> Path:
        return self.folder / f"epoch-{n_epochs:04d}.keras"

    def _save_model(self, path: Path) -> None:
        with atomic_write(path) as part:
            on_this_worker(lambda: self.model.save(part))

    def _read_history(self) -> list[dict[str, float]]:
        path = self.folder / "history.csv"
        try:
            with open(path, newline="") as file:
                rows = [
                    {key: int(x) if key == "epoch" else float(x) for key, x in row.items()}
                    for row in csv.DictReader(file, strict=True)
                ]
            if any(self.monitor not in row for row in rows if self.monitor is not None):
                raise ValueError(f"there is no {self.monitor}")
        except (TypeError, ValueError, csv.Error) as error:
            raise ValueError(
                f"Expected a history as it was written. Received: {path} ({error})"
            ) from error
        return rows

    def _save_history(self) -> None:
        with atomic_write(self.folder / "history.csv") as part, open(part, "w", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(self.history[0]))
            writer.writeheader()
            writer.writerows(self.history)


def _assign(variables: Sequence[keras.Variable], values: Sequence[Array]) -> None:
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)
