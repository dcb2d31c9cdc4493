"""ConcatDense against a Dense layer on concatenations that are made."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_mmil
from keras_mmil import ragged
from keras_mmil.layers import BagLayer, ConcatDense, Distinct, bag_inputs
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
def test_is_a_keras_layer(kind):
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


@pytest.mark.parametrize("dtype", ["mixed_float16", "float64"])
def test_dtype_policies(dtype):
    layer = ConcatDense(4, window_size=3, dtype=dtype)
    assert layer(ROWS, RAGGED).dtype.name == layer.compute_dtype


@pytest.mark.parametrize(
    ("window_size", "inputs", "match"),
    [
        (0, None, "window_size=0"),
        (True, None, "window_size=True"),
        (2.0, None, "window_size=2.0"),
        (3, (ROWS[None], RAGGED), r"rows \[rows, features\]. Received: inputs.shape=\(1, 5, 4\)"),
        (3, (ROWS, RAGGED.flat_values[:, :2]), r"members.shape=\(6, 2\)"),
        (3, (ROWS, tf.constant([1, 2, 3])), r"members.shape=\(3,\)"),
    ],
)
def test_errors(window_size, inputs, match):
    with pytest.raises(ValueError, match=match):
        ConcatDense(4, window_size=window_size)(*inputs)


def test_needs_members():
    with pytest.raises((TypeError, ValueError), match="members"):
        ConcatDense(4, window_size=3)(ROWS)
