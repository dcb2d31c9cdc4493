"""Rows by their ids."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_mmil
from keras_mmil.layers import Gather


def test_rows_and_their_gradient():
    rows = tf.Variable(np.random.default_rng(0).normal(size=(4, 3)).astype("float32"))
    ids = tf.constant([2, 0, 2, 2])
    with tf.GradientTape() as tape:
        found = Gather()([rows, ids])
        loss = tf.reduce_sum(found**2)
    np.testing.assert_array_equal(found, rows.numpy()[[2, 0, 2, 2]])
    expected = 2 * rows.numpy() * np.array([[1], [0], [3], [0]])
    np.testing.assert_allclose(tape.gradient(loss, rows), expected, rtol=1e-6)


def test_gather_in_a_model(tmp_path):
    rows, ids = keras.Input((3,), name="rows"), keras.Input((), dtype="int32", name="ids")
    model = keras_mmil.Model([rows, ids], Gather(name="back")([rows, ids]))
    assert model.output_shape == (None, 3)
    model.save(tmp_path / "model.keras")
    x = [tf.constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), tf.constant([1, 0])]
    found = keras.models.load_model(tmp_path / "model.keras")(x)
    assert found.numpy().tolist() == [[4.0, 5.0, 6.0], [1.0, 2.0, 3.0]]


@pytest.mark.parametrize(
    ("inputs", "match"),
    [
        ([tf.zeros([2, 3]), tf.zeros([2], tf.float32)], "integer ids"),
        ([tf.zeros([2, 3]), tf.zeros([2, 2], tf.int32)], r"Received: \[\(2, 3\), \(2, 2\)\]"),
        ([tf.zeros([2]), tf.zeros([2], tf.int32)], "a pair of rows"),
        ([tf.zeros([2, 3])], "a pair of rows"),
    ],
)
def test_bad_inputs(inputs, match):
    with pytest.raises(ValueError, match=match):
        Gather()(inputs)
