"""What the components of `Bags` are called, and that equal keys of unequal sub-bags are found."""

import pytest
import tensorflow as tf

from keras_mmil import ragged
from keras_mmil.bags import check_keys, input_names, level_names


def make(x, depth=2, dtype="int64"):
    return ragged.from_nested_lists(x, depth=depth, dtype=dtype)


def test_names_of_inputs():
    assert input_names(1) == ("bags", "counts")
    assert input_names(3) == (
        "bags",
        "counts",
        "sub_bag_counts",
        "sub_bag_keys",
        "sub_bag_counts_2",
        "sub_bag_keys_2",
    )
    assert level_names(1) == (["counts"], [])
    assert level_names(3) == (
        ["counts", "sub_bag_counts", "sub_bag_counts_2"],
        ["sub_bag_keys", "sub_bag_keys_2"],
    )


@pytest.mark.parametrize("window_size", [None, 2])
def test_equal_keys_of_unequal_sub_bags_are_found(window_size):
    bags = [[[1], [2, 3]], [[3, 2], [2]]]
    keys = [[7, 8], [8, 9]]
    counts = [[[1.0], [2.0, 1.0]], [[1.0, 2.0], [1.0]]]

    def inputs(bags, keys, counts):
        x = make(bags)
        if window_size:
            x = x.with_flat_values(tf.stack([x.flat_values, x.flat_values + 1], axis=1))
        parts = {"bags": x, "sub_bag_keys": make(keys, 1)}
        return parts if counts is None else {**parts, "counts": make(counts, dtype="float32")}

    check_keys(inputs(bags, keys, counts))
    check_keys(inputs(bags, keys, None))
    check_keys({"bags": make(bags)})
    wrong = r"key 8 of different sub-bags, sub_bag_keys\[0\]\[1\] and sub_bag_keys\[1\]\[0\]"
    with pytest.raises(ValueError, match=wrong):
        check_keys(inputs(bags, keys, [[[1.0], [1.0, 2.0]], *counts[1:]]))
    for other in ([[1], [2, 3]], [[1], [2, 4]], [[1], [2]], [[1], []]):
        if other != bags[0]:
            with pytest.raises(ValueError, match=wrong):
                check_keys(inputs([other, bags[1]], keys, None))


def test_keys_of_upper_levels_are_compared_by_what_is_below():
    """Whatever keys the members have, or none."""
    x = make([[[[1], [2]], [[2], [1]]]], 3)
    keys = {"sub_bag_keys_2": make([[5, 5]], 1)}
    check_keys({"bags": x, **keys})
    check_keys({"bags": x, "sub_bag_keys": make([[[1, 2], [3, 4]]], 2), **keys})
    with pytest.raises(ValueError, match=r"key 5 of different sub-bags, sub_bag_keys_2\[0\]\[0\]"):
        check_keys({"bags": make([[[[1], [2]], [[2], [2]]]], 3), **keys})
