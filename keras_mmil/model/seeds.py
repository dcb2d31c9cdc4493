"""Random numbers that follow from a seed, without touching the program's own."""

import contextlib
import functools
import operator
import random
import threading
from collections.abc import Iterator

import keras
import numpy as np
from keras.src.backend.common import global_state
from keras.src.random.seed_generator import GLOBAL_SEED_GENERATOR
from keras.src.utils.rng_utils import GLOBAL_RANDOM_SEED
from tensorflow.python.eager import context

__all__ = ["alone", "seeded"]

_OF_KERAS = GLOBAL_RANDOM_SEED, GLOBAL_SEED_GENERATOR
_OF_TENSORFLOW = "_seed", "_rng"

# Held while random numbers of the process are drawn: they are one sequence for all threads.
alone = threading.RLock()


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[keras.random.SeedGenerator]:
    """Seed all random numbers in a block that have no seed of their own.

    Other threads wait until it ends before they begin such a block. After it Python, NumPy, Keras
    and TensorFlow continue as if nothing had been drawn in it. (TensorFlow restarts operations that
    were given a seed themselves.)

    Args:
        seed: int from 0 to 2³² - 1.

    Yields:
        The `keras.random.SeedGenerator` that Keras uses by default. It is the same in all blocks,
        as compiled functions, which may be used in several, are bound to it.
    """
    with alone:
        yield from _seeded(seed)


def _seeded(seed: int) -> Iterator[keras.random.SeedGenerator]:
    eager = context.context()
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    of_keras = {name: global_state.get_global_attribute(name) for name in _OF_KERAS}
    of_tensorflow = {name: vars(eager)[name] for name in _OF_TENSORFLOW if name in vars(eager)}
    try:
        keras.utils.set_random_seed(operator.index(seed))
        generator = _generator()
        generator.state.assign([seed, 0])
        global_state.set_global_attribute(GLOBAL_SEED_GENERATOR, generator)
        yield generator
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
        for name, value in of_keras.items():
            global_state.set_global_attribute(name, value)
        vars(eager).update(of_tensorflow)  # there is no function that restores them


@functools.cache
def _generator() -> keras.random.SeedGenerator:
    return keras.random.SeedGenerator(0)
