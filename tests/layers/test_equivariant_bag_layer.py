"""EquivariantBagLayer against a Python loop over the bags."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_mmil
from keras_mmil import ragged
from keras_mmil.layers import BagLayer, EquivariantBagLayer
from keras_mmil.testing import assert_close, run_layer_test

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(6, 3)).astype("float32")
BAGS = {
    "bags of bags, some empty": ragged.from_flat(ROWS, [[3, 0, 1], [2, 0, 1, 3]]),
    "bags, one of one instance": ragged.from_flat(ROWS, [[2, 0, 1, 3]]),
    "identical instances": ragged.from_flat(np.ones((6, 3), "float32"), [[4, 2]]),
    "dense": tf.constant(ROWS.reshape(2, 3, 3)),
    "dense bags of bags": tf.constant(ROWS.reshape(1, 2, 3, 3)),
    "ragged bags of clouds of one size": tf.RaggedTensor.from_row_lengths(
        ROWS.reshape(3, 2, 3), [1, 0, 2]
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
def test_is_a_keras_layer(bags):
    run_layer_test(EquivariantBagLayer, {"units": 4, "aggregation": "mean"}, {"inputs": bags})


def test_does_not_depend_on_the_order_and_shifts_of_instances():
    layer = EquivariantBagLayer(4)
    order = RNG.permutation(6)
    assert_close(layer(ROWS[None, order]), tf.gather(layer(ROWS[None]), order, axis=1))
    assert_close(layer(ROWS[None] + 1.0), layer(ROWS[None]), atol=1e-5)


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
    layer = EquivariantBagLayer(4, dtype=dtype)
    assert layer(ROWS[None]).dtype.name == layer.compute_dtype


@pytest.mark.parametrize(
    ("inputs", "match"),
    [
        (ROWS, r"expected bags \[batch, \(n\), features\].* inputs.shape=\(6, 3\)"),
        (keras.Input((None, None), ragged=True), r"inputs.shape=\(None, None, None\)"),
    ],
)
def test_errors(inputs, match):
    with pytest.raises(ValueError, match=match):
        EquivariantBagLayer(4)(inputs)


def test_knows_only_aggregations():
    with pytest.raises(ValueError, match="aggregation='median'"):
        EquivariantBagLayer(4, aggregation="median")
