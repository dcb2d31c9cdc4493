"""Training that goes on after a kill."""

import math

import keras

from keras_mmil.training.checkpoint import Checkpoint

__all__ = ["cosine_decay", "fit_resumable"]


def cosine_decay(initial, epochs):
    """Learning rate of each epoch, from `initial` down to nearly 0 along half a cosine.

    Args:
        initial: learning rate of the first epoch.
        epochs: number of epochs.

    Returns:
        A function of the epoch, for `keras.callbacks.LearningRateScheduler`.

    Reference:
        Loshchilov and Hutter, SGDR: Stochastic Gradient Descent with Warm Restarts, 2017.
    """
    return lambda epoch: 0.5 * initial * (1.0 + math.cos(math.pi * epoch / epochs))


def fit_resumable(
    build,
    x,
    y,
    *,
    folder,
    validation_data,
    epochs,
    resume=False,
    callbacks=(),
    verbose=2,
    **fit_arguments,
):
    """Train a model with a checkpoint after every epoch, or go on with such a training.

    A kill at any moment loses the epoch it struck, no more.

    Args:
        build: function without arguments that returns a compiled model.
        x, y, validation_data, epochs, callbacks, verbose: as in `keras.Model.fit`.
        folder: where the checkpoints are, see `Checkpoint`.
        resume: whether to go on with the checkpoints in the folder, if there are any; otherwise
            they are removed.
        fit_arguments: further arguments of `keras.Model.fit`.

    Returns:
        The model of the epoch with the lowest validation loss, and the history: a list of dicts,
        one for each epoch.
    """
    checkpoint = Checkpoint(folder)
    if not resume:
        checkpoint.clear()
    model = checkpoint.restore() or build()
    finished = len(checkpoint.history)
    if finished < epochs:
        model.fit(
            x,
            y,
            validation_data=validation_data,
            epochs=epochs,
            initial_epoch=finished,
            callbacks=[*callbacks, checkpoint],
            verbose=verbose,
            **fit_arguments,
        )
    return keras.models.load_model(checkpoint.best_path), checkpoint.history
