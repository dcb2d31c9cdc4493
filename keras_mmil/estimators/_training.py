"""How an estimator divides its records, and trains its network on them."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import keras
import numpy as np
from sklearn.model_selection import train_test_split

from keras_mmil._support.checks import check_number, positive_int
from keras_mmil._support.types import Array, Floats, Ints, PathLike, Tensors
from keras_mmil.training import fit_resumable

__all__ = ["Part", "divided", "trained"]

# Inputs, labels and weights of some records.
Part: TypeAlias = tuple[Tensors, Array, Floats]

_NOT_LOGS = ("epoch", "seconds")  # in a history of `fit_resumable`


def divided(y: Array, share: Any, seed: int, *, by_class: bool) -> tuple[Ints, Ints | None]:
    """Positions of the records to train on, and of those to stop by, if any are.

    Args:
        y: labels, [records] or [records, labels].
        share: of the records that are held out, from 0 to 1.
        seed: int.
        by_class: whether the classes are to have the same shares in both, if that is possible.
    """
    n_valid = int(np.ceil(check_number("validation_split", share, 0, 1) * len(y)))
    if not n_valid:
        return np.arange(len(y)), None
    classes, counts = np.unique(y, return_counts=True)
    can_stratify = by_class and counts.min() > 1
    can_stratify = can_stratify and len(classes) <= min(n_valid, len(y) - n_valid)
    train, valid = train_test_split(
        np.arange(len(y)),
        test_size=n_valid,
        random_state=seed,
        stratify=y if can_stratify else None,
    )
    return np.sort(train), np.sort(valid)


def trained(
    build: Callable[[], keras.Model],
    data: Part,
    validation: Part | None,
    *,
    epochs: Any,
    batch_size: Any,
    patience: Any,
    seed: int,
    callbacks: Sequence[keras.callbacks.Callback],
    folder: PathLike | None,
    resume: bool,
    verbose: int,
) -> tuple[keras.Model, dict[str, list[float]]]:
    """Train a network until the loss on other records no longer falls.

    Args:
        build: function without arguments that returns the compiled network.
        data: what it is trained on.
        validation: what it is stopped by; None for nothing.
        epochs, batch_size: as of `keras.Model.fit`.
        patience: epochs without a lower loss after which the training ends; the best weights are
            then restored. None to train all epochs.
        seed: of the training in a folder.
        callbacks: as of `keras.Model.fit`.
        folder: for checkpoints, see `fit_resumable`; None for none.
        resume: whether to continue from those that are there.
        verbose: as of `keras.Model.fit`.

    Returns:
        The trained network, and the values of losses and metrics by epoch.
    """
    epochs, batch_size = positive_int("epochs", epochs), positive_int("batch_size", batch_size)
    patience = None if validation is None else positive_int("patience", patience, optional=True)
    x, y, weights = data
    arguments: dict[str, Any] = {
        "sample_weight": weights,
        "epochs": epochs,
        "batch_size": batch_size,
        "validation_data": validation,
        "callbacks": list(callbacks),
        "verbose": verbose,
    }
    if folder is not None:
        model, rows = fit_resumable(
            build,
            x,
            y,
            folder=folder,
            seed=seed,
            resume=resume,
            patience=patience,
            keeps_best=patience is not None,
            **arguments,
        )
        names = [name for name in rows[0] if name not in _NOT_LOGS]
        return model, {name: [row[name] for row in rows] for name in names}
    if patience is not None:
        arguments["callbacks"].append(
            keras.callbacks.EarlyStopping(
                monitor="val_loss", patience=patience, restore_best_weights=True
            )
        )
    model = build()
    found = model.fit(x, y, **arguments).history
    return model, {name: [float(each) for each in values] for name, values in found.items()}
