"""Training that continues after an interruption, from checkpoints."""

import contextlib
import csv
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import keras
import numpy as np
import tensorflow as tf

from keras_mmil import ragged
from keras_mmil._support.archives import load_network
from keras_mmil._support.checks import check_labels, check_weights, positive_int
from keras_mmil._support.digests import digest_of
from keras_mmil._support.files import atomic_write, locked, write_json
from keras_mmil._support.keras_internals import seed_generators
from keras_mmil._support.types import Array, Labels, PathLike, Tensors
from keras_mmil.bags import Bags
from keras_mmil.model.checks import InputChecks
from keras_mmil.model.replicas import feed_replicas, is_chief, of_chief, on_this_worker
from keras_mmil.model.seeds import seeded
from keras_mmil.training._networks import check_can_resume, differences, network_digest
from keras_mmil.training.stopping import VALIDATION, Best, Keep, now

__all__ = ["Checkpoint", "fit_resumable"]

_SETTINGS = "training.json"
_NAME = re.compile(r"epoch-(\d+)\.keras")

# From a model, inputs, and inputs for validation to those in their place.
Wrap: TypeAlias = Callable[[keras.Model, Any, Any], tuple[keras.Model, Any, Any]]
Logs: TypeAlias = Mapping[str, Any] | None  # of an epoch, as Keras gives them to callbacks


class Checkpoint(keras.callbacks.Callback):
    """Save the whole training state after epochs, and the best model so far.

    The files are whole at any moment: `epoch-NNNN.keras` (the newest only, with the optimizer's
    state), `best.keras` (the epoch with the lowest `monitor`) and `history.csv` (a line for each
    epoch).

    Of several workers, only the chief writes, and all restore what it finds. They must share the
    folder, and call all methods within the scope of the strategy.

    Args:
        folder: of the files; made if missing.
        monitor: the logged quantity that is lowest in the best epoch, or several: see `Best`; with
            None the last epoch is the best.
        seconds: epochs that end sooner after the last save are saved with a later one, or at the
            end, as saving may take longer than a short epoch.

    Attributes:
        history: list of dicts, one for each finished epoch: its number, its seconds, its logs.
    """

    def __init__(
        self,
        folder: PathLike,
        monitor: str | Mapping[str, Keep] | None = "val_loss",
        seconds: float = 5.0,
    ) -> None:
        super().__init__()
        self.folder = Path(folder)
        self.seconds = seconds
        self.history: list[dict[str, float]] = []
        self.best = Best({monitor: now} if isinstance(monitor, str) else monitor or {})
        self._is_best_saved = True
        self._n_saved, self._saved_at = 0, -np.inf

    @property
    def best_path(self) -> Path:
        """Path of the best model."""
        return self.folder / "best.keras"

    @property
    def newest_path(self) -> Path:
        """Path of the model of the last epoch, once it is saved."""
        return self._path_of(len(self.history))

    @property
    def has_best(self) -> bool:
        """Whether each `monitor` was a number in some epoch."""
        return all(np.isfinite(losses).any() for losses in self.best.by_epoch.values())

    def restore(self) -> keras.Model | None:
        """The newest model, compiled and with its optimizer's state; None if none was saved."""
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
        for name, losses in self.best.by_epoch.items():
            losses[:] = [row[name] for row in self.history]
        # The next epoch may be better in a part; without a number so far, there is no best one.
        if len(self.best.losses) > 1 and self.best_path.exists():
            best = load_network(self.best_path)
            self.best.values = [x.numpy() for x in _saved_variables(best)]
        if is_chief(tf.distribute.get_strategy()):
            self._remove_others(newest)  # which an interruption may have left
        return load_network(path)

    def clear(self) -> None:
        """Delete the files of an earlier training."""
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
        for name in self.best.losses:
            if name not in logs:
                raise ValueError(
                    f"Expected the logs of an epoch to contain what is monitored, one of "
                    f"{sorted(logs)}. Received: monitor={name!r}"
                )
        seconds = time.perf_counter() - self._started
        self.history.append({"epoch": epoch, "seconds": seconds, **logs})
        if self.best.update(logs, _saved_variables(self.model)):
            self._is_best_saved = False
        if not is_chief(self.model.distribute_strategy):
            return
        if time.perf_counter() - self._saved_at >= self.seconds:
            self._save()

    def on_train_end(self, logs: Logs = None) -> None:
        if len(self.history) > self._n_saved and is_chief(self.model.distribute_strategy):
            self._save()

    def _save(self) -> None:
        if not self._is_best_saved and self.best.values is not None:
            variables = _saved_variables(self.model)
            latest = [variable.numpy() for variable in variables]
            _assign(variables, self.best.values)
            self._save_model(self.best_path)
            _assign(variables, latest)
            self._is_best_saved = True
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
            for name in self.best.losses:
                if any(name not in row for row in rows):
                    raise ValueError(f"there is no {name}")
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


def _saved_variables(model: keras.Model) -> list[keras.Variable]:
    """All variables but the states of random number generators, which Keras does not save."""
    return [*model.weights, *model.optimizer.variables]


def _assign(variables: Sequence[keras.Variable], values: Sequence[Array]) -> None:
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)


def fit_resumable(
    build: Callable[[], keras.Model],
    x: Tensors | Bags,
    y: Labels,
    *,
    folder: PathLike,
    sample_weight: Labels = None,
    validation_data: tuple[Any, ...] | None = None,
    epochs: int,
    batch_size: int = 32,
    shuffle: bool = True,
    seed: int = 0,
    resume: bool = False,
    patience: int | None = None,
    min_delta: float = 0.0,
    losses: Mapping[str, Keep] = VALIDATION,
    wrap: Wrap | None = None,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    verbose: int = 2,
    **fit_arguments: Any,
) -> tuple[keras.Model, list[dict[str, float]]]:
    """Train a model with checkpoints, or continue such a training.

    An interruption loses at most the current epoch and those of the last few seconds. The initial
    weights depend on the seed alone, the order of the data and the random numbers of an epoch on
    the seed and its number: an interrupted training continues as if it had not been interrupted.
    The program's own random numbers are not touched.

    To train on several workers, call this on all of them within the scope of a strategy, with the
    same data. The first worker, or the chief, writes the checkpoints to `folder`, which all share.

    Args:
        build: function without arguments that returns a compiled model.
        x, y, sample_weight, validation_data, epochs, batch_size, shuffle, callbacks, verbose: as in
            `keras.Model.fit`.
        folder: of the checkpoints, see `Checkpoint`.
        seed: int from 0 to 2³² - 1: of the initial weights, the orders of the data, and dropout.
        resume: whether to continue from the checkpoints in the folder, if any; otherwise they are
            deleted.
        patience: number of consecutive epochs without a lower validation loss, also across
            interruptions, after which the training ends. The best epoch's model is returned. With
            None all epochs are trained, and the last one's model is returned.
        min_delta: by how much the loss has to fall, as a fraction of that of the first epoch.
        losses: in the place of the validation loss, those of parts of the model: see `Best`.
        wrap: function from the model, `x` and the inputs for validation to those that are trained
            on in their place: a model that shares weights and optimizer with the given one, and
            saves that, such as a `VirtualAdversarialModel`. None for themselves.
        fit_arguments: further arguments of `keras.Model.fit`.

    Returns:
        The model, and the history: a list of dicts, one for each epoch.

    Raises:
        BlockingIOError: if another process trains in the folder.
        ValueError: if the data, the model, `seed`, `batch_size` or `shuffle` are not those of the
            training to resume; if the validation loss is NaN in all epochs; if there is a patience
            without validation data; if a count is no int of at least 1; or if the data do not fit
            the model.
    """
    if validation_data is None and patience is not None:
        raise ValueError(f"Expected validation data for a patience. Received: {patience=}")
    epochs, batch_size = positive_int("epochs", epochs), positive_int("batch_size", batch_size)
    patience = positive_int("patience", patience, optional=True)
    strategy = tf.distribute.get_strategy()
    checkpoint = Checkpoint(folder, monitor=None if validation_data is None else losses)
    with contextlib.ExitStack() as held:
        leads = is_chief(strategy)
        if leads:
            held.enter_context(locked(checkpoint.folder))
        generator = held.enter_context(seeded(seed))
        if not resume:
            checkpoint.clear()
        model = build()
        x = InputChecks(model)(x)
        n, n_outputs = ragged.n_top_bags(x), len(model.outputs)
        y = check_labels(y, n, n_outputs)
        weights = check_weights(sample_weight, n, n_outputs)
        settings = {
            "x": digest_of(x),
            "y": digest_of(y),
            "sample_weight": None if weights is None else digest_of(weights),
            "validation_data": None
            if validation_data is None
            else digest_of((InputChecks(model)(validation_data[0]), *validation_data[1:])),
            "model": network_digest(model),
            "seed": seed,
            "batch_size": batch_size,
            "shuffle": shuffle,
        }
        restored = checkpoint.restore()
        if restored is not None:
            check_can_resume(model)
            _check_settings(checkpoint.folder, settings)
            model.optimizer.build(model.trainable_variables)
            _assign(_saved_variables(model), _saved_variables(restored))
        elif leads:
            write_json(checkpoint.folder / _SETTINGS, settings)
        finished = len(checkpoint.history)
        stop = _Stop(checkpoint, patience, min_delta)
        if finished < epochs and not stop.is_over():
            x_valid = None if validation_data is None else validation_data[0]
            trained, x_train, x_valid = (
                (model, x, x_valid) if wrap is None else wrap(model, x, x_valid)
            )
            if validation_data is not None:
                validation_data = x_valid, *validation_data[1:]
            further = [checkpoint, stop]
            trained.fit(
                **feed_replicas(
                    strategy,
                    x_train,
                    (y,) if weights is None else (y, weights),
                    batch_size=batch_size,
                    shuffle=shuffle,
                    seed=seed,
                    first_epoch=finished,
                ),
                validation_data=validation_data,
                validation_batch_size=batch_size,
                epochs=epochs,
                initial_epoch=finished,
                callbacks=[_SeedEachEpoch(seed, generator), *callbacks, *further],
                verbose=verbose,
                **fit_arguments,
            )
        if not checkpoint.has_best:
            raise ValueError(
                "Expected a validation loss that is a number in some epoch: the training diverged, "
                f"so train anew with a lower learning rate. Received: {checkpoint.folder}"
            )
        of_chief(strategy, finished)  # waits until it has written its last file
        path = checkpoint.newest_path if patience is None else checkpoint.best_path
        return load_network(path), checkpoint.history


class _Stop(keras.callbacks.Callback):
    """Ends a training that is over, counting the epochs before a restart, too."""

    def __init__(self, checkpoint: Checkpoint, patience: int | None, min_delta: float) -> None:
        super().__init__()
        self.checkpoint, self.patience, self.min_delta = checkpoint, patience, min_delta

    def is_over(self) -> bool:
        best = self.checkpoint.best
        if self.patience is None or not best.losses:
            return False
        return best.is_over(self.patience, self.min_delta)

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        if self.is_over():
            self.model.stop_training = True


class _SeedEachEpoch(keras.callbacks.Callback):
    """Seeds all random number generators before each epoch, by its number.

    `generator` is that of layers without one of their own.
    """

    def __init__(self, seed: int, generator: keras.random.SeedGenerator) -> None:
        super().__init__()
        self.seed, self.generator = seed, generator

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        generators = [*seed_generators(self.model), self.generator]
        states = np.random.SeedSequence([self.seed, epoch]).generate_state(2 * len(generators))
        for generator, state in zip(generators, states.reshape(-1, 2), strict=True):
            generator.state.assign(state)


def _check_settings(folder: Path, settings: Mapping[str, Any]) -> None:
    """Raise ValueError if the training in a folder had other settings, or unknown ones."""
    path = folder / _SETTINGS
    try:
        theirs = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(theirs, dict):
            raise ValueError("no dict")
    except (FileNotFoundError, ValueError, RecursionError) as error:
        raise ValueError(
            f"Expected a training with its settings, to resume it; train anew, with resume=False "
            f"or in another folder. Received: {path} ({error!r})"
        ) from error
    if others := differences(theirs, settings):
        raise ValueError(
            f"Expected the same data and settings as in the training in {folder}, to resume it. "
            f"Received: {others}"
        )
