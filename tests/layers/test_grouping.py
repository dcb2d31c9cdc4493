"""How rows are grouped into bags: what layers know of it, and what it is in arrays."""

import numpy as np
import tensorflow as tf

from keras_mmil import ragged
from keras_mmil.layers.grouping import group

BAGS = ragged.from_nested_lists([[[3, 0], []], [[1, 1, 2]]], depth=2, dtype="int32")


def test_bags_of_rows():
    rows = BAGS.with_flat_values(tf.random.normal((5, 2)))
    items, bags, wrap = group(rows, item_rank=1)
    np.testing.assert_array_equal(items, rows.flat_values)
    assert bags.members is None
    assert bags.weights is None
    assert (bags.n_rows, bags.n_bags) == (5, 3)
    np.testing.assert_array_equal(bags.row_splits, [0, 2, 2, 5])
    assert wrap(tf.constant([7, 8, 9])).to_list() == [[7, 8], [9]]
    arrays = bags.numpy()
    np.testing.assert_array_equal(arrays.members, range(5))
    np.testing.assert_array_equal(arrays.weights, np.ones(5))
    np.testing.assert_array_equal(arrays.bag_ids, [0, 0, 2, 2, 2])
    np.testing.assert_array_equal(arrays.is_empty, [False, True, False])


def test_bags_of_members():
    weights = BAGS.with_flat_values(tf.constant([0.0, 0.0, 1.0, 2.0, 0.5]))
    items, bags, _ = group(BAGS, 0, weights, n_rows=6)
    np.testing.assert_array_equal(items, [3, 0, 1, 1, 2])
    arrays = bags.numpy()
    np.testing.assert_array_equal(arrays.members, items)
    np.testing.assert_array_equal(arrays.weights, weights.flat_values)
    assert {arrays.members.dtype, arrays.row_splits.dtype} == {np.dtype("int64")}
    assert arrays.n_rows == 6
    np.testing.assert_array_equal(arrays.is_empty, [True, True, False])  # all of weight 0, or none


def test_number_of_rows_in_a_graph():
    """There it is a tensor, for the graph is made for batches of any size."""
    spec = tf.RaggedTensorSpec([None, None, None, 2], tf.float32, ragged_rank=2)

    @tf.function(input_signature=[spec])
    def n_rows(rows):
        return group(rows, item_rank=1)[1].n_rows

    assert int(n_rows(BAGS.with_flat_values(tf.zeros((5, 2))))) == 5
