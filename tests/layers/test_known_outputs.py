"""Outputs that nothing is learned from."""

import numpy as np
import pytest
import tensorflow as tf

from keras_mmil.layers import KnownOutputs
from keras_mmil.testing import run_layer_test

OUTPUTS = tf.constant([[0.2, 0.7, 0.4], [0.9, 0.1, 0.5]])
TOLD = tf.constant([[1.0, 0.0, 0.0], [0.0, 2.0, 1.0]])


def test_is_a_keras_layer_that_leaves_outputs_as_they_are_outside_of_training():
    run_layer_test(KnownOutputs, {}, {"outputs": OUTPUTS, "told": TOLD}, OUTPUTS.numpy())


def test_nothing_is_learned_from_what_was_told():
    with tf.GradientTape() as tape:
        tape.watch(OUTPUTS)
        found = KnownOutputs()(OUTPUTS, TOLD, training=True)
        loss = tf.reduce_sum(found**2)
    expected = np.array([[1, 0.7, 0.4], [0.9, 1, 1]], np.float32)
    np.testing.assert_array_equal(found, expected)
    gradient = 2 * OUTPUTS.numpy() * [[0, 1, 1], [1, 0, 0]]
    np.testing.assert_allclose(tape.gradient(loss, OUTPUTS), gradient)


def test_other_shapes():
    with pytest.raises(ValueError, match=r"outputs.shape=\(2, 3\), told.shape=\(2, 2\)"):
        KnownOutputs()(OUTPUTS, TOLD[:, :2])
