"""Learning rates by epoch, for `keras.callbacks.LearningRateScheduler`."""

import math
from collections.abc import Callable, Mapping
from typing import TypeAlias

__all__ = ["Schedule", "cosine_decay", "piecewise_constant"]

Schedule: TypeAlias = Callable[[int], float]  # from the number of an epoch, from 0, to its rate


def cosine_decay(initial: float, epochs: int) -> Schedule:
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


def piecewise_constant(rates: Mapping[int, float]) -> Schedule:
    """Learning rate of each epoch, constant between steps.

    Args:
        rates: dict from the first epoch, counted from 0, at which a rate applies to that rate, such
            as `{0: 1e-3, 7: 1e-4, 10: 1e-5}`.

    Returns:
        A function of the epoch, for `keras.callbacks.LearningRateScheduler`.

    Raises:
        ValueError: if no rate is given for epoch 0.
    """
    if 0 not in rates:
        raise ValueError(f"Expected a rate for epoch 0. Received: rates={rates}")
    return lambda epoch: rates[max(first for first in rates if first <= epoch)]
