"""Training that goes on after a kill."""

import keras
import numpy as np

from keras_mmil import ragged
from keras_mmil._support.checks import positive_int
from keras_mmil._support.labels import check_labels
from keras_mmil.batches import feed
from keras_mmil.functional.graph import seed_generators
from keras_mmil.functional.input_checks import InputChecks
from keras_mmil.functional.seeds import seeded
from keras_mmil.training.checkpoint import Checkpoint

__all__ = ["fit_resumable"]


def fit_resumable(
    build,
    x,
    y,
    *,
    folder,
    validation_data=None,
    epochs,
    batch_size=32,
    shuffle=True,
    seed=0,
    resume=False,
    patience=None,
    wrap=None,
    callbacks=(),
    verbose=2,
    **fit_arguments,
):
    """Train a model with checkpoints, or go on with such a training.

    A kill at any moment loses the epoch it struck, and those of a few seconds before, no more.
    Initial weights depend on the seed alone, order of the data and random numbers of an epoch on
    the seed and its number: a training that was interrupted goes on as it would have done. Random
    numbers of the program are left as they are.

    Args:
        build: function without arguments that returns a compiled model.
        x, y, validation_data, epochs, batch_size, shuffle, callbacks, verbose: as in
            `keras.Model.fit`.
        folder: where the checkpoints are, see `Checkpoint`.
        seed: int from 0 to 2³² - 1: of the initial weights that `build` makes, the orders of the
            data, and of dropout and the like.
        resume: whether to go on with the checkpoints in the folder, if there are any; otherwise
            they are removed.
        patience: number of epochs in a row without a lower validation loss after which the training
            ends; None for never. It counts across interruptions.
        wrap: function from the model to the one that is fitted in its place, such as a
            `VirtualAdversarialModel`; None for the model itself.
        fit_arguments: further arguments of `keras.Model.fit`.

    Returns:
        The model of the epoch with the lowest validation loss, or of the last epoch where there are
        no validation data; and the history: a list of dicts, one for each epoch.

    Raises:
        ValueError: if there is a patience, but no validation data; if a count is no int of at least
            1; or if the data do not fit the model.
    """
    if validation_data is None and patience is not None:
        raise ValueError(f"Expected validation data for a patience. Received: {patience=}")
    epochs, batch_size = positive_int("epochs", epochs), positive_int("batch_size", batch_size)
    patience = positive_int("patience", patience, optional=True)
    checkpoint = Checkpoint(folder, monitor=None if validation_data is None else "val_loss")
    if not resume:
        checkpoint.clear()
    with seeded(seed) as generator:
        model = checkpoint.restore() or build()
        finished = len(checkpoint.history)
        if finished < epochs and not _is_over(checkpoint, patience):
            x = InputChecks(model)(x)
            y = check_labels(y, ragged.n_top_bags(x), len(model.outputs))
            wrapped = model if wrap is None else wrap(model)
            further = [checkpoint, _Stop(checkpoint, patience)]
            wrapped.fit(
                **feed(x, y, batch_size, shuffle, seed, first_epoch=finished),
                validation_data=validation_data,
                validation_batch_size=batch_size,
                epochs=epochs,
                initial_epoch=finished,
                callbacks=[_SeedEachEpoch(seed, generator), *callbacks, *further],
                verbose=verbose,
                **fit_arguments,
            )
        return keras.models.load_model(checkpoint.best_path), checkpoint.history


def _is_over(checkpoint, patience):
    """Whether the last epochs of a history, as many as `patience`, were none of them the best."""
    if patience is None:
        return False
    losses = [epoch[checkpoint.monitor] for epoch in checkpoint.history]
    return len(losses) - int(np.argmin([np.inf, *losses])) >= patience


class _Stop(keras.callbacks.Callback):
    """Ends a training that is over. Keras's own forgets what was before an interruption."""

    def __init__(self, checkpoint, patience):
        super().__init__()
        self.checkpoint, self.patience = checkpoint, patience

    def on_epoch_end(self, epoch, logs=None):
        if _is_over(self.checkpoint, self.patience):
            self.model.stop_training = True


class _SeedEachEpoch(keras.callbacks.Callback):
    """Before every epoch, sets the state of all random number generators that a step draws from.

    Args:
        seed: of the training.
        generator: the one of layers that have none of their own.
    """

    def __init__(self, seed, generator):
        super().__init__()
        self.seed, self.generator = seed, generator

    def on_epoch_begin(self, epoch, logs=None):
        generators = [*seed_generators(self.model), self.generator]
        states = np.random.SeedSequence([self.seed, epoch]).generate_state(2 * len(generators))
        for generator, state in zip(generators, states.reshape(-1, 2), strict=True):
            generator.state.assign(state)
