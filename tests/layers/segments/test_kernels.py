"""Kernels of segment reductions against TensorFlow's own, on large data and under two tapes."""

import numpy as np
import pytest
import tensorflow as tf
from pairs import pairs

from keras_mmil.layers import segments
from keras_mmil.layers.segments.kernels import count_true


@pytest.mark.slow
@pytest.mark.parametrize("name", ["max", "mean", "sum"])
@pytest.mark.parametrize(
    "lengths",
    [
        lambda rng: rng.integers(0, 40, 10_000),
        lambda rng: np.array([0, 0, 199_999, 0, 1, 0, 0]),  # one bag is in several shards
        lambda rng: np.append(np.full(3, 50_000), np.zeros(100, int)),
        lambda rng: np.append(np.zeros(100, int), np.ones(200_000, int)),
    ],
    ids=["many", "one", "few", "single"],
)
@pytest.mark.parametrize("integers", [True, False])  # with and without ties
def test_large_data_in_shards_equal_tensorflow(name, lengths, integers):
    rng = np.random.default_rng(0)
    lengths = lengths(rng)
    row_ids = np.repeat(np.arange(len(lengths)), lengths)
    values = rng.normal(size=(len(row_ids), 3)).astype("float32")
    values = tf.constant(np.round(values) if integers else values)
    upstream = tf.constant(rng.normal(size=(len(lengths), 3)), "float32")
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(values)
        ours = getattr(segments, f"segment_{name}")(values, row_ids, len(lengths))
        theirs = getattr(tf.math, f"unsorted_segment_{name}")(values, row_ids, len(lengths))
    theirs_without_empty = np.where(lengths[:, None] > 0, theirs, 0)
    np.testing.assert_allclose(ours, theirs_without_empty, rtol=1e-4, atol=1e-3)
    a, b = (tape.gradient(y, values, upstream) for y in (ours, theirs))
    np.testing.assert_allclose(a, tf.convert_to_tensor(b), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("id_dtype", ["int32", "int64"])
@pytest.mark.parametrize("shape", [(), (2,), (2, 0), (3, 2)])
def test_shards_of_values_of_any_shape_in_a_graph(shape, dtype, id_dtype):
    rng = np.random.default_rng(0)
    lengths = rng.integers(0, 40, 10_000)
    row_ids = np.repeat(np.arange(len(lengths)), lengths).astype(id_dtype)
    values = rng.normal(size=(len(row_ids), *shape)).astype(dtype)

    @tf.function(
        input_signature=[tf.TensorSpec((None, *shape), dtype), tf.TensorSpec([None], id_dtype)]
    )
    def reduced(values, row_ids):
        found = segments.segment_max(values, row_ids, len(lengths))
        assert found.shape[1:] == shape
        return found

    expected = np.zeros((len(lengths), *shape), dtype)
    starts = np.cumsum(lengths) - lengths
    expected[lengths > 0] = np.maximum.reduceat(values, starts[lengths > 0])
    np.testing.assert_array_equal(reduced(values, row_ids), expected)
    np.testing.assert_array_equal(reduced(values[:0], row_ids[:0]), np.zeros_like(expected))


@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (5, 7), (1024, 1), (3, 1024), (999, 33)])
@pytest.mark.parametrize("share", [0, 0.5, 1])
def test_count_of_true_values(shape, share):
    mask = np.random.default_rng(0).uniform(size=shape) < share
    assert int(count_true(tf.constant(mask))) == mask.sum()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("weights", "name"),
    pairs(
        [[1.0, 2.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]],
        ["segment_sum", "segment_mean", "segment_max"],
    ),
)
def test_two_tapes_in_a_graph(name, weights):
    """As in virtual adversarial training, on members with weights: what is learned by an inner
    gradient is constant for the outer one."""
    rows = tf.constant([[1.0, -2.0], [0.5, 3.0]])
    weights, members, row_ids = tf.constant(weights), tf.constant([0, 1, 1, 0]), [0, 0, 1, 1]

    def outer(reduce):
        with tf.GradientTape() as tape:
            tape.watch(rows)
            with tf.GradientTape(watch_accessed_variables=False) as inner:
                inner.watch(rows)
                first = tf.reduce_sum(reduce(rows**2) ** 2)
            moved = rows + tf.stop_gradient(inner.gradient(first, rows))
            last = tf.reduce_sum(reduce(moved) ** 3)
        return tf.convert_to_tensor(tape.gradient(last, rows))

    def ours(rows):
        return getattr(segments, name)(rows, tf.constant(row_ids), 2, weights, members)

    def theirs(rows):
        repeats = tf.cast(weights, tf.int32)
        instances = tf.repeat(tf.gather(rows, members), repeats, axis=0)
        return getattr(tf.math, name)(instances, tf.repeat(row_ids, repeats))

    np.testing.assert_allclose(
        tf.function(lambda: outer(ours))(), tf.function(lambda: outer(theirs))(), rtol=1e-5
    )


@pytest.mark.parametrize("weights", [[1.0, 2.0, 0.5, 1.0], [1.0, 1.0, 1.0, 1.0]])
def test_gradient_of_the_weights_of_members(weights):
    rows = tf.constant([[1.0, -2.0], [0.5, 3.0]])
    members, row_ids = tf.constant([0, 1, 1, 0]), tf.constant([0, 0, 1, 1])
    found = []
    for by_members in (True, False):
        given = tf.constant(weights)
        with tf.GradientTape() as tape:
            tape.watch(given)
            if by_members:
                reduced = segments.segment_sum(rows, row_ids, 2, given, members)
            else:
                reduced = tf.math.segment_sum(tf.gather(rows, members) * given[:, None], row_ids)
            loss = tf.reduce_sum(reduced**2)
        found.append(tape.gradient(loss, given))
    np.testing.assert_allclose(*found, rtol=1e-6)
