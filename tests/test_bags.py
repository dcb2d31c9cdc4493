"""Compressed bags, compared with a compression by Python's Counter."""

import struct
from collections import Counter

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_mmil import Bags, ragged
from keras_mmil._support import multisets
from keras_mmil.bags import check_keys, input_names, level_names


def nested(depth):
    """Strategy of nested lists of few different ids, so that many bags are equal."""
    x = st.integers(0, 2)
    for _ in range(depth):
        x = st.lists(x, max_size=4)
    return st.tuples(st.just(depth), st.lists(x, max_size=4))


any_depth = st.one_of(nested(1), nested(2), nested(3))


def make(x, depth=2, dtype="int64"):
    return ragged.from_nested_lists(x, depth=depth, dtype=dtype)


def multiset(bag):
    """A nested list as a value that equals that of every list with the same multisets."""
    if not isinstance(bag, list):
        return bag
    return frozenset(Counter(map(multiset, bag)).items())


def stored(bags):
    """The same value, from the components; and the pairs of (key, value) of all sub-bags."""
    keys = [bags.bags.to_list(), *(part.to_list() for part in bags.level_keys)]
    counts = [bags.counts.to_list(), *(part.to_list() for part in bags.level_counts)]
    pairs = []

    def value(level, path):
        """The value of the bag at `path`, whose members are of `level`."""

        def at(parts):
            for i in path:
                parts = parts[i]
            return parts

        members = at(keys[level])
        if level:
            values = [value(level - 1, (*path, i)) for i in range(len(members))]
            pairs.extend((level, key, v) for key, v in zip(members, values, strict=True))
        else:
            values = members
        assert len(set(values)) == len(values), "equal members are merged"
        return frozenset(zip(values, at(counts[level]), strict=True))

    return [value(bags.depth - 1, (i,)) for i in range(len(bags))], pairs


def flat(bag):
    """The instances of a nested list, and how often each occurs."""
    if not isinstance(bag, list):
        return Counter([bag])
    return sum(map(flat, bag), Counter())


def as_nested_list(bags):
    return [multiset(bag) for bag in bags.to_ragged().to_list()]


def numbered(keys):
    """Nested lists of keys, with 0, 1, ... for the different ones in the order they come."""
    numbers = {}
    return [[numbers.setdefault(key, len(numbers)) for key in row] for row in keys.to_list()]


MASK = 2**64 - 1


def mix(x):
    """The finaliser of the hash, on Python's integers, which know no width."""
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & MASK
    return x ^ (x >> 31)


def key_of(value):
    """The key of what `multiset` made of a bag; an id is its own key."""
    if isinstance(value, int):
        return value & MASK
    total = len(value)
    for member, count in value:
        bits = struct.unpack("<I", struct.pack("<f", count))[0]
        total += mix(mix(0x9E3779B97F4A7C15 + key_of(member)) ^ bits)
    return mix(total & MASK)


@pytest.mark.slow
@given(any_depth)
def test_compression_equals_counting(depth_and_x):
    depth, x = depth_and_x
    bags = Bags.from_ragged(make(x, depth))
    values, pairs = stored(bags)
    assert values == [multiset(bag) for bag in x]
    for level in range(1, depth):
        by_key = {(key, value) for at, key, value in pairs if at == level}
        assert len(by_key) == len({key for key, _ in by_key}) == len({v for _, v in by_key})


@pytest.mark.slow
@given(any_depth, st.sampled_from(["batch", "top_bag", None]))
def test_there_and_back(depth_and_x, merge):
    depth, x = depth_and_x
    bags = Bags.from_ragged(make(x, depth, "int32"), merge=merge)
    assert (len(bags), bags.depth, bags.dtype) == (len(x), depth, tf.int32)
    back = bags.to_ragged()
    assert back.dtype == tf.int32
    assert as_nested_list(bags) == [multiset(bag) for bag in x]
    assert bags.n_instances == back.flat_values.shape[0]
    assert bags.n_stored == bags.bags.flat_values.shape[0] <= bags.n_instances
    if merge is None:
        assert back.to_list() == bags.bags.to_list() == x
    if merge != "batch":
        for keys in bags.level_keys:
            flat = keys.flat_values.numpy()
            assert len(set(flat)) == len(flat)


@pytest.mark.slow
@given(any_depth, st.integers(0, 4))
def test_concat_agrees_with_compressing_all_at_once(depth_and_x, cut):
    depth, x = depth_and_x
    parts = [Bags.from_ragged(make(part, depth)) for part in (x[:cut], x[cut:])]
    joined = Bags.concat(parts)
    whole = Bags.from_ragged(make(x, depth))
    for name, part in joined.inputs.items():
        assert part.to_list() == whole.inputs[name].to_list(), name


@pytest.mark.slow
@given(any_depth, st.sampled_from([0.0, 0.5]), st.integers(0, 99))
def test_subsampled_bags_are_merged_anew(depth_and_x, rate, seed):
    depth, x = depth_and_x
    bags = Bags.from_ragged(make(x, depth))
    subsampled = bags.subsample([rate] * depth, seed)
    compressed = Bags.concat([subsampled])
    for name, part in (bags if rate == 0 else compressed).inputs.items():
        assert part.to_list() == subsampled.inputs[name].to_list(), name
    for before, after in zip(x, subsampled.to_ragged().to_list(), strict=True):
        assert flat(after) <= flat(before)
        assert bool(after) == bool(before)


def test_weights_of_sub_bags():
    """They are added where sub-bags are equal."""
    x = make([[[5, 3], [4], [3, 5]], [[4]]])
    ones = make([[[1, 2], [1], [2, 1]], [[3]]], dtype="float32")
    of_sub_bags = make([[0.5, 0.25, 0.125], [2]], depth=1, dtype="float32")
    found = Bags.from_ragged(x, ones, level_weights=[of_sub_bags])
    assert found.bags.to_list() == [[[4], [3, 5]], [[4]]]
    assert found.counts.to_list() == [[[1.0], [2.0, 1.0]], [[3.0]]]
    assert found.level_counts[0].to_list() == [[0.25, 0.625], [2.0]]
    assert found.n_instances == 0.25 + 0.625 * 3 + 2 * 3
    for wrong, match in (
        ([], "level_weights of 1 inner levels. Received: 0"),
        ([make([[1, 2], [2]], depth=1, dtype="float32")], r"level_weights\[0\]"),
        ([make([[1, 0, 1], [2]], depth=1, dtype="float32")], r"level_weights\[0\]"),
    ):
        with pytest.raises(ValueError, match=match):
            Bags.from_ragged(x, level_weights=wrong)


def test_the_example_by_hand():
    bags = Bags.from_ragged(make([[[5, 3, 5], [4], [4], []], [], [[4], [], []]]))
    assert list(bags.inputs) == ["bags", "counts", "sub_bag_counts", "sub_bag_keys"]
    found = {name: part.to_list() for name, part in bags.inputs.items()}
    found["sub_bag_keys"] = numbered(bags.level_keys[0])
    assert found == {
        "bags": [[[], [4], [3, 5]], [], [[], [4]]],
        "counts": [[[], [1.0], [1.0, 2.0]], [], [[], [1.0]]],
        "sub_bag_counts": [[1.0, 2.0, 1.0], [], [2.0, 1.0]],
        "sub_bag_keys": [[0, 1, 2], [], [0, 1]],
    }
    assert repr(bags) == "Bags(depth=2, 3 top-bags, 6 instances stored as 4, dtype=int64)"


def test_dtypes_and_ranks_of_three_levels():
    bags = Bags.from_ragged(make([[[[1], [1]], [[1, 1]]], []], depth=3))
    kinds = [(part.ragged_rank, part.dtype) for part in bags.inputs.values()]
    assert kinds == [
        (3, tf.int64),
        (3, tf.float32),
        (2, tf.float32),
        (2, tf.int64),
        (1, tf.float32),
        (1, tf.int64),
    ]


@pytest.mark.slow
@given(any_depth, st.sampled_from(["int32", "int64"]))
def test_keys_are_hashes_of_content(depth_and_x, dtype):
    depth, x = depth_and_x
    _, pairs = stored(Bags.from_ragged(make(x, depth, dtype)))
    for level, key, value in pairs:
        assert key & MASK == key_of(value), level


@pytest.mark.slow
@settings(max_examples=12)
@given(nested(3), nested(3), st.sampled_from(["batch", "top_bag", None]))
def test_components_of_several_bags_may_be_joined(one, other, merge):
    """Equal keys mean equal sub-bags, also where the same data come twice."""
    xs = [one[1], other[1], one[1]]
    parts = [Bags.from_ragged(make(x, 3), merge=merge).inputs for x in xs]
    joined = ragged.concat(parts)
    check_keys(joined)
    bags = Bags(
        joined["bags"],
        joined["counts"],
        (joined["sub_bag_counts"], joined["sub_bag_counts_2"]),
        (joined["sub_bag_keys"], joined["sub_bag_keys_2"]),
    )
    assert as_nested_list(bags) == [multiset(bag) for x in xs for bag in x]
    if merge == "batch":
        whole = Bags.from_ragged(make([bag for x in xs for bag in x], 3))
        for ours, theirs in zip(bags.level_keys, whole.level_keys, strict=True):
            assert ours.to_list() == theirs.to_list()


@pytest.mark.parametrize("merge", ["batch", "top_bag", None])
def test_unequal_sub_bags_of_different_bags_have_different_keys(merge):
    """Of ids, of lengths and of counts; by their order, all of these would be the first."""
    xs = [[[[1]]], [[[2]]], [[[1, 1]]], [[[1, 2]]], [[[]]]]
    keys = [Bags.from_ragged(make(x), merge=merge).level_keys[0].to_list()[0][0] for x in xs]
    assert len(set(keys)) == len(xs)


def test_a_collision_of_hashes_is_refused(monkeypatch):
    monkeypatch.setattr(multisets, "_mix", lambda x: x * np.uint64(0))
    with pytest.raises(ValueError, match="two of 3 sub-bags with the same hash"):
        Bags.from_ragged(IDS)


def test_bags_are_compared_and_not_only_hashed():
    # Different lengths, prefixes of each other, and the same ids in other numbers.
    sub_bags = [[0] * n for n in range(9)] + [[0, 1], [0, 0, 1], [0, 1, 1], [1, 0], [1, 1, 0]]
    keys = Bags.from_ragged(make([[bag] for bag in sub_bags])).level_keys[0].flat_values.numpy()
    equal = np.equal.outer(keys, keys)
    values = [multiset(bag) for bag in sub_bags]
    assert equal.tolist() == [[a == b for b in values] for a in values]


def test_large_ids_and_long_bags():
    big = 2**62
    x = make([[[big, big - 1] * 500, [big - 1, big] * 500], [[big] * 501 + [big - 1] * 499]])
    bags = Bags.from_ragged(x)
    assert bags.counts.to_list() == [[[500.0, 500.0]], [[499.0, 501.0]]]
    assert len(set(bags.level_keys[0].flat_values.numpy())) == 2


def test_weights_are_added_whatever_their_order():
    ids = make([[[1, 2, 1, 1]], [[1, 1, 2, 1]]])
    weights = make([[[0.1, 0.5, 0.7, 1e8]], [[1e8, 0.7, 0.5, 0.1]]], dtype="float32")
    bags = Bags.from_ragged(ids, weights)
    expected = np.float32(np.float64(np.float32(0.1)) + np.float32(0.7) + 1e8)
    assert bags.counts.to_list() == [[[expected, 0.5]], [[expected, 0.5]]]
    assert numbered(bags.level_keys[0]) == [[0], [0]]
    with pytest.raises(
        ValueError, match=r"Expected multiplicities that are integers. Received: 0.5"
    ):
        bags.to_ragged()


def test_weights_tell_sub_bags_apart():
    weights = make([[[1.0], [2.0]]], dtype="float32")
    bags = Bags.from_ragged(make([[[3], [3]]]), weights)
    assert numbered(bags.level_keys[0]) == [[0, 1]]
    assert as_nested_list(bags) == [multiset([[3], [3, 3]])]


@pytest.mark.parametrize(
    "indices", [slice(1, 3), [3, 0], [-1], np.array([True, False, True, False])]
)
def test_selection(indices):
    x = [[[1], [1]], [], [[2, 2], [1]], [[]]]
    bags = Bags.from_ragged(make(x))
    chosen = bags[indices]
    assert as_nested_list(chosen) == [multiset(x[i]) for i in np.arange(4)[indices]]
    assert chosen.level_keys[0].to_list() == ragged.take(bags.level_keys[0], indices).to_list()


def test_an_integer_selects_one_top_bag():
    bags = Bags.from_ragged(make([[[1], [1]], [[2]]]))
    assert as_nested_list(bags[1]) == as_nested_list(bags[-1]) == [multiset([[2]])]
    assert [len(bag) for bag in bags] == [1, 1]
    with pytest.raises(IndexError, match="2"):
        bags[2]


def test_split_and_shuffle_move_whole_top_bags():
    x = [[[i] * (i + 1)] for i in range(6)]
    bags = Bags.from_ragged(make(x))
    for moved in (bags.shuffle(seed=1), Bags.concat(bags.split([1, 5], seed=1))):
        assert as_nested_list(moved) != as_nested_list(bags)
        assert set(as_nested_list(moved)) == set(as_nested_list(bags))
    first, rest = bags.split(0.5)
    assert as_nested_list(first) + as_nested_list(rest) == as_nested_list(bags)


def test_components_are_batched_together():
    x = [[[1], [1, 2]], [[3]], []]
    bags = Bags.from_ragged(make(x))
    batches = list(tf.data.Dataset.from_tensor_slices(bags.inputs).batch(2))
    assert [batch["bags"].to_list() for batch in batches] == [[[[1], [1, 2]], [[3]]], [[]]]
    assert batches[0]["sub_bag_keys"].to_list() == bags[:2].level_keys[0].to_list()


@pytest.mark.parametrize("merge", ["batch", "top_bag", None])
def test_no_top_bags_and_int32_splits(merge):
    empty = Bags.from_ragged(make([]), merge=merge)
    assert (len(empty), empty.n_instances, empty.to_ragged().to_list()) == (0, 0, [])
    x = make([[[2], []], []]).with_row_splits_dtype(tf.int32)
    assert as_nested_list(Bags.from_ragged(x, merge=merge)[[0]]) == [multiset([[2], []])]


def test_dense_bags_become_ragged():
    x = tf.RaggedTensor.from_tensor(tf.constant([[[1, 1], [2, 1]]]), ragged_rank=2)
    assert Bags.from_ragged(x).counts.to_list() == [[[2.0], [1.0, 1.0]]]


IDS = make([[[1], [2]], [[3]]])
ONES = tf.ones_like(IDS, tf.float32)


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        (([[1]],), TypeError, "Received: list of dtype None"),
        ((tf.constant([[1]]),), TypeError, "Received: .*EagerTensor of dtype"),
        ((tf.cast(IDS, tf.float32),), TypeError, "dtype <dtype: 'float32'>"),
        ((ragged.from_flat([[1, 2]], [[1]]),), ValueError, r"Received: shape=\(1, None, 2\)"),
        ((make([[[-3], [-1]]]),), ValueError, "Received: id=-3"),
        ((IDS, [1.0]), TypeError, "Received: weights of type list"),
        ((IDS, IDS), TypeError, "Expected float32. Received: weights of int64"),
        ((IDS, ONES[:1]), ValueError, "Received: weights of other sizes"),
        ((IDS, ONES.values), ValueError, "Received: weights of other sizes"),
        ((IDS, ONES * 0), ValueError, "3 are not. Received: weights with 0.0"),
        ((IDS, ONES * np.nan), ValueError, "Received: weights with nan"),
        ((IDS, ONES * np.inf), ValueError, "Received: weights with inf"),
        ((IDS, None, "all"), ValueError, "Received: merge='all'"),
    ],
)
def test_bad_input(arguments, error, match):
    with pytest.raises(error, match=match):
        Bags.from_ragged(*arguments)


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"level_counts": ()}, ValueError, "0 level_counts and 1 level_keys"),
        ({"counts": ONES.values}, ValueError, "counts of other sizes"),
        ({"counts": tf.cast(ONES, tf.float64)}, TypeError, "counts of float64"),
        ({"level_keys": (make([[0, 1], [2]], 1, "int32"),)}, TypeError, "sub_bag_keys of int32"),
        ({"level_keys": (make([[0], [2]], 1),)}, ValueError, "sub_bag_keys of other sizes"),
        ({"level_counts": (np.ones(3),)}, TypeError, "sub_bag_counts of type ndarray"),
        ({"level_keys": (make([[4, 4], [2]], 1),)}, ValueError, "key 4 of different sub-bags"),
    ],
)
def test_components_that_do_not_fit(change, error, match):
    whole = Bags.from_ragged(IDS)
    parts = {
        "bags": whole.bags,
        "counts": whole.counts,
        "level_counts": whole.level_counts,
        "level_keys": whole.level_keys,
    }
    Bags(**parts)
    with pytest.raises(error, match=match):
        Bags(**parts | change)


def test_bad_concat():
    with pytest.raises(ValueError, match=r"Received: \[\]"):
        Bags.concat([])
    with pytest.raises(ValueError, match=r"\(1, 'int64'\), \(2, 'int64'\)"):
        Bags.concat([Bags.from_ragged(IDS), Bags.from_ragged(IDS.values)])


# Components -------------------------------------------------------------------------------------


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
