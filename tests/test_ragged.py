"""Helpers on RaggedTensors, compared with Python's lists and with tf.ragged.constant."""

import re

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from keras_mmil import Bags, Model, layers, ragged


def nested(depth):
    """Strategy of lists of top-bags, nested `depth` times."""
    leaf = st.integers(-9, 9)
    for _ in range(depth + 1):
        leaf = st.lists(leaf, max_size=3)
    return leaf


def bags(*top_bags):
    return ragged.from_nested_lists(top_bags, depth=2, dtype="int64")


X = [[[1, 2], [3]], [], [[], [4]]]


# Building and taking apart


@given(x=nested(2))
def test_nested_lists_like_tf_ragged_constant(x):
    expected = tf.ragged.constant(x, dtype=tf.int64, ragged_rank=2, row_splits_dtype=tf.int64)
    found = ragged.from_nested_lists(x, depth=2, dtype="int64")
    assert found.to_list() == x == ragged.to_nested_lists(found)
    assert found.shape.as_list() == expected.shape.as_list()
    assert (found.dtype, found.row_splits.dtype) == (tf.int64, tf.int64)


@given(st.integers(1, 3).flatmap(lambda depth: st.tuples(st.just(depth), nested(depth))))
def test_flat_values_and_lengths_go_back_and_forth(depth_and_x):
    depth, x = depth_and_x
    there = ragged.from_nested_lists(x, depth=depth)
    lengths = ragged.nested_lengths(there)
    assert ragged.depth(there) == len(lengths) == depth
    assert lengths[0].tolist() == [len(bag) for bag in x]
    back = ragged.from_flat(there.flat_values, lengths)
    assert back.to_list() == there.to_list() == x


@pytest.mark.parametrize(
    ("numbers", "dtype"),
    [([1], "int64"), ([0.5], "float32"), ([1, 0.5], "float32"), ([True], "bool")],
)
def test_dtype_of_numbers(numbers, dtype):
    assert ragged.from_nested_lists([numbers]).dtype == dtype


def test_lookup_of_instances_and_their_bags():
    at = ragged.lookup(bags(*X))
    for i, top_bag in enumerate(X):
        for j, bag in enumerate(top_bag):
            assert at((i, j)).tolist() == bag
            assert [at((i, j, k)) for k in range(len(bag))] == bag
    points = tf.RaggedTensor.from_row_lengths(tf.random.stateless_normal((5, 3), (0, 1)), [2, 3])
    np.testing.assert_array_equal(ragged.lookup(points)((1, 2)), points[1, 2])
    np.testing.assert_array_equal(ragged.lookup(points)((1,)), points[1])


@pytest.mark.parametrize(
    "position",
    [(), (0,), (-1, 0), (3, 0), (0, 2), (0, -1), (1, 0), (0, 1, 1), (0, 0, -1), (0,) * 4],
)
def test_lookup_knows_no_other_positions(position):
    with pytest.raises(IndexError, match=r"Received: \("):
        ragged.lookup(bags(*X))(position)


def test_arrays_are_bags_of_instances():
    x = [
        [np.zeros((3, 4), np.float16), np.ones((1, 4), np.float16)],
        [],
        [np.ones((0, 4), np.float16)],
    ]
    found = ragged.from_nested_lists(x)
    assert found.shape.as_list() == [3, None, None, 4]
    assert found.dtype == tf.float16
    assert [lengths.tolist() for lengths in ragged.nested_lengths(found)] == [[2, 0, 1], [3, 1, 0]]
    np.testing.assert_array_equal(found.flat_values[:, 0], [0, 0, 0, 1])


@pytest.mark.parametrize("instance", [[1.0, 2.0], np.array([1.0, 2.0], np.float32)])
def test_inner_shape_makes_lists_and_arrays_instances(instance):
    found = ragged.from_nested_lists([[instance, instance], [instance]], inner_shape=(2,))
    assert found.shape.as_list() == [2, None, 2]
    np.testing.assert_array_equal(found.flat_values, [[1, 2]] * 3)


def test_object_arrays_and_tuples_are_lists():
    x = np.empty(2, object)
    x[:] = [(1, 2), [3]]
    assert ragged.from_nested_lists(x).to_list() == [[1, 2], [3]]


@pytest.mark.parametrize(
    ("x", "arguments", "shape"),
    [
        ([], {}, [0, None]),
        ([[], []], {}, [2, None]),
        ([[[]], []], {}, [2, None, None]),
        ([[], []], {"depth": 3, "inner_shape": (5,)}, [2, None, None, None, 5]),
    ],
)
def test_lists_without_instances(x, arguments, shape):
    assert ragged.from_nested_lists(x, **arguments).shape.as_list() == shape


@pytest.mark.parametrize(
    ("x", "arguments", "error", "match"),
    [
        ("abc", {}, TypeError, r"Received: x='abc' of type str"),
        (np.zeros(3), {}, TypeError, "of type ndarray"),
        ([["a", "b"]], {}, TypeError, r"Received: x\[0\]\[0\]='a'"),
        ([[1], [2, "b"]], {}, TypeError, r"Received: x\[1\]\[1\]='b'"),
        ([[[1], []], [[2, None]]], {}, TypeError, r"Received: x\[1\]\[0\]\[1\]=None"),
        ([[[1]], [2]], {}, ValueError, r"lists beside other things.*Received: x\[1\]\[0\]=2"),
        ([[1], 2], {}, ValueError, r"Received: x\[1\]=2"),
        ([1, 2], {}, ValueError, "Expected lists of depth 1. Received: depth 0"),
        ([[1, 2]], {"depth": 2}, ValueError, "Expected lists of depth 2. Received: depth 1"),
        ([[[1, 2], [3]]], {"inner_shape": (2,)}, ValueError, r"shape \(2,\).*list of length 1"),
        ([[np.zeros((2, 3)), np.zeros((2, 4))]], {}, ValueError, r"x\[0\]\[1\] of shape \(2, 4\)"),
        ([[np.zeros(2), np.array(["a"])]], {}, TypeError, r"x\[0\]\[1\]=array"),
        ([[np.zeros(2), 3]], {}, TypeError, r"x\[0\]\[1\]=3"),
    ],
)
def test_bad_nested_lists(x, arguments, error, match):
    with pytest.raises(error, match=match):
        ragged.from_nested_lists(x, **arguments)


@pytest.mark.parametrize(
    ("values", "lengths", "match"),
    [
        ([1, 2], [], r"nested_lengths=\(\)"),
        ([1, 2], [[1, 2]], r"members, 2.*nested_lengths\[0\]=array.*, of sum 3"),
        ([1, 2], [[3, -1]], r"-1.*, of sum 2"),
        ([1, 2], [[1], [1, 1]], r"nested_lengths\[0\]=.*sum 1"),
        ([1, 2], [[1], [1.5]], r"integers.*nested_lengths\[1\]=array"),
        ([1, 2], [[[2]]], "one-dimensional"),
        (3, [[1]], "Expected top-bags"),
    ],
)
def test_bad_lengths(values, lengths, match):
    with pytest.raises(ValueError, match=match):
        ragged.from_flat(values, lengths)


def test_images_and_int32_splits():
    images = np.arange(4 * 6, dtype=np.uint8).reshape(4, 2, 3)
    x = ragged.from_flat(images, [[2, 0, 1], [1, 2, 1]]).with_row_splits_dtype(tf.int32)
    assert ragged.depth(x) == 2
    taken = ragged.take(x, [2, 0])
    np.testing.assert_array_equal(taken.flat_values, images[[3, 0, 1, 2]])
    assert ragged.concat([x, x]).shape.as_list() == [6, None, None, 2, 3]


@pytest.mark.parametrize("function", [ragged.depth, ragged.nested_lengths, ragged.to_nested_lists])
def test_only_ragged_tensors_are_nested(function):
    with pytest.raises(TypeError, match="Received: x of type ndarray"):
        function(np.zeros((2, 2)))


# Selection by top-bag


@pytest.mark.parametrize(
    "indices",
    [
        slice(1, None),
        slice(None, None, -1),
        [2, 0, 0],
        [-1],
        [],
        np.array([True, False, True]),
        np.array([1], np.int32),
    ],
)
def test_take_as_in_numpy(indices):
    rows = np.arange(3)[indices if len(np.shape(indices)) == 0 or len(indices) else slice(0)]
    x = bags(*X)
    y = np.array([7, 8, 9])
    taken = ragged.take({"x": x, "labels": (y, tf.constant(y))}, indices)
    assert taken["x"].to_list() == [X[i] for i in rows]
    assert taken["x"].shape.as_list() == [len(rows), None, None]
    assert taken["labels"][0].tolist() == y[rows].tolist() == taken["labels"][1].numpy().tolist()
    assert isinstance(taken["labels"][0], np.ndarray)


@pytest.mark.parametrize(
    ("indices", "match"),
    [([3], "3"), ([True, False], "boolean"), (1, "Received: indices=array"), ([[0]], "indices=")],
)
def test_bad_indices(indices, match):
    with pytest.raises(IndexError, match=match):
        ragged.take(bags(*X), indices)


def test_parts_must_lead_with_the_same_number():
    with pytest.raises(ValueError, match=r"sizes=\[3, 2\]"):
        ragged.take((bags(*X), np.zeros(2)), [0])
    with pytest.raises(ValueError, match="Received: 5"):
        ragged.n_top_bags((bags(*X), 5))
    with pytest.raises(ValueError, match=r"shape=\(\)"):
        ragged.n_top_bags(tf.constant(5))


@given(n=st.integers(0, 20), fraction=st.floats(0, 1), seed=st.one_of(st.none(), st.integers(0, 9)))
def test_split_is_a_partition(n, fraction, seed):
    x = ragged.from_flat(np.arange(n), [np.ones(n, np.int64)])
    y = np.arange(n)
    parts = ragged.split((x, y), float(fraction), seed)
    assert [len(labels) for _, labels in parts] == [round(fraction * n), n - round(fraction * n)]
    for bag, label in parts:
        assert bag.flat_values.numpy().tolist() == label.tolist()
    joined, labels = ragged.concat(parts)
    assert sorted(labels) == list(range(n)) == sorted(joined.flat_values.numpy())
    if seed is None:
        assert labels.tolist() == list(range(n))


def test_split_by_sizes_and_seed():
    y = np.arange(50)
    sizes = [len(part) for part in ragged.split(y, (5, 0, 45))]
    assert sizes == [5, 0, 45]
    same, again, other = (ragged.split(y, 0.5, seed)[0].tolist() for seed in (1, 1, 2))
    assert same == again != other


BAD_SIZES = [1.5, -0.1, [2], [5, -1], 4, [[4]], [2.0, 2.0], [True, 3], True, [4.5, -0.5]]


def test_sizes_of_numpy_and_bad_sizes():
    x = np.arange(4)
    assert [len(part) for part in ragged.split(x, np.float32(0.25))] == [1, 3]
    assert [len(part) for part in ragged.split(x, np.array([3, 1]))] == [3, 1]
    for sizes in BAD_SIZES:
        with pytest.raises(ValueError, match="Received: sizes="):
            ragged.split(x, sizes)


def test_shuffle_keeps_examples_and_labels_together():
    x = ragged.from_flat(np.arange(30), [np.ones(30, np.int64)])
    bag, label = ragged.shuffle((x, np.arange(30)), seed=3)
    assert bag.flat_values.numpy().tolist() == label.tolist() != list(range(30))
    assert ragged.shuffle(np.arange(30), seed=3).tolist() == label.tolist()


def test_concat_of_mixed_splits_and_forms():
    x = bags(*X)
    joined = ragged.concat([{"x": x.with_row_splits_dtype(tf.int32)}, {"x": x}])
    assert joined["x"].to_list() == X + X
    assert ragged.concat([tf.constant([1]), tf.constant([2])]).numpy().tolist() == [1, 2]


def is_part(some, all_of_them):
    """Whether nested lists are what is left of others after members were left out, in order."""
    if not isinstance(some, list):
        return some == all_of_them
    rest = iter(all_of_them)
    return all(any(is_part(member, other) for other in rest) for member in some)


@pytest.mark.slow
@given(x=nested(2), rates=st.tuples(*[st.sampled_from([0.0, 0.5, 1.0])] * 2), seed=st.integers(0))
def test_subsampled_bags_are_parts_and_never_empty(x, rates, seed):
    subsampled = ragged.subsample(bags(*x), rates, seed).to_list()
    assert len(subsampled) == len(x)
    assert subsampled == ragged.subsample(bags(*x), rates, seed).to_list()
    for some, whole in zip(subsampled, x, strict=True):
        assert is_part(some, whole)
        assert not whole or 1 <= len(some) <= (len(whole) if rates[0] < 1 else 1)
        if rates == (0, 0):
            assert some == whole
        if rates[1] == 1:
            assert all(len(sub_bag) <= 1 for sub_bag in some)


def test_subsampled_at_the_rates_with_what_belongs_to_them():
    x = ragged.from_flat(np.arange(400_000), (np.full(200, 20), np.full(4000, 100)))
    firsts = x.with_values(tf.range(0, 400_000, 100))  # of each sub-bag
    subsampled = ragged.subsample({"firsts": firsts, "x": x}, (0.2, 0.6), seed=0)
    np.testing.assert_array_equal(
        subsampled["x"].flat_values // 100 * 100,
        np.repeat(subsampled["firsts"].values, subsampled["x"].values.row_lengths()),
    )
    outer, inner = ragged.nested_lengths(subsampled["x"])
    assert outer.sum() / 4000 == pytest.approx(0.8, abs=0.02)
    assert inner.mean() / 100 == pytest.approx(0.4, abs=0.01)


@pytest.mark.parametrize("rates", [(), (0.5,), (0.5, 1.5), (0.5, -0.1), (float("nan"), 0)])
def test_bad_rates(rates):
    with pytest.raises(ValueError, match=r"2 rates from 0 to 1. Received: rates="):
        ragged.subsample(bags(*X), rates)


def test_bags_are_selected_like_tensors():
    x = Bags.from_ragged(bags(*X))
    (first, y), (rest, _) = ragged.split((x, np.arange(3)), 0.34, seed=0)
    assert (len(first), len(rest)) == (1, 2)
    assert first.bags.to_list() == x[y].bags.to_list()


# Checks


@pytest.mark.parametrize(
    ("x", "match"),
    [
        (
            ragged.from_nested_lists([[[[0.0, 1.0]]], [[], [[2.0, np.inf], [np.nan, 0.0]]]], (2,)),
            r"`x`, found 2 .*Received: x\[1\]\[1\]\[0\]\[1\]=inf",
        ),
        (np.array([[0.0], [np.nan]]), r"found 1 .*Received: x\[1\]\[0\]=nan"),
        (tf.constant([-np.inf]), r"x\[0\]=-inf"),
    ],
)
def test_values_that_are_not_finite(x, match):
    with pytest.raises(ValueError, match=match):
        ragged.check_finite(x)


def test_finite_values_pass():
    for x in (bags(*X), tf.cast(bags(*X), tf.float32), np.zeros(0), np.array([True])):
        ragged.check_finite(x, "y")


def test_parts_that_do_not_belong_together_are_not_joined():
    for parts, match in (
        ([], r"parts=\[\]"),
        ([bags(*X), bags(*X).values], r"\('int64', 1\), \('int64', 2\)"),
        ([bags(*X), tf.cast(bags(*X), tf.int32)], r"\('int32', 2\), \('int64', 2\)"),
    ):
        with pytest.raises(ValueError, match=match):
            ragged.concat(parts)
    ints, floats = np.array([1, 2]), np.array([0.5])
    for parts in ([ints, floats], [ints, ints.astype("int32")], [ints, np.array(["a"])]):
        with pytest.raises(ValueError, match="Expected parts of one dtype and depth"):
            ragged.concat(parts)
    assert ragged.concat([np.array(["a"]), np.array(["long"])]).tolist() == ["a", "long"]
    x = Bags.from_ragged(bags(*X[:1]))
    with pytest.raises(TypeError, match="Received: Bags"):
        ragged.concat([x, x])
    for other in ({"bags": ints}, {"bags": ints, "counts": ints}, (ints,)):
        with pytest.raises((TypeError, ValueError)):
            ragged.concat([{"bags": ints, "keys": ints}, other])


def test_parts_of_other_sizes_are_not_subsampled():
    """As many members, in bags of other sizes: others would be left out of each."""
    x = ragged.from_flat(np.arange(4), [[2], [1, 3]])
    weights = ragged.from_flat(np.ones(4), [[2], [3, 1]])
    with pytest.raises(ValueError, match="Expected parts with bags of the same sizes"):
        ragged.subsample((x, weights), [0.5, 0.5])
    outer = ragged.from_flat(np.ones(2), [[1, 1]])
    with pytest.raises(ValueError, match="Expected parts with bags of the same sizes"):
        ragged.subsample({"x": x, "outer": outer}, [0.5, 0.5])


@pytest.mark.slow
@pytest.mark.parametrize("depth", [1, 2])
def test_vectors_that_became_bags_are_explained(depth):
    """Innermost lists are bags of numbers by default, and the errors say what to do."""
    lists = [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0]]]
    lists = [lists, lists[:1]] if depth == 2 else lists
    stacked = tf.ragged.stack([tf.ragged.constant(each) for each in lists])
    inputs = keras.Input((None,) * depth + (2,), ragged=True, name="bags")
    bags = inputs
    for _ in range(depth):
        bags = layers.BagLayer(3)(bags)
    model = Model(inputs, keras.layers.Dense(1)(bags))
    named = Model({"bags": inputs}, model.outputs)
    for each in (model, named):
        each.compile("adam", "mse")
    for x in (ragged.from_nested_lists(lists), tf.ragged.constant(lists), stacked):
        for each in (model, named):
            for act in (lambda x: each.fit(x, np.zeros(2)), each.predict, each):  # noqa: B023
                with pytest.raises(
                    ValueError, match=r"instances of 2 features.* `ragged.from_nested_lists\("
                ) as seen:
                    act(x)
        name = re.search(r"from_nested_lists\((\w+)\.to_list", str(seen.value))[1]
        found = re.search(r"; `(.*)` makes", str(seen.value))[1]
        mended = eval(found, {"ragged": ragged, name: x})  # what the message says helps
        assert model.predict(mended, verbose=0).shape == (2, 1)
        with pytest.raises(ValueError, match=r"known number of features.*inner_shape=\(3,\)"):
            layers.BagLayer(3)(x)
        built = keras.layers.Dense(2)
        built.build((None, 2))
        for layer in (keras.layers.Dense(2), built):
            with pytest.raises(ValueError, match=r"are vectors, for a Dense.*inner_shape=\(3,\)"):
                layers.InstanceWise(layer)(x)
