"""Batches of nested bags, for `fit` and for your own training loops."""

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import tensorflow as tf

from keras_mmil import ragged
from keras_mmil._support.checks import positive_int
from keras_mmil._support.rows import as_tensor
from keras_mmil._support.types import Labels, Tensors
from keras_mmil.bags import Bags, inputs_of

__all__ = ["to_dataset"]

T = TypeVar("T")
_ROWS = "_keras_mmil_rows"  # attribute of a Dataset


def to_dataset(
    x: Tensors | Bags,
    y: Labels = None,
    batch_size: int = 32,
    shuffle: bool = True,
    seed: int | None = None,
    first_epoch: int | None = None,
) -> tf.data.Dataset:
    """A `tf.data.Dataset` of batches of whole top-bags.

    All batches fit its `element_spec`, with an unknown number of top-bags, so a
    `tf.function(input_signature=dataset.element_spec)` is traced once, and `fit` as often as for
    dense data. The next batches are gathered while one is processed.

    Args:
        x: RaggedTensor, tensor, array or `Bags`, or a tuple or dict of those but `Bags`.
        y: labels [B, …], or a tuple of labels and sample weights; None for none.
        batch_size: number of top-bags in a batch; the last batch of an epoch may have fewer.
        shuffle: whether the top-bags are in another random order each epoch.
        seed: integer that makes the orders the same in every run.
        first_epoch: None for a Dataset of one epoch, which can be iterated repeatedly. An integer
            for an endless one that begins with this epoch, from 0. The order of an epoch then
            depends only on its number and the seed, so that an interrupted training can continue.

    Returns:
        Dataset of `x`, or of tuples `(x, y)` or `(x, y, sample_weight)`, with `Bags` as the dict
        of their inputs.

    Raises:
        ValueError: if the parts lead with different numbers of top-bags, or there are none.

    Example:

    >>> dataset = batches.to_dataset(bags, y, batch_size=20)
    >>> model.fit(dataset, epochs=10, shuffle=False)  # the dataset shuffles
    """
    positive_int("batch_size", batch_size)
    data = _joined(x, y)
    orders = _orders(
        data, batch_size=batch_size, shuffle=shuffle, seed=seed, first_epoch=first_epoch
    )
    return _gathered(data, orders)


def parts_of_batches(
    x: Tensors | Bags,
    y: Labels = None,
    *,
    parts: Sequence[int],
    n_parts: int,
    batch_size: int,
    shuffle: bool = False,
    seed: int | None = None,
    first_epoch: int | None = None,
) -> tf.data.Dataset:
    """Some of the `n_parts` parts of each batch of `to_dataset`, for the replicas of a worker.

    Only these parts, with numbers from 0, are gathered. Their sizes differ by at most one; some may
    be empty.
    """
    data = _joined(x, y)
    orders = _orders(
        data, batch_size=batch_size, shuffle=shuffle, seed=seed, first_epoch=first_epoch
    )
    numbers = tf.constant(parts, tf.int64)

    def cut(order: tf.Tensor) -> tf.data.Dataset:
        rows = parts_of_rows(tf.size(order, tf.int64), numbers, n_parts)
        return rows.map(lambda part: tf.gather(order, part))

    return _gathered(data, orders.flat_map(cut))


def parts_of_rows(n: tf.Tensor, numbers: tf.Tensor, n_parts: int) -> tf.data.Dataset:
    """Dataset of the rows, int64, of some of the parts that 0 … n - 1 are evenly divided into."""
    ends = tf.stack([numbers * n // n_parts, (numbers + 1) * n // n_parts], axis=1)
    return tf.data.Dataset.from_tensor_slices(ends).map(lambda part: tf.range(part[0], part[1]))


def feed(
    x: Tensors,
    y: Labels,
    *,
    batch_size: int,
    shuffle: bool = True,
    seed: int | None = None,
    first_epoch: int = 0,
) -> dict[str, Any]:
    """Arguments of `fit` for a training that can be interrupted, with an endless `to_dataset`."""
    return {
        "x": to_dataset(
            x, y, batch_size=batch_size, shuffle=shuffle, seed=seed, first_epoch=first_epoch
        ),
        "steps_per_epoch": -(-ragged.n_top_bags(x) // batch_size),
        "shuffle": False,
    }


def in_order(x: T, batch_size: int) -> Iterator[T]:
    """Batches of top-bags in their order, as tensors, each sliced when it is its turn."""
    for start in range(0, ragged.n_top_bags(x), batch_size):
        batch = ragged.take(x, slice(start, start + batch_size))
        yield tf.nest.map_structure(as_tensor, batch)


def _joined(x: Tensors | Bags, y: Labels) -> Any:
    """Tensors that lead with the top-bags: x, or a tuple of x, y and perhaps weights."""
    data = inputs_of(x)
    if y is not None:
        data = (data, *y) if isinstance(y, tuple) else (data, y)
    n = ragged.n_top_bags(data)
    if n == 0:
        raise ValueError(f"Expected at least one top-bag. Received: {n} top-bags")
    return tf.nest.map_structure(as_tensor, data)


def _gathered(data: Any, orders: tf.data.Dataset) -> tf.data.Dataset:
    """The rows of tensors at each element of a Dataset of indices."""
    dataset = orders.map(
        lambda chosen: tf.nest.map_structure(lambda part: tf.gather(part, chosen), data)
    ).prefetch(tf.data.AUTOTUNE)
    setattr(dataset, _ROWS, (data, orders))
    return dataset


def rows_of(dataset: Any) -> tuple[Any, tf.data.Dataset] | None:
    """The data of a Dataset of `to_dataset`, and the rows of each batch; None for others.

    What was made of such a Dataset, as by `map`, is another.
    """
    found: tuple[Any, tf.data.Dataset] | None = getattr(dataset, _ROWS, None)
    return found


def _orders(
    data: Any, *, batch_size: int, shuffle: bool, seed: int | None, first_epoch: int | None
) -> tf.data.Dataset:
    """A Dataset of the indices of the top-bags of each batch."""
    n = ragged.n_top_bags(data)
    if first_epoch is None:
        rows = tf.data.Dataset.range(n)
        return (rows.shuffle(n, seed=seed) if shuffle else rows).batch(batch_size)

    def order(epoch: tf.Tensor) -> tf.data.Dataset:
        rows = tf.range(n, dtype=tf.int64)
        if shuffle:
            key = tf.stack([tf.constant(seed or 0, tf.int64), epoch])
            rows = tf.random.experimental.stateless_shuffle(rows, key)
        return tf.data.Dataset.from_tensor_slices(rows).batch(batch_size)

    return tf.data.Dataset.counter(first_epoch).flat_map(order)
