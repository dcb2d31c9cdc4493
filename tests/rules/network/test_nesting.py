"""Nested bags, level by level."""

import numpy as np
import pytest
from nested_rows import N_ROWS, PARENTS, TOP, nesting_of, nestings_of, random_tree

from keras_mmil.rules.network.nesting import (
    above,
    clustered_weights,
    concatenate,
    expand,
    multiplicities,
    take_bags,
)


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


@pytest.fixture(params=[0, 1, 2])
def bags(request):
    return random_tree(np.random.default_rng(request.param))


def occurrences(bags, layer, record=TOP, row=0, around=1.0):
    """(row, weight, total weight) of all that is in a record, by recursion."""
    found = []
    for below in [i for i, parent in enumerate(PARENTS) if parent == record]:
        for member, weight in bags[below][row]:
            here = (member, weight, around * weight)
            found += [here] if below == layer else []
            found += occurrences(bags, layer, below, member, around * weight)
    return found


def test_trees_are_walked_as_by_recursion(bags):
    nestings = nestings_of(bags)
    counts = multiplicities(nestings, PARENTS)
    np.testing.assert_array_equal(counts[-1], np.ones(8))
    for layer, here in enumerate(expand(nestings, PARENTS)):
        found = [each for i in range(8) for each in occurrences(bags, layer, row=i)]
        rows, weights, totals = zip(*found, strict=True)
        np.testing.assert_array_equal(here.rows, rows)
        np.testing.assert_array_equal(here.weights, weights)
        np.testing.assert_array_equal(here.total_weights, totals)
        expected = np.bincount(rows, totals, minlength=N_ROWS[layer])
        np.testing.assert_array_equal(counts[layer], expected)
        assert len(here.row_splits) - 1 == (
            8 if PARENTS[layer] == 5 else len(expand(nestings, PARENTS)[PARENTS[layer]].rows)
        )


def test_only_rows_that_are_nothing_but_an_empty_bag_are_left_out(bags):
    """The rows of 2 are bags of 1 alone; those of 3 hold two bags, of which one may be empty."""
    nestings = nestings_of(bags)
    counts = multiplicities(nestings, PARENTS)
    is_empty = np.array([not bag for bag in bags[1]])
    for has_fields, left_out in ((None, {2}), ((False,) * 6, {2}), ((0, 0, 1, 0, 0, 0), set())):
        weights = clustered_weights(nestings, PARENTS, has_fields)
        for layer in range(5):
            keep = ~is_empty if layer in left_out else True
            np.testing.assert_array_equal(weights[layer], counts[layer] * keep)


def test_what_is_above():
    assert above(1, PARENTS) == [1, 2, 3]
    assert above(4, PARENTS) == [4]


def test_bags_in_another_order(bags):
    nesting, wanted = nestings_of(bags)[3], np.array([7, 0, 7, 3])
    taken = take_bags(nesting, wanted)
    found = [
        list(zip(taken.members[a:b].tolist(), taken.weights[a:b].tolist(), strict=True))
        for a, b in zip(taken.row_splits, taken.row_splits[1:], strict=False)
    ]
    assert found == [bags[3][i] for i in wanted]
    assert taken.n_rows == nesting.n_rows
    assert take_bags(nesting, np.empty(0, int)).n_bags == 0
