"""Batches of nested bags for training loops of one's own, and for data from several files."""

import tensorflow as tf

from keras_mmil import ragged
from keras_mmil._checks import positive_int
from keras_mmil.bags import Bags

__all__ = ["batches"]


def batches(x, y=None, batch_size=32, shuffle=True, seed=None):
    """A `tf.data.Dataset` of batches of whole top-bags.

    All batches fit the Dataset's `element_spec`, with an unknown number of top-bags, so that a
    `tf.function(input_signature=dataset.element_spec)` is traced once, and `fit` as often as for
    dense data. The next batches are gathered, from memory, while one is worked on.

    Args:
        x: RaggedTensor, tensor, array or `Bags`, or a tuple or dict of those but `Bags`.
        y: labels [B, …], or a tuple of labels and sample weights; None for none.
        batch_size: number of top-bags in a batch; the last batch of an epoch may have fewer.
        shuffle: whether the top-bags are put in another random order each epoch.
        seed: integer that makes the orders the same in every run.

    Returns:
        Dataset of `x`, or of tuples `(x, y)` or `(x, y, sample_weight)`, with `Bags` as the dict
        of their inputs.

    Raises:
        ValueError: if the parts lead with different numbers of top-bags, or there are none.

    Example:

    >>> dataset = datasets.batches(bags, y, batch_size=20)
    >>> model.fit(dataset, epochs=10, shuffle=False)  # the dataset shuffles
    """
    positive_int("batch_size", batch_size)
    data = x.inputs if isinstance(x, Bags) else x
    if y is not None:
        data = (data, *y) if isinstance(y, tuple) else (data, y)
    n = ragged.n_top_bags(data)
    if n == 0:
        raise ValueError(f"Expected at least one top-bag. Received: {n} top-bags")
    data = tf.nest.map_structure(
        lambda part: part if tf.is_tensor(part) else tf.convert_to_tensor(part), data
    )
    rows = tf.data.Dataset.range(n)
    if shuffle:
        rows = rows.shuffle(n, seed=seed)
    return (
        rows.batch(batch_size)
        .map(lambda chosen: tf.nest.map_structure(lambda part: tf.gather(part, chosen), data))
        .prefetch(tf.data.AUTOTUNE)
    )
