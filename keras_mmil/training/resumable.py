"""Training that continues after an interruption."""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_mmil import ragged
from keras_mmil._support.archives import load_network
from keras_mmil._support.checks import check_labels, check_weights, positive_int
from keras_mmil._support.files import locked
from keras_mmil._support.keras_internals import seed_generators
from keras_mmil._support.types import Labels, PathLike, Tensors
from keras_mmil.bags import Bags
from keras_mmil.model.checks import InputChecks
from keras_mmil.model.replicas import feed_replicas, is_chief, of_chief
from keras_mmil.model.seeds import seeded
from keras_mmil.training._folder import (
    check_can_resume,
    check_settings,
    fingerprint,
    fingerprint_of_network,
    write_settings,
)
from keras_mmil.training.checkpoint import Checkpoint, Logs

__all__ = ["fit_resumable"]


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
    wrap: Callable[[keras.Model], keras.Model] | None = None,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    verbose: int = 2,
    **fit_arguments: Any,
) -> tuple[keras.Model, list[dict[str, float]]]:
    """Train a model with checkpoints, or continue such a training.

    An interruption at any moment loses no more than the current epoch and those of the last few
    seconds. Initial weights depend on the seed alone, the order of the data and the random numbers
    of an epoch on the seed and its number: an interrupted training continues as it would have done.
    The program's own random numbers are left as they are.

    For training on several workers, all call this within the scope of a strategy, with the same
    data. The first worker, or the chief, writes the checkpoints to `folder`, which all must share.

    Args:
        build: function without arguments that returns a compiled model.
        x, y, sample_weight, validation_data, epochs, batch_size, shuffle, callbacks, verbose: as in
            `keras.Model.fit`.
        folder: where the checkpoints are, see `Checkpoint`.
        seed: int from 0 to 2³² - 1: of the initial weights that `build` makes, the orders of the
            data, and of dropout and the like.
        resume: whether to continue from the checkpoints in the folder, if there are any; otherwise
            they are removed.
        patience: number of consecutive epochs without a lower validation loss after which the
            training ends and the best epoch's model is returned; it counts across interruptions.
            With as many as `epochs`, the training does not end early. None for all epochs, and the
            model of the last one.
        wrap: function from the model to the one that is fitted in its place, such as a
            `VirtualAdversarialModel`; None for the model itself.
        fit_arguments: further arguments of `keras.Model.fit`.

    Returns:
        The model of the epoch with the lowest validation loss, or of the last epoch where there is
        no patience; and the history: a list of dicts, one for each epoch.

    Raises:
        BlockingIOError: if another process trains in the folder.
        ValueError: if the data, the model, `seed`, `batch_size` or `shuffle` are others than those
            of the training that is resumed; if the validation loss is NaN in all epochs;
            if there is a patience, but no validation data; if a count is no int of at least
            1; or if the data do not fit the model.
    """
    if validation_data is None and patience is not None:
        raise ValueError(f"Expected validation data for a patience. Received: {patience=}")
    epochs, batch_size = positive_int("epochs", epochs), positive_int("batch_size", batch_size)
    patience = positive_int("patience", patience, optional=True)
    strategy = tf.distribute.get_strategy()
    checkpoint = Checkpoint(folder, monitor=None if validation_data is None else "val_loss")
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
            "x": fingerprint(x),
            "y": fingerprint(y),
            "sample_weight": None if weights is None else fingerprint(weights),
            "validation_data": None
            if validation_data is None
            else fingerprint((InputChecks(model)(validation_data[0]), *validation_data[1:])),
            "model": fingerprint_of_network(model),
            "seed": seed,
            "batch_size": batch_size,
            "shuffle": shuffle,
        }
        restored = checkpoint.restore()
        if restored is not None:
            check_can_resume(model)
            check_settings(checkpoint.folder, settings)
            model = restored
        elif leads:
            write_settings(checkpoint.folder, settings)
        finished = len(checkpoint.history)
        if finished < epochs and not _is_over(checkpoint, patience):
            wrapped = model if wrap is None else wrap(model)
            further = [checkpoint, _Stop(checkpoint, patience)]
            wrapped.fit(
                **feed_replicas(
                    strategy,
                    x,
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


def _is_over(checkpoint: Checkpoint, patience: int | None) -> bool:
    """Whether none of the last epochs, as many as `patience`, was the best."""
    if patience is None or checkpoint.monitor is None:
        return False
    losses = [epoch[checkpoint.monitor] for epoch in checkpoint.history]
    losses = [np.inf if np.isnan(loss) else loss for loss in losses]
    return len(losses) - int(np.argmin([np.inf, *losses])) >= patience


class _Stop(keras.callbacks.Callback):
    """Ends a training that is over. Keras's `EarlyStopping` forgets what was before a restart."""

    def __init__(self, checkpoint: Checkpoint, patience: int | None) -> None:
        super().__init__()
        self.checkpoint, self.patience = checkpoint, patience

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        if _is_over(self.checkpoint, self.patience):
            self.model.stop_training = True


class _SeedEachEpoch(keras.callbacks.Callback):
    """Before every epoch, sets the state of all random number generators that a step draws from.

    Args:
        seed: of the training.
        generator: the one of layers that have none of their own.
    """

    def __init__(self, seed: int, generator: keras.random.SeedGenerator) -> None:
        super().__init__()
        self.seed, self.generator = seed, generator

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        generators = [*seed_generators(self.model), self.generator]
        states = np.random.SeedSequence([self.seed, epoch]).generate_state(2 * len(generators))
        for generator, state in zip(generators, states.reshape(-1, 2), strict=True):
            generator.state.assign(state)
