"""Each distinct bag once, against a loop."""

from collections import Counter

import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from keras_mmil.layers import DistinctBags, _hashing
from keras_mmil.testing import run_layer_test


def ragged_of(bags):
    return tf.RaggedTensor.from_row_lengths(
        tf.constant([i for bag in bags for i in bag], tf.int32), [*map(len, bags)]
    )


def bags_of(members, weights):
    """Multisets from what the layer returns."""
    found = []
    for ids, counts in zip(members.to_list(), weights.to_list(), strict=True):
        assert len(set(ids)) == len(ids) == len(counts)
        found.append(dict(zip(ids, counts, strict=True)))
    return found


def assert_distinct(bags, is_compressed=True):
    members, weights, places = DistinctBags()(ragged_of(bags))
    found = bags_of(members, weights)
    assert [found[i] for i in places.numpy()] == [Counter(bag) for bag in bags]
    n_distinct = len({frozenset(Counter(bag).items()) for bag in bags})
    assert len(found) == (n_distinct if is_compressed else len(bags))


@pytest.mark.slow
@given(st.lists(st.lists(st.integers(0, 3), max_size=4), max_size=12))
def test_bags_are_those_of_a_loop(bags):
    assert_distinct(bags)


@pytest.mark.slow
@given(st.lists(st.lists(st.integers(0, 2), max_size=4), max_size=8))
def test_bags_of_equal_hashes_are_told_apart(bags):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_hashing, "mix", tf.zeros_like)
        differ = len({frozenset(Counter(bag).items()) for bag in bags}) > 1
        assert_distinct(bags, is_compressed=not differ)
        patch.setattr(_hashing, "mix", lambda x: x)  # {0, 3}, {1, 2}: the same sum
        assert_distinct([[0, 3], [1, 2], [3, 0]], is_compressed=False)


@pytest.mark.parametrize(
    "bags",
    [
        [[0, 0, 1], [0, 1, 1]],  # of equal members, as often
        [[0, 1], [0, 1, 2]],
        [[0, 1, 2], [0, 1]],
        [[], [0], []],
        [[5], [5, 5]],
    ],
)
def test_equal_hashes_of_bags_that_are_nearly_equal(bags, monkeypatch):
    monkeypatch.setattr(_hashing, "mix", tf.zeros_like)
    assert_distinct(bags, is_compressed=False)


def test_members_keep_their_order():
    members, weights, places = DistinctBags()(ragged_of([[4, 2, 4], [9], [2, 4, 4], [9]]))
    assert members.to_list() == [[4, 2], [9]]
    assert weights.to_list() == [[2.0, 1.0], [1.0]]
    assert places.numpy().tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize("compress", [True, False])
def test_distinct_bags_is_a_layer(compress):
    ids = tf.ragged.constant([[[3, 3], [1]], [], [[1], [], [3, 3]]])
    arguments = {"compress": compress, "field": "orders.items"}
    members, weights, bags = run_layer_test(DistinctBags, arguments, {"ids": ids})
    if compress:
        assert members.to_list() == [[3], [1], []]
        assert weights.to_list() == [[2.0], [1.0], []]
        assert bags.to_list() == [[0, 1], [], [1, 2, 0]]
    else:
        assert members.to_list() == [[3, 3], [1], [1], [], [3, 3]]
        assert weights.to_list() == [[1.0, 1.0], [1.0], [1.0], [], [1.0, 1.0]]
        assert bags.to_list() == [[0, 1], [], [2, 3, 4]]


def test_bags_at_the_top_are_dense():
    ids = ragged_of([[1, 2], [2, 1], []])
    run_layer_test(DistinctBags, {}, {"ids": ids}, fresh_process=False)
    assert DistinctBags()(ids)[2].numpy().tolist() == [0, 0, 1]
    assert DistinctBags()(tf.constant([[1, 2], [2, 1]]))[2].numpy().tolist() == [0, 0]


def test_bad_ids():
    with pytest.raises(ValueError, match="integer ids"):
        DistinctBags()(tf.constant([[1.0]]))
    with pytest.raises(ValueError, match=r"bags of ids.*Received: ids\.shape=\(1,\)"):
        DistinctBags()(tf.constant([1]))
