"""Learning rates by epoch, for `keras.callbacks.LearningRateScheduler`."""

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

__all__ = ["Schedule", "cosine_decay", "step_decay"]

Schedule: TypeAlias = Callable[[int], float]  # from the number of an epoch, from 0, to its rate


def cosine_decay(initial: float, epochs: int) -> Schedule:
    """Learning rate of each epoch, from `initial` to nearly 0 along half a cosine.

    Args:
        initial: learning rate of the first epoch.
        epochs: number of epochs.

    Returns:
        A function of the epoch, for `keras.callbacks.LearningRateScheduler`.

    Reference:
        Loshchilov and Hutter, SGDR: Stochastic Gradient Descent with Warm Restarts, 2017.
    """
    return lambda epoch: 0.5 * initial * (1.0 + math.cos(math.pi * epoch / epochs))


def step_decay(initial: float, epochs: int, at: Sequence[float], divisor: float = 10) -> Schedule:
    """Learning rate of each epoch, divided by a number after some shares of the epochs.

    Args:
        initial: learning rate of the first epoch.
        epochs: number of epochs.
        at: shares of the epochs, from 0 to 1; the rate falls in the next whole epoch after each.
        divisor: of the rate, at each share.

    Returns:
        A function of the epoch, for `keras.callbacks.LearningRateScheduler`.

    Raises:
        ValueError: if a share is not between 0 and 1.

    Example:

    >>> rate = step_decay(0.1, epochs=10, at=(0.5, 0.75))
    >>> [rate(epoch) for epoch in (0, 4, 5, 8)] == [0.1, 0.1, 0.01, 0.001]
    True
    """
    if not all(0 <= share <= 1 for share in at):
        raise ValueError(f"Expected shares of the epochs, from 0 to 1. Received: at={at}")
    # Rounded, so that 10 / 12 of 12 epochs are 10 and not a little more.
    starts = [math.ceil(round(share * epochs, 6)) for share in at]
    return lambda epoch: initial / divisor ** sum(start <= epoch for start in starts)
