"""Segment reductions against Python loops and TensorFlow's own, on odd and on large data."""

import numpy as np
import pytest
import tensorflow as tf
from pairs import pairs

from keras_mmil.layers import segments
from keras_mmil.layers.segments import _count_true

SIZES = {
    "usual": [2, 3, 1],
    "empty first": [0, 2],
    "empty between": [1, 0, 0, 2],
    "empty last": [2, 0, 0],
    "all empty": [0, 0],
    "no bags": [],
    "single": [1],
}


def loop(reduce, values, sizes, weights):
    """`reduce(values of a bag, weights of a bag)` for each bag; zeros for an empty one."""
    out, start = [], 0
    for size in sizes:
        bag = slice(start, start + size)
        start += size
        out.append(reduce(values[bag], weights[bag, None]) if size else np.zeros(values.shape[1]))
    return np.array(out).reshape(-1, values.shape[1])


REDUCTIONS = {
    "segment_sum": lambda v, w: (w * v).sum(0),
    "segment_mean": lambda v, w: (w * v).sum(0) / w.sum(),
    "segment_max": lambda v, w: v.max(0),
    "segment_std": lambda v, w: np.sqrt((w * (v - (w * v).sum(0) / w.sum()) ** 2).sum(0) / w.sum()),
    "segment_lse": lambda v, w: np.log((w * np.exp(v)).sum(0)),
    "segment_pnorm": lambda v, w: np.sqrt((w * v**2).sum(0) / w.sum()),
}


def example(sizes, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(sum(sizes), 3)).astype("float32")
    weights = rng.integers(1, 4, size=sum(sizes)).astype("float32")
    return values, weights, np.repeat(np.arange(len(sizes)), sizes)


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("ids_dtype", ["int32", "int64"])
def test_equals_a_loop(name, sizes, ids_dtype):
    values, weights, row_ids = example(sizes)
    reduce = getattr(segments, name)
    row_ids = row_ids.astype(ids_dtype)
    plain = reduce(tf.constant(values), row_ids, len(sizes))
    ones = np.ones_like(weights)
    np.testing.assert_allclose(plain, loop(REDUCTIONS[name], values, sizes, ones), atol=1e-5)
    weighted = reduce(tf.constant(values), row_ids, len(sizes), tf.constant(weights))
    np.testing.assert_allclose(weighted, loop(REDUCTIONS[name], values, sizes, weights), atol=1e-5)


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision(name, dtype):
    values, weights, row_ids = example(SIZES["usual"])
    half = tf.cast(values, dtype)
    reduced = getattr(segments, name)(half, row_ids, 3, tf.constant(weights))
    assert reduced.dtype == half.dtype
    expected = loop(REDUCTIONS[name], tf.cast(half, "float32").numpy(), [2, 3, 1], weights)
    np.testing.assert_allclose(tf.cast(reduced, "float32"), expected, rtol=2e-2, atol=2e-2)


def test_half_precision_mean_does_not_overflow():
    values = tf.fill((1000, 1), tf.constant(100.0, tf.float16))  # their sum is above 65,504
    mean = segments.segment_mean(values, tf.zeros(1000, tf.int32), 1)
    assert float(mean[0, 0]) == 100.0


@pytest.mark.parametrize("name", REDUCTIONS)
def test_weights_count_as_repetitions_also_in_the_gradient(name):
    """A bag {a: 2, b: 1} has the value and gradient of {a, a, b}."""
    values, weights, row_ids = example([3, 0, 2, 4])
    values[-1], weights[-2:] = values[-2], (1, 3)  # a tie, in every unit
    times = weights.astype(int)
    compressed, upstream = (
        tf.Variable(values),
        tf.constant(np.random.default_rng(1).normal(size=(4, 3)), "float32"),
    )
    reduce = getattr(segments, name)
    with tf.GradientTape(persistent=True) as tape:
        by_weight = reduce(compressed, row_ids, 4, tf.constant(weights))
        repeated = tf.repeat(compressed, times, axis=0)
        by_repetition = reduce(repeated, np.repeat(row_ids, times), 4)
    np.testing.assert_allclose(by_weight, by_repetition, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        tape.gradient(by_weight, compressed, upstream),
        tf.convert_to_tensor(tape.gradient(by_repetition, compressed, upstream)),
        rtol=1e-4,
        atol=1e-5,
    )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ["segment_sum", "segment_mean", "segment_max"])
def test_members_equal_gathered_rows(name, weighted):
    """Rows that are given by id: the value and gradient of the rows themselves."""
    values, weights, row_ids = example([3, 0, 2, 4, 0])
    rows = tf.Variable(values[:4])
    members = tf.constant([0, 3, 0, 1, 1, 3, 2, 0, 3])
    weights = tf.constant(weights) if weighted else None
    reduce = getattr(segments, name)
    upstream = tf.constant(np.random.default_rng(1).normal(size=(5, 3)), "float32")
    with tf.GradientTape(persistent=True) as tape:
        by_id = reduce(rows, row_ids, 5, weights, members)
        gathered = reduce(tf.gather(rows, members), row_ids, 5, weights)
    np.testing.assert_allclose(by_id, gathered, rtol=1e-5)
    ours, theirs = (tape.gradient(y, rows, upstream) for y in (by_id, gathered))
    np.testing.assert_allclose(ours, tf.convert_to_tensor(theirs), rtol=1e-5, atol=1e-6)


def test_gradient_of_max_is_that_of_tensorflow():
    values = tf.Variable([[1.0, 0.0], [1.0, 2.0], [0.5, 2.0], [3.0, 2.0]])
    row_ids, upstream = tf.constant([0, 0, 0, 1]), tf.constant([[1.0, 2.0], [3.0, 4.0]])
    with tf.GradientTape(persistent=True) as tape:
        ours = segments.segment_max(values, row_ids, 2)
        theirs = tf.math.segment_max(values, row_ids)
    np.testing.assert_array_equal(
        tape.gradient(ours, values, upstream), tape.gradient(theirs, values, upstream)
    )


@pytest.mark.parametrize("name", REDUCTIONS)
def test_gradient_is_finite_where_all_are_equal_or_zero(name):
    values = tf.Variable([[0.0], [0.0], [2.0], [2.0]])
    with tf.GradientTape() as tape:
        reduced = getattr(segments, name)(values, tf.constant([0, 0, 1, 1]), 3)
    assert np.isfinite(tape.gradient(reduced, values)).all()


def test_deviation_of_equal_values_is_zero_whatever_their_mean_rounds_to():
    values = tf.Variable(np.repeat([[0.1], [0.7], [1 / 3]], [3, 7, 11], axis=0).astype("float32"))
    row_ids = np.repeat([0, 1, 2], [3, 7, 11])
    weights = tf.constant(np.random.default_rng(0).uniform(0.1, 3, 21), "float32")
    with tf.GradientTape() as tape:
        reduced = segments.segment_std(values, row_ids, 3, weights)
    np.testing.assert_array_equal(reduced, np.zeros((3, 1)))
    np.testing.assert_array_equal(tape.gradient(reduced, values), np.zeros((21, 1)))


def test_softmax_sums_to_one_and_is_stable():
    scores = tf.constant([[1000.0], [1000.0], [-1000.0], [3.0]])
    shares = segments.segment_softmax(scores, tf.constant([0, 0, 0, 2]), 3)
    np.testing.assert_allclose(shares, [[0.5], [0.5], [0.0], [1.0]])
    weighted = segments.segment_softmax(
        scores, tf.constant([0, 0, 0, 2]), 3, tf.constant([3.0, 1.0, 1.0, 1.0])
    )
    np.testing.assert_allclose(weighted, [[0.75], [0.25], [0.0], [1.0]])


@pytest.mark.parametrize("scale", [1e4, 1e-4])
def test_smooth_aggregations_do_not_overflow(scale):
    values = tf.constant([[1.0], [2.0], [3.0]]) * scale
    row_ids = tf.zeros(3, tf.int32)
    lse = segments.segment_lse(values, row_ids, 1, sharpness=50.0 / scale)
    np.testing.assert_allclose(lse, [[3 * scale]], rtol=1e-3)
    pnorm = segments.segment_pnorm(values, row_ids, 1, p=60.0)
    np.testing.assert_allclose(pnorm, [[3 * scale * (1 / 3) ** (1 / 60)]], rtol=1e-3)


def test_counts():
    np.testing.assert_array_equal(segments.segment_counts(tf.constant([0, 0, 2]), 4), [2, 0, 1, 0])
    weights = tf.constant([0.5, 1.0, 2.0])
    np.testing.assert_array_equal(
        segments.segment_counts(tf.constant([0, 0, 2]), 4, weights), [1.5, 0, 2, 0]
    )


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
    assert int(_count_true(tf.constant(mask))) == mask.sum()


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
