"""How the rows of a bag-layer's input are grouped into bags."""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from keras_mmil.layers._checks import assert_same_splits, splits_of

__all__ = [
    "Captured",
    "Grouping",
    "bag_of_each",
    "depth_of",
    "drop_absent",
    "group",
    "with_innermost",
    "with_rows",
]


class Grouping(NamedTuple):
    """Bags over the rows of a dense tensor.

    Attributes:
        members: row of each instance, int [instances]; None where instance i is row i.
        row_splits: instances `row_splits[b]` to `row_splits[b + 1]` belong to bag b, [bags + 1].
        weights: multiplicity or importance of each instance, float [instances], or None.
        wrap: puts one value per bag, [bags, ...], back into the structure around the bags.
    """

    members: tf.Tensor | None
    row_splits: tf.Tensor
    weights: tf.Tensor | None
    wrap: Callable


class Captured(NamedTuple):
    """What a bag-layer sees: the representations, and how they are grouped into bags.

    Attributes:
        representations: ρ, float [rows, units].
        members: row of each instance, int [instances]; None where instance i is row i.
        row_splits: instances `row_splits[b]` to `row_splits[b + 1]` belong to bag b, [bags + 1].
        weights: multiplicity or importance of each instance, float [instances], or None for 1.
    """

    representations: tf.Tensor
    members: tf.Tensor | None
    row_splits: tf.Tensor
    weights: tf.Tensor | None


def group(structure, item_rank, is_members=False, weights=None):
    """Read the innermost bags of a nested structure.

    Args:
        structure: a RaggedTensor or dense tensor; its innermost axis before the items is the bag.
        item_rank: rank of an item: 1 for vectors, 0 for ids.
        is_members: whether the items are ids of rows, rather than the rows themselves.
        weights: like `structure`, but scalar items; or None.

    Returns:
        The flat items [instances, ...] and their `Grouping`.

    Raises:
        ValueError or InvalidArgumentError: if the weights are bags of other sizes, or negative.
    """
    ragged = isinstance(structure, tf.RaggedTensor)
    flat = structure.flat_values if ragged else structure
    if ragged and flat.shape.rank == 1 + item_rank:
        items, row_splits = flat, structure.nested_row_splits[-1]
        wrap = _wrap_ragged(structure)
    else:  # bags of equal size: a dense axis, perhaps inside ragged ones
        leading = tf.shape(flat)[: flat.shape.rank - 1 - item_rank]
        size = tf.shape(flat)[flat.shape.rank - 1 - item_rank]
        items = tf.reshape(
            flat, tf.concat([[-1], tf.shape(flat)[flat.shape.rank - item_rank :]], 0)
        )
        row_splits = tf.range(tf.reduce_prod(leading) + 1) * size
        wrap = _wrap_dense(structure, leading)
    if weights is not None:
        assert_same_splits(
            {"weights": (splits_of(structure, item_rank), splits_of(weights))},
            "Expected one weight for each instance, in bags of the same sizes",
        )
        weights = weights.flat_values if isinstance(weights, tf.RaggedTensor) else weights
        weights = tf.reshape(weights, [-1])
        tf.debugging.assert_non_negative(
            weights, message="Expected weights ≥ 0, without NaN. Received: weights"
        )
    return items, Grouping(items if is_members else None, row_splits, weights, wrap)


def bag_of_each(row_splits):
    """The bag of each instance, sorted: ints [instances], from row splits [bags + 1].

    `tf.ragged.row_splits_to_segment_ids` makes a mask of all bags by the largest one instead.
    """
    n = row_splits[-1]
    begins = row_splits[1:-1]  # a bag begins: the instances from here on are of the next
    jumps = tf.scatter_nd(begins[:, None], tf.ones_like(begins), [n + 1])
    return tf.cumsum(jumps)[:-1]


def drop_absent(items, row_ids, weights):
    """Leave out the instances of weight 0, which are not in the bag."""
    present = weights > 0

    def masked():
        return tuple(tf.boolean_mask(x, present) for x in (items, row_ids, weights))

    return tf.cond(tf.reduce_all(present), lambda: (items, row_ids, weights), masked)


def depth_of(shape):
    """Number of bag axes of a symbolic ragged shape: the unknown axes after the batch, plus it."""
    known = [axis for axis, size in enumerate(shape) if axis > 0 and size is not None]
    return known[0] if known else len(shape)


def with_innermost(ragged, values):
    """`ragged` with its innermost bags, [bags, ...], replaced by `values` [bags, ...]."""
    if ragged.ragged_rank == 1:
        return values
    return ragged.with_values(with_innermost(ragged.values, values))


def with_rows(structure, rows, item_rank=1):
    """A nested structure with other items: `rows` [instances, units] in the order of its own.

    Args:
        structure: a RaggedTensor or dense tensor.
        rows: one for each item.
        item_rank: rank of the items of `structure`: 1 for vectors, 0 for ids.
    """
    is_ragged = isinstance(structure, tf.RaggedTensor)
    flat = structure.flat_values if is_ragged else structure
    n_axes = flat.shape.rank - item_rank
    items = tf.reshape(rows, tf.concat([tf.shape(flat)[:n_axes], tf.shape(rows)[1:]], axis=0))
    items = tf.ensure_shape(items, [*flat.shape[:n_axes], *rows.shape[1:]])
    return structure.with_flat_values(items) if is_ragged else items


def _wrap_ragged(structure):
    return lambda values: with_innermost(structure, values)


def _wrap_dense(structure, leading):
    def wrap(values):
        shape = tf.concat([leading, tf.shape(values)[1:]], 0)
        dense = tf.ensure_shape(
            tf.reshape(values, shape), [None] * leading.shape[0] + values.shape[1:].as_list()
        )
        if isinstance(structure, tf.RaggedTensor):
            return structure.with_flat_values(dense)
        return dense

    return wrap
