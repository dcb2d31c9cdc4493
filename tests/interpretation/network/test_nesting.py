"""Nested bags, level by level."""

import numpy as np
from nested_rows import nesting_of

from keras_mmil.interpretation.network.nesting import concatenate, expand, multiplicities


def test_multiplicities_count_every_occurrence():
    # Rows 0-2; sub-bags {0, 0, 1}, {}, {2}; top-bags {sub 0 twice, sub 2}, {sub 1, sub 2}.
    lower = nesting_of([[0, 1], [], [2]], 3, [[2, 1], [], [1]])
    upper = nesting_of([[0, 2], [1, 2]], 3, [[2, 1], [1, 1]])
    rows, sub_bags, top_bags = multiplicities([lower, upper])
    np.testing.assert_array_equal(rows, [4, 2, 2])
    np.testing.assert_array_equal(sub_bags, [2, 1, 2])
    np.testing.assert_array_equal(top_bags, [1, 1])
    np.testing.assert_array_equal(lower.is_empty, [False, True, False])


def test_expand_repeats_what_bags_share():
    lower = nesting_of([[0, 1], [], [2]], 3)
    upper = nesting_of([[0, 2, 0], [1, 2]], 3, [[1, 1, 3], [1, 1]])
    instances, sub_bags = expand([lower, upper])
    np.testing.assert_array_equal(sub_bags.rows, [0, 2, 0, 1, 2])
    np.testing.assert_array_equal(sub_bags.row_splits, [0, 3, 5])
    np.testing.assert_array_equal(instances.rows, [0, 1, 2, 0, 1, 2])
    np.testing.assert_array_equal(instances.row_splits, [0, 2, 3, 5, 5, 6])
    np.testing.assert_array_equal(instances.weights, np.ones(6))
    np.testing.assert_array_equal(instances.total_weights, [1, 1, 1, 3, 3, 1])


def test_concatenate_shifts_rows_and_members():
    first, second = nesting_of([[0, 1], []], 2), nesting_of([[1], [0, 0]], 3)
    both = concatenate([first, second])
    np.testing.assert_array_equal(both.members, [0, 1, 3, 2, 2])
    np.testing.assert_array_equal(both.row_splits, [0, 2, 2, 3, 5])
    assert both.n_rows == 5
    np.testing.assert_array_equal(both.bag_ids, [0, 0, 2, 3, 3])
