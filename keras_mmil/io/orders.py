"""The order of top-bags in an epoch: the same in all formats, by seed and number of the epoch."""

from dataclasses import dataclass

import tensorflow as tf

from keras_mmil._support.types import Ints

__all__ = ["BLOCK", "CYCLE", "READ", "Plan", "epoch_keys", "shuffled", "shuffled_rows"]

CYCLE = 4  # files that are read in turns
BLOCK = 16  # top-bags of a turn
READ = b"R"  # in the mask of a file: a byte for each top-bag, this one where it is to be read


@dataclass(frozen=True)
class Plan:
    """How top-bags are batched.

    Attributes:
        batch_size: number of top-bags in a batch.
        window: number of top-bags that are held to be put in a random order; 0 for the order of
            the data. A multiple of `batch_size`.
    """

    batch_size: int
    window: int


def epoch_keys(seed: int | None, first_epoch: int | None, shuffle: bool) -> tf.data.Dataset:
    """Pairs of integers from which the order of an epoch follows, int64 [2].

    One for a Dataset of one epoch, another one each time it is iterated; with `first_epoch` one
    after the other, without an end.
    """
    if first_epoch is not None:
        start = tf.constant(seed or 0, tf.int64)
        return tf.data.Dataset.counter(first_epoch).map(lambda epoch: tf.stack([start, epoch]))
    if not shuffle:
        return tf.data.Dataset.from_tensors(tf.zeros([2], tf.int64))
    numbers = tf.data.Dataset.random(seed, rerandomize_each_iteration=True)
    return numbers.batch(2, drop_remainder=True).take(1)


def shuffled(x: tf.Tensor, key: tf.Tensor, number: int | tf.Tensor) -> tf.Tensor:
    """The rows of a tensor in a random order, by the key of the epoch and a number."""
    key = tf.random.experimental.stateless_fold_in(key, tf.cast(number, tf.int64))
    return tf.random.experimental.stateless_shuffle(x, key)


def shuffled_rows(n: int, key: Ints, number: int) -> Ints:
    """Indices of n rows, as `shuffled` orders them."""
    with tf.device("CPU"):
        return shuffled(tf.range(n), tf.constant(key, tf.int64), number).numpy()
