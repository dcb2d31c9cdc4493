"""ConcatDense against a Dense layer on concatenations, and EquivariantBagLayer against a loop."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_mmil
from keras_mmil import ragged
from keras_mmil.layers import BagLayer, ConcatDense, Distinct, EquivariantBagLayer, bag_inputs
from keras_mmil.testing import assert_close, run_layer_test

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(5, 4)).astype("float32")
RAGGED = ragged.from_flat(RNG.integers(0, 5, (6, 3)).astype("int32"), [[2, 0, 1], [2, 1, 3]])
MEMBERS = {
    "ragged": RAGGED,
    "bags of one depth": RAGGED.values,
    "dense": tf.constant(RNG.integers(0, 5, (2, 4, 3))),
    "one axis": tf.constant(RNG.integers(0, 5, (7, 3))),
    "equal sizes inside": tf.RaggedTensor.from_row_lengths(RNG.integers(0, 5, (3, 2, 3)), [1, 2]),
}


def concatenated(rows, members):
    if not isinstance(members, tf.RaggedTensor):
        return tf.reshape(tf.gather(rows, members), [*members.shape[:-1], 12])
    return members.with_flat_values(concatenated(rows, members.flat_values))


@pytest.mark.parametrize("members", MEMBERS.values(), ids=MEMBERS)
@pytest.mark.parametrize("activation", [None, "tanh"])
def test_equals_dense_on_concatenations(members, activation):
    rows = tf.Variable(ROWS)
    layer = ConcatDense(6, window_size=3, activation=activation, bias_initializer="normal")
    layer(rows, members)
    dense = keras.layers.Dense(6, activation=activation)
    dense.build((None, 12))
    dense.set_weights(layer.get_weights())
    with tf.GradientTape(persistent=True) as tape:
        outputs = layer(rows, members)
        flat = concatenated(rows, members)
        flat = flat.flat_values if isinstance(flat, tf.RaggedTensor) else flat
        expected = dense(flat)
        ours = outputs.flat_values if isinstance(outputs, tf.RaggedTensor) else outputs
        losses = [tf.reduce_sum(tf.sin(y)) for y in (ours, expected)]
    np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-6)
    for mine, theirs in ((rows, rows), (layer.kernel.value, dense.kernel.value)):
        a, b = (tape.gradient(of, v) for of, v in zip(losses, (mine, theirs), strict=True))
        np.testing.assert_allclose(
            tf.convert_to_tensor(a), tf.convert_to_tensor(b), rtol=1e-4, atol=1e-6
        )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ragged", "dense"])
def test_concat_dense_is_a_keras_layer(kind):
    inputs = {"inputs": tf.constant(ROWS), "members": MEMBERS[kind]}
    run_layer_test(ConcatDense, {"units": 4, "window_size": 3, "activation": "relu"}, inputs)


def test_takes_arrays_and_needs_no_bias():
    layer = ConcatDense(2, window_size=3, use_bias=False)
    assert layer(ROWS, np.zeros((7, 3), int)).shape == (7, 2)
    assert len(layer.weights) == 1


def test_within_a_bag_layer_is_the_same():
    """Between `Distinct` and a bag-layer without units: what `BagLayer(window_size=)` computes."""
    inputs = bag_inputs(2, window_size=3)
    ids, (trigrams, _), top_bags = Distinct()(inputs)
    words = keras.layers.Embedding(5, 4)(ids)
    x = ConcatDense(6, window_size=3, activation="relu", name="first")(words, trigrams)
    x = BagLayer(None)(x)
    apart = keras_mmil.Model(inputs, BagLayer(2)(x, *top_bags))
    x = BagLayer(6, window_size=3, name="first")(words, trigrams)
    within = keras_mmil.Model(inputs, BagLayer(2)(x, *top_bags))
    values = {variable.path: variable for variable in apart.weights}
    for variable in within.weights:
        if variable.path in values:
            variable.assign(values[variable.path])
    within.layers[-1].set_weights(apart.layers[-1].get_weights())
    assert_close(within(RAGGED), apart(RAGGED))


@pytest.mark.parametrize(
    ("window_size", "inputs", "match"),
    [
        (0, None, "window_size=0"),
        (True, None, "window_size=True"),
        (2.0, None, "window_size=2.0"),
        (
            3,
            (ROWS[None], RAGGED),
            r"rows \[rows, features\]. Received: inputs.shape=\(1, 5, 4\)",
        ),
        (3, (ROWS, RAGGED.flat_values[:, :2]), r"members.shape=\(6, 2\)"),
        (3, (ROWS, tf.constant([1, 2, 3])), r"members.shape=\(3,\)"),
    ],
)
def test_errors_of_concat_dense(window_size, inputs, match):
    with pytest.raises(ValueError, match=match):
        ConcatDense(4, window_size=window_size)(*inputs)


def test_needs_members():
    with pytest.raises((TypeError, ValueError), match="members"):
        ConcatDense(4, window_size=3)(ROWS)


INSTANCES = RNG.normal(size=(6, 3)).astype("float32")
BAGS = {
    "bags of bags, some empty": ragged.from_flat(INSTANCES, [[3, 0, 1], [2, 0, 1, 3]]),
    "bags, one of one instance": ragged.from_flat(INSTANCES, [[2, 0, 1, 3]]),
    "identical instances": ragged.from_flat(np.ones((6, 3), "float32"), [[4, 2]]),
    "dense": tf.constant(INSTANCES.reshape(2, 3, 3)),
    "dense bags of bags": tf.constant(INSTANCES.reshape(1, 2, 3, 3)),
    "ragged bags of clouds of one size": tf.RaggedTensor.from_row_lengths(
        INSTANCES.reshape(3, 2, 3), [1, 0, 2]
    ),
}
CENTRE = {"max": np.max, "mean": np.mean, "sum": np.sum}


def loop(bags, kernel, bias, centre):
    """The formula, bag by bag: a list of the rows of all of them."""
    if len(bags.shape) > 2:
        return [row for bag in bags for row in loop(bag, kernel, bias, centre)]
    bag = np.asarray(bags)
    return [np.tanh((row - centre(bag, axis=0)) @ kernel + bias) for row in bag]


@pytest.mark.parametrize("bags", BAGS.values(), ids=BAGS)
@pytest.mark.parametrize("aggregation", CENTRE)
def test_equals_a_loop(bags, aggregation):
    layer = EquivariantBagLayer(4, aggregation=aggregation, bias_initializer="normal")
    outputs = layer(bags)
    if isinstance(bags, tf.RaggedTensor):
        for ours, given in zip(outputs.nested_row_splits, bags.nested_row_splits, strict=True):
            np.testing.assert_array_equal(ours, given)
    ours = outputs.flat_values if isinstance(outputs, tf.RaggedTensor) else outputs
    expected = loop(bags, *layer.get_weights(), CENTRE[aggregation])
    np.testing.assert_allclose(np.reshape(ours, [-1, 4]), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("aggregation", ["max", "mean"])
def test_gradients_are_those_of_dense_operations(aggregation):
    x = tf.Variable(RNG.normal(size=(4, 5, 3)).astype("float32"))
    layer = EquivariantBagLayer(6, aggregation=aggregation)
    layer(x)
    reduce = {"max": tf.reduce_max, "mean": tf.reduce_mean}[aggregation]
    with tf.GradientTape(persistent=True) as tape:
        bags = tf.RaggedTensor.from_row_lengths(tf.reshape(x, [20, 3]), [5, 5, 5, 5])
        ours = tf.reduce_sum(tf.sin(layer(bags).flat_values))
        centred = x - reduce(x, axis=1, keepdims=True)
        plain = tf.tanh(tf.einsum("bnf,fu->bnu", centred, layer.kernel.value) + layer.bias.value)
        expected = tf.reduce_sum(tf.sin(plain))
    for variable in (x, layer.kernel.value, layer.bias.value):
        np.testing.assert_allclose(
            tape.gradient(ours, variable), tape.gradient(expected, variable), rtol=1e-4, atol=1e-5
        )


@pytest.mark.slow
@pytest.mark.parametrize("bags", BAGS.values(), ids=BAGS)
def test_equivariant_bag_layer_is_a_keras_layer(bags):
    run_layer_test(EquivariantBagLayer, {"units": 4, "aggregation": "mean"}, {"inputs": bags})


def test_does_not_depend_on_the_order_and_shifts_of_instances():
    layer = EquivariantBagLayer(4)
    order = RNG.permutation(6)
    assert_close(
        layer(INSTANCES[None, order]),
        tf.gather(layer(INSTANCES[None]), order, axis=1),
    )
    assert_close(layer(INSTANCES[None] + 1.0), layer(INSTANCES[None]), atol=1e-5)


@pytest.mark.slow
def test_an_explainer_reads_what_is_above_it():
    """The bag-layer that takes maxima sees the layer's outputs as its instances."""
    x = RNG.normal(size=(60, 8, 3)).astype("float32")
    y = np.arange(60) % 2
    x[y == 1, 0] += 5  # positive are those with an instance far from the others
    bags = tf.RaggedTensor.from_tensor(x)
    inputs = keras.Input((None, 3), ragged=True)
    hidden = EquivariantBagLayer(16, aggregation="mean")(inputs)
    outputs = keras.layers.Dense(1, activation="sigmoid")(BagLayer(None)(hidden))
    model = keras_mmil.Model(inputs, outputs)
    model.compile(keras.optimizers.Adam(0.02), "binary_crossentropy")
    model.fit(bags, y, epochs=30, verbose=0)
    explainer = keras_mmil.Explainer(max_clusters=6).fit(model, bags, bags)
    assert explainer.fidelity(bags) > 0.95
    assert len(explainer.levels_) == 1


@pytest.mark.parametrize("dtype", ["mixed_float16", "float64"])
def test_dtype_policies(dtype):
    for layer, inputs in (
        (EquivariantBagLayer(4, dtype=dtype), (INSTANCES[None],)),
        (ConcatDense(4, window_size=3, dtype=dtype), (ROWS, RAGGED)),
    ):
        assert layer(*inputs).dtype.name == layer.compute_dtype


@pytest.mark.parametrize(
    ("inputs", "match"),
    [
        (INSTANCES, r"expected bags \[batch, \(n\), features\].* inputs.shape=\(6, 3\)"),
        (keras.Input((None, None), ragged=True), r"inputs.shape=\(None, None, None\)"),
    ],
)
def test_errors_of_equivariant_bag_layer(inputs, match):
    with pytest.raises(ValueError, match=match):
        EquivariantBagLayer(4)(inputs)


def test_knows_only_aggregations():
    with pytest.raises(ValueError, match="aggregation='median'"):
        EquivariantBagLayer(4, aggregation="median")
