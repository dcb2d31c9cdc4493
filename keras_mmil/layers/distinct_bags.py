"""Each distinct bag once."""

from typing import Any

import keras
import tensorflow as tf

from keras_mmil._support.keras_internals import RawInputs
from keras_mmil._support.types import Config, Shape
from keras_mmil.layers._checks import check_ids
from keras_mmil.layers._hashing import hash_bags, keep_distinct
from keras_mmil.layers._types import Nested
from keras_mmil.layers.grouping import bag_of_each, group

__all__ = ["DistinctBags"]


@keras.saving.register_keras_serializable("keras_mmil")
class DistinctBags(RawInputs):
    """Turn bags of row ids into the distinct bags: what a `BagLayer` takes, and a way back.

    Members that come several times in a bag become one with a weight, and equal bags (whatever the
    order of their members) become one. Bags are found by a hash and then compared, so that only
    equal ones are merged. `Gather` brings what a bag-layer yields for them back to where they are.

    Args:
        compress: False for all bags with all members as they are.
        field: path of the bags in nested records, such as "orders.items"; read by explanations
            only.

    Call arguments:
        ids: bags of row ids.
        compress: as above, for this call; None as it was constructed.

    Input shape:
        Integers [batch, (n₁), …, (n_K)], K ≥ 1, ragged or dense.

    Output shape:
        A list: members, ragged int32 [bags, (m)]; their weights, ragged float32 [bags, (m)]; and
        the distinct bag at each place, int32 [batch, (n₁), …, (n_K-1)].

    Raises:
        ValueError: if the ids are no integers, or in no bags.

    Example:

    >>> ids = tf.ragged.constant([[4, 4, 7], [], [7, 4, 4]])
    >>> members, weights, bags = keras_mmil.layers.DistinctBags()(ids)
    >>> members, weights, bags.numpy()
    (<tf.RaggedTensor [[4, 7], []]>, <tf.RaggedTensor [[2.0, 1.0], []]>, array([0, 1, 0], ...))
    """

    def __init__(self, compress: bool = True, field: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.compress = bool(compress)
        self.field = field

    def build(self, ids_shape: Shape | None = None) -> None:
        """Nothing to create."""

    def call(self, ids: Nested, compress: bool | None = None) -> list[Nested]:
        self._check(ids)
        rows, bags, wrap = group(ids, 0)
        read = _distinct if (self.compress if compress is None else compress) else _apart
        members, weights, row_splits, bags = read(tf.cast(rows, tf.int64), bags.row_splits)
        members = tf.RaggedTensor.from_row_splits(
            tf.cast(members, tf.int32), row_splits, validate=False
        )
        return [members, members.with_values(tf.cast(weights, tf.float32)), wrap(bags)]

    def compute_output_spec(
        self, ids: keras.KerasTensor, compress: bool | None = None
    ) -> list[keras.KerasTensor]:
        self._check(ids)
        outer = ids.shape[:-1]
        return [
            keras.KerasTensor((None, None), dtype="int32", ragged=True),
            keras.KerasTensor((None, None), dtype="float32", ragged=True),
            keras.KerasTensor(outer, dtype="int32", ragged=ids.ragged and len(outer) > 1),
        ]

    def get_config(self) -> Config:
        return {**super().get_config(), "compress": self.compress, "field": self.field}

    def _check(self, ids: Nested | keras.KerasTensor) -> None:
        check_ids(self, ids=ids)
        if len(ids.shape) < 2:
            raise ValueError(
                f"DistinctBags '{self.name}' expected bags of ids, [batch, (n)] or deeper. "
                f"Received: ids.shape={tuple(ids.shape)}"
            )


def _apart(rows: tf.Tensor, row_splits: tf.Tensor) -> tuple[tf.Tensor, ...]:
    """All bags as they are: members, weights, row splits, and the bag at each place."""
    return rows, tf.ones_like(rows), row_splits, tf.range(tf.size(row_splits) - 1)


def _distinct(rows: tf.Tensor, row_splits: tf.Tensor) -> tuple[tf.Tensor, ...]:
    """The distinct bags, of distinct members; as `_apart`."""
    n_bags = tf.size(row_splits) - 1
    bag_of = tf.cast(bag_of_each(row_splits), tf.int64)
    n_rows = tf.reduce_max(tf.concat([rows, [0]], axis=0)) + 1
    # A pair of a bag and a row in it is one integer. Pairs stay in the order of the bags.
    pairs, ids = tf.unique(bag_of * n_rows + rows)
    counts = tf.math.unsorted_segment_sum(tf.ones_like(rows), ids, tf.size(pairs))
    bag_of, members = pairs // n_rows, pairs % n_rows
    sizes = tf.math.unsorted_segment_sum(tf.ones_like(bag_of), bag_of, n_bags)

    def are_right(found: tf.Tensor) -> tf.Tensor:
        # A bag equals the one found if it has as many different members, and each is there as
        # often.
        in_copy = tf.gather(tf.not_equal(found, tf.range(n_bags)), bag_of)
        wanted = tf.cast(tf.gather(found, bag_of), tf.int64) * n_rows + members
        _, places = tf.unique(tf.concat([pairs, wanted[in_copy]], axis=0))
        places = places[tf.size(pairs) :]
        is_there = places < tf.size(pairs)
        counts_there = tf.gather(counts, tf.where(is_there, places, 0))
        are_equal = tf.reduce_all(is_there & tf.equal(counts_there, counts[in_copy]))
        return are_equal & tf.reduce_all(tf.equal(sizes, tf.gather(sizes, found)))

    hashes = hash_bags(members, counts, bag_of, n_bags)
    first, bags, is_kept = keep_distinct(hashes, are_right)
    is_kept = tf.gather(is_kept, bag_of)
    return members[is_kept], counts[is_kept], _splits(tf.gather(sizes, first)), bags


def _splits(sizes: tf.Tensor) -> tf.Tensor:
    return tf.concat([tf.zeros([1], sizes.dtype), tf.cumsum(sizes)], axis=0)
