"""The bag-layer against a Python loop, in every form of input."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_mmil import ragged
from keras_mmil.layers import BagLayer, aggregations
from keras_mmil.testing import assert_close, run_layer_test

AGGREGATIONS = [*aggregations.NAMES, "max|mean"]
# Every odd bag: empty, single, with repeated instances, trailing empty; empty top-bags.
LENGTHS = ([2, 0, 3, 1], [2, 1, 0, 3, 0, 0])


def nested_vectors(features=3, lengths=LENGTHS, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(sum(lengths[-1]), features)).astype("float32")
    values[1] = values[0]
    return ragged.from_flat(values, lengths)


def nested_ids(vocabulary=5, lengths=LENGTHS, seed=0):
    ids = np.random.default_rng(seed).integers(0, vocabulary, sum(lengths[-1]))
    return ragged.from_flat(ids.astype("int32"), lengths)


def by_loop(layer, x, reduce):
    """The output for innermost bags as nested lists of vectors, by a loop."""
    w, b, empty = (v.numpy() for v in (layer.kernel, layer.bias, layer.empty_vector))

    def bag(instances):
        if len(instances) == 0:
            return empty
        return reduce(np.maximum(np.asarray(instances) @ w + b, 0))

    return [[bag(sub_bag) for sub_bag in top_bag] for top_bag in x.to_list()]


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_is_a_keras_layer(aggregation):
    run_layer_test(BagLayer, {"units": 4, "aggregation": aggregation}, {"inputs": nested_vectors()})


@pytest.mark.parametrize(
    ("aggregation", "reduce"),
    [("max", np.max), ("mean", np.mean), ("sum", np.sum), ("std", np.std)],
)
def test_equals_a_loop(aggregation, reduce):
    layer, x = BagLayer(4, aggregation=aggregation), nested_vectors()
    layer(x)
    layer.empty_vector.assign([1.0, 2.0, 3.0, 4.0])
    layer.bias.assign([0.1, -0.2, 0.3, 0.0])
    outputs = layer(x)
    expected = by_loop(layer, x, lambda rho: reduce(rho, axis=0))
    assert outputs.shape.as_list() == [4, None, 4]
    np.testing.assert_allclose(
        outputs.flat_values, np.concatenate([t for t in expected if t]), rtol=1e-5, atol=1e-6
    )
    np.testing.assert_array_equal(outputs.row_lengths(), LENGTHS[0])


@pytest.mark.parametrize("activation", ["relu", "tanh", "silu", "softplus", None, "hard_sigmoid"])
def test_activation_before_or_after_the_maximum(activation):
    """Whichever order is cheaper, the result and the gradients are those of max α(x)."""
    x = nested_vectors()
    layer = BagLayer(4, activation=activation)
    layer(x)
    layer.empty_vector.assign([1.0, 2.0, 3.0, 4.0])
    variables = [layer.kernel.value, layer.bias.value]
    upstream = tf.random.normal((len(LENGTHS[1]), 4), seed=0)
    with tf.GradientTape(persistent=True) as tape:
        ours = layer(x).flat_values
        rho = layer.represent(x)
        maxima = [
            tf.reduce_max(bag, axis=0) if len(bag) else layer.empty_vector for bag in rho.values
        ]
        theirs = tf.stack(maxima)
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    for a, b in zip(*(tape.gradient(y, variables, upstream) for y in (ours, theirs)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_several_aggregations_split_the_units_of_one_product():
    x = nested_vectors()
    both = BagLayer(6, aggregation=("max", "mean"))
    outputs = both(x).flat_values
    assert len(both.weights) == 3
    for part, name in ((slice(0, 3), "max"), (slice(3, 6), "mean")):
        single = BagLayer(3, aggregation=name)
        single(x)
        single.kernel.assign(both.kernel.numpy()[:, part])
        np.testing.assert_allclose(outputs[:, part], single(x).flat_values, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("aggregation", ["mean", "max|sum"])
def test_without_units_aggregates_the_inputs(aggregation):
    x = nested_vectors(lengths=([2, 2], [1, 2, 3, 1]))
    outputs = run_layer_test(
        BagLayer, {"units": None, "aggregation": aggregation}, {"inputs": x}, fresh_process=False
    )
    bags = [np.array(bag) for top_bag in x.to_list() for bag in top_bag]
    functions = {"mean": [np.mean], "max|sum": [np.max, np.sum]}[aggregation]
    expected = [np.concatenate([f(bag, axis=0) for f in functions]) for bag in bags]
    np.testing.assert_allclose(outputs.flat_values, expected, rtol=1e-5)


def test_any_depth():
    lengths = ([1, 0, 2], [2, 1, 0], [1, 2, 0], [2, 0, 3])
    x = nested_vectors(lengths=lengths)
    for depth in (3, 2, 1):
        x = BagLayer(3)(x)
        assert x.shape.rank == depth + 2
    x = BagLayer(2)(x)
    assert isinstance(x, tf.Tensor)
    assert x.shape == (3, 2)


def test_bags_of_equal_size():
    """Dense bags, and dense bags inside ragged ones, give what ragged bags give."""
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(2, 3, 4, 5)).astype("float32")
    layer = BagLayer(6, aggregation="mean")
    outputs = run_layer_test(
        BagLayer, {"units": 6}, {"inputs": tf.constant(dense)}, fresh_process=False
    )
    assert outputs.shape == (2, 3, 6)
    outputs = layer(tf.constant(dense))
    as_ragged = tf.RaggedTensor.from_tensor(dense, ragged_rank=2)
    np.testing.assert_allclose(layer(as_ragged).to_tensor(), outputs, rtol=1e-6)
    inside = tf.RaggedTensor.from_row_lengths(dense[0], [1, 2])
    np.testing.assert_allclose(layer(inside).flat_values, outputs[0], rtol=1e-6)
    assert layer(keras.Input((None, 4, 5), ragged=True)).shape == (None, None, 6)


@pytest.mark.parametrize("splits", ["int32", "int64"])
def test_dtype_of_row_splits(splits):
    x = nested_vectors()
    layer = BagLayer(3)
    assert_close(layer(x.with_row_splits_dtype(splits)).flat_values, layer(x).flat_values)


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("weights", [None, 1, 2])
def test_members_equal_their_occurrences(aggregation, weights):
    """ρ once for each row: the same outputs and gradients as plain instances."""
    rows = tf.Variable(np.random.default_rng(1).normal(size=(5, 3)).astype("float32"))
    rows.scatter_nd_update([[4]], [rows[3]])  # other rows may be equal, too
    members = nested_ids()
    if weights is not None:
        draw = np.random.default_rng(2).integers(1, weights + 1, len(members.flat_values))
        weights = members.with_flat_values(draw.astype("float32"))
    layer = BagLayer(4, aggregation=aggregation, activation="tanh")
    layer(rows, members)
    with tf.GradientTape(persistent=True) as tape:
        plain = members.with_flat_values(tf.gather(rows, members.flat_values))
        of_rows, of_instances = layer(rows, members, weights), layer(plain, weights=weights)
        losses = [tf.reduce_sum(tf.sin(o.flat_values)) for o in (of_rows, of_instances)]
    assert_close(of_rows, of_instances)
    variables = [rows, *(w.value for w in layer.trainable_weights)]
    for a, b in zip(*(tape.gradient(loss, variables) for loss in losses), strict=True):
        a, b = (tf.convert_to_tensor(gradient) for gradient in (a, b))
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("with_members", [True, False])
def test_weights_are_multiplicities(aggregation, with_members):
    """An instance of weight 2 counts twice, one of weight 0 not at all."""
    rows = tf.constant([[1.0, 2.0], [-1.0, 0.5], [0.3, 0.1]])
    members = tf.ragged.constant([[0, 1, 2], [2], []], dtype=tf.int32)
    weights = tf.ragged.constant([[2.0, 0.0, 1.0], [0.0], []])
    expanded = tf.ragged.constant([[0, 0, 2], [], []], dtype=tf.int32)
    layer = BagLayer(4, aggregation=aggregation)
    expected = layer(tf.gather(rows, expanded))
    if with_members:
        outputs = layer(rows, members, weights)
    else:
        outputs = layer(tf.gather(rows, members), weights=weights)
    assert_close(outputs, expected)


def test_members_is_a_keras_layer():
    inputs = {
        "inputs": tf.random.normal((5, 3)),
        "members": nested_ids(),
        "weights": tf.cast(nested_ids(seed=1), tf.float32),
    }
    run_layer_test(BagLayer, {"units": 4, "aggregation": "mean"}, inputs)


def nested_triples(rows=5):
    """Instances that are three of some rows each."""
    ids = np.random.default_rng(1).integers(0, rows, (sum(LENGTHS[-1]), 3))
    return ragged.from_flat(ids.astype("int32"), LENGTHS)


def side_by_side(rows, triples):
    """The same with the rows concatenated: [top-bags, (n), (m), 3 * features]."""
    instances = tf.reshape(tf.gather(rows, triples.flat_values), [-1, 3 * rows.shape[1]])
    return triples.with_flat_values(instances)


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_positions_equal_concatenations(aggregation):
    rows = tf.Variable(np.random.default_rng(0).normal(size=(5, 4)).astype("float32"))
    layer = BagLayer(6, aggregation=aggregation, window_size=3)
    layer(rows, nested_triples())
    reference = BagLayer(6, aggregation=aggregation)
    reference(side_by_side(rows, nested_triples()))
    assert [w.shape for w in layer.weights] == [w.shape for w in reference.weights]
    reference.set_weights(layer.get_weights())
    with tf.GradientTape(persistent=True) as tape:
        outputs = layer(rows, nested_triples())
        expected = reference(side_by_side(rows, nested_triples()))
        losses = [tf.reduce_sum(tf.sin(y.flat_values)) for y in (outputs, expected)]
    assert_close(outputs, expected)
    variables = [[rows, layer.kernel.value], [rows, reference.kernel.value]]
    pairs = zip(losses, variables, strict=True)
    ours, theirs = (tape.gradient(loss, of) for loss, of in pairs)
    for a, b in zip(ours, theirs, strict=True):
        a, b = (tf.convert_to_tensor(gradient) for gradient in (a, b))
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_positions_of_ids_equal_one_hot_vectors():
    one_hot = BagLayer(6, window_size=3)
    one_hot(tf.eye(5), nested_triples())
    ids = BagLayer(6, window_size=3, vocabulary_size=5)
    ids(tf.range(5), nested_triples())
    ids.set_weights(one_hot.get_weights())
    assert_close(ids(tf.range(5), nested_triples()), one_hot(tf.eye(5), nested_triples()))


def test_positions_is_a_keras_layer():
    inputs = {"inputs": tf.eye(5), "members": nested_triples()}
    run_layer_test(BagLayer, {"units": 4, "window_size": 3}, inputs)


def test_positions_are_represented_by_instance():
    layer, rows, triples = BagLayer(6, window_size=3), tf.eye(5), nested_triples()
    weights = triples.with_flat_values(tf.range(1.0, 1.0 + len(triples.flat_values)))
    layer(rows, triples, weights)
    representations, bags = layer.capture(rows, triples, weights)
    assert bags.members is None
    assert bags.n_rows == len(triples.flat_values)
    np.testing.assert_array_equal(bags.weights, weights.flat_values)
    rho = tf.nn.relu(side_by_side(rows, triples).flat_values @ layer.kernel.value)
    np.testing.assert_allclose(representations, rho, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(layer.represent(rows, triples), rho, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("with_members", [True, False])
def test_ids_equal_one_hot_vectors(with_members):
    ids, init = nested_ids(), {"units": 4, "vocabulary_size": 5, "aggregation": "mean"}
    if with_members:
        inputs = {"inputs": tf.constant([3, 0, 4, 1, 2]), "members": ids}
        words = tf.gather(inputs["inputs"], ids)
    else:
        inputs, words = {"inputs": ids}, ids
    outputs = run_layer_test(BagLayer, init, inputs, fresh_process=False)
    layer, dense = BagLayer(**init), BagLayer(4, aggregation="mean")
    layer(**inputs)
    one_hot = words.with_flat_values(tf.one_hot(words.flat_values, 5))
    dense(one_hot)
    layer.bias.assign([0.1, 0.2, -0.1, 0.0])
    dense.set_weights(layer.get_weights())
    assert_close(layer(**inputs), dense(one_hot))
    assert outputs.shape.as_list() == [4, None, 4]


def test_represent_and_capture():
    x, layer = nested_vectors(), BagLayer(4, activation="tanh")
    layer(x)
    rho = np.tanh(x.flat_values.numpy() @ layer.kernel.numpy() + layer.bias.numpy())
    assert_close(layer.represent(x), x.with_flat_values(tf.constant(rho)))
    representations, bags = layer.capture(x)
    np.testing.assert_allclose(representations, rho, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(np.diff(bags.row_splits), LENGTHS[1])
    assert bags.members is None
    assert bags.n_rows == len(rho)
    rows, members = x.flat_values, nested_ids()
    np.testing.assert_allclose(layer.represent(rows, members), rho, rtol=1e-5, atol=1e-6)
    _, bags = layer.capture(rows, members)
    np.testing.assert_array_equal(bags.members, members.flat_values)
    dense = tf.reshape(x.flat_values, (2, 3, 3))
    np.testing.assert_allclose(layer.represent(dense), rho.reshape(2, 3, 4), rtol=1e-5, atol=1e-6)
    ids = BagLayer(4, vocabulary_size=5)
    ids(members)
    assert ids.represent(members).shape.as_list() == [4, None, None, 4]


def test_empty_bags():
    x = nested_vectors(lengths=([2, 0], [0, 2]))
    learned, zeros = BagLayer(3), BagLayer(3, empty="zeros", activation=None)
    learned(x)
    np.testing.assert_array_equal(learned(x).flat_values[0], np.zeros(3))  # its start value
    learned.empty_vector.assign([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(learned(x).flat_values[0], [1, 2, 3])
    with tf.GradientTape() as tape:
        outputs = learned(x).flat_values
    np.testing.assert_array_equal(tape.gradient(outputs, learned.empty_vector.value), [1, 1, 1])
    np.testing.assert_array_equal(zeros(x).flat_values[0], np.zeros(3))
    assert len(zeros.weights) == 2


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16", "float16", "float64"])
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_dtype_policies(policy, aggregation):
    x = nested_vectors()
    layer = BagLayer(4, aggregation=aggregation, dtype=policy)
    with tf.GradientTape() as tape:
        outputs = layer(x)
        loss = tf.reduce_sum(outputs.flat_values)
    assert outputs.dtype.name == layer.compute_dtype
    assert layer.kernel.dtype == layer.variable_dtype
    assert layer(keras.Input((None, None, 3), ragged=True)).dtype == layer.compute_dtype
    for gradient in tape.gradient(loss, [w.value for w in layer.trainable_weights]):
        assert np.isfinite(tf.cast(gradient, tf.float32)).all()
    reference = BagLayer(4, aggregation=aggregation)
    reference(x)
    reference.set_weights(layer.get_weights())
    tolerance = 1e-5 if policy == "float64" else 5e-2
    np.testing.assert_allclose(
        tf.cast(outputs.flat_values, tf.float32),
        reference(x).flat_values,
        rtol=tolerance,
        atol=tolerance,
    )


def test_regularizers_constraints_and_initializers():
    layer = BagLayer(
        3,
        kernel_initializer="ones",
        bias_initializer="ones",
        kernel_regularizer="l2",
        bias_regularizer="l1",
        activity_regularizer="l2",
        kernel_constraint="non_neg",
        bias_constraint="non_neg",
        name="named",
    )
    outputs = layer(nested_vectors())
    kernel, bias = 0.01 * 3 * 3, 0.01 * 3
    activity = 0.01 * float(tf.reduce_sum(tf.square(outputs.flat_values))) / 4  # top-bags
    np.testing.assert_allclose(float(sum(layer.losses)), kernel + bias + activity, rtol=1e-5)
    assert layer.name == "named"
    assert isinstance(layer.kernel.constraint, keras.constraints.NonNeg)
    assert BagLayer.from_config(layer.get_config()).get_config() == layer.get_config()


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"units": 0}, "units=0"),
        ({"units": 2.5}, "units=2.5"),
        ({"units": True}, "units=True"),
        ({"units": 5, "aggregation": "max|mean"}, "units=5"),
        ({"units": 3, "aggregation": "median"}, "'median'"),
        ({"units": 3, "empty": "nan"}, "empty='nan'"),
        ({"units": None, "vocabulary_size": 3}, "units=None, vocabulary_size=3"),
        ({"units": 3, "vocabulary_size": -1}, "vocabulary_size=-1"),
    ],
)
def test_bad_arguments(arguments, match):
    with pytest.raises(ValueError, match=match):
        BagLayer(**arguments)


@pytest.mark.parametrize(
    ("arguments", "inputs", "match"),
    [
        ({}, {"inputs": tf.zeros((2, 3))}, r"inputs.shape=\(2, 3\)"),
        ({}, {"inputs": tf.zeros((2,)), "members": nested_ids()}, r"inputs.shape=\(2,\)"),
        ({}, {"inputs": tf.zeros((2, 3)), "members": tf.constant([0])}, r"members.shape=\(1,\)"),
        (
            {"window_size": 3},
            {"inputs": nested_vectors()},
            "expected members, 3 rows.*members=None",
        ),
        (
            {"window_size": 2},
            {"inputs": tf.zeros((2, 3)), "members": nested_triples()},
            r"\[batch, \(n\), 2\] or deeper. Received: members.shape=\(4, None, None, 3\)",
        ),
        ({"vocabulary_size": 3}, {"inputs": tf.constant([1])}, r"inputs.shape=\(1,\)"),
        ({"vocabulary_size": 3}, {"inputs": tf.zeros((2, 3))}, "inputs.dtype=float32"),
        (
            {},
            {"inputs": keras.KerasTensor((None, None, None))},
            r"inputs.shape=\(None, None, None\)",
        ),
    ],
)
def test_bad_inputs(arguments, inputs, match):
    with pytest.raises(ValueError, match=match):
        BagLayer(3, **arguments)(**inputs)


def test_bad_weights():
    x = nested_vectors(lengths=([2],))
    for weights in ([[-1.0, 1.0]], [[float("nan"), 1.0]]):
        with pytest.raises(tf.errors.InvalidArgumentError, match="weights ≥ 0"):
            BagLayer(3)(x, weights=tf.ragged.constant(weights))
    with pytest.raises(tf.errors.InvalidArgumentError, match="one weight for each instance"):
        BagLayer(3)(x, weights=tf.ragged.constant([[1.0]]))


def test_numpy_arrays_are_taken():
    values = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")
    layer = BagLayer(5)
    assert_close(layer(values), layer(tf.constant(values)))
    ids = BagLayer(5, vocabulary_size=4)
    assert ids(np.array([[0, 1], [3, 3]])).shape == (2, 5)
