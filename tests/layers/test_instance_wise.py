"""Keras layers applied to every instance."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_mmil import ragged
from keras_mmil.layers import BagLayer, InstanceWise
from keras_mmil.model import Model
from keras_mmil.testing import assert_close, run_layer_test


def bags(*inner_shape, lengths=([2, 0, 1], [2, 0, 3])):
    values = np.random.default_rng(0).normal(size=(sum(lengths[-1]), *inner_shape))
    return ragged.from_flat(values.astype("float32"), lengths)


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        lambda: keras.layers.Dense(3, activation="relu"),
        lambda: keras.layers.Dropout(0.5),
        lambda: keras.layers.LayerNormalization(),
        lambda: keras.Sequential([keras.layers.Dense(3), keras.layers.BatchNormalization()]),
    ],
    ids=["dense", "dropout", "normalization", "sequential"],
)
def test_is_a_keras_layer_and_equals_the_layer_on_flat_values(make):
    x, layer = bags(4), make()
    expected = x.with_flat_values(layer(x.flat_values))
    run_layer_test(InstanceWise, {"layer": layer}, {"inputs": x}, expected)


@pytest.mark.slow
def test_images():
    x, layer = bags(6, 6, 1), keras.layers.Conv2D(2, 3)
    expected = x.with_flat_values(layer(x.flat_values))
    run_layer_test(InstanceWise, {"layer": layer}, {"inputs": x}, expected, fresh_process=False)
    assert InstanceWise(layer)(keras.Input((None, None, 6, 6, 1), ragged=True)).shape[2:] == (
        None,
        4,
        4,
        2,
    )


def test_augmentation_is_at_work_in_training_only():
    x, layer = bags(6, 6, 1), InstanceWise(keras.layers.RandomTranslation(0.5, 0.5))
    inputs = keras.Input((None, None, 6, 6, 1), ragged=True)
    for call in (layer, keras.Model(inputs, layer(inputs))):
        for same in (call(x), call(x, training=False)):
            np.testing.assert_array_equal(same.flat_values, x.flat_values)
        assert (call(x, training=True).flat_values != x.flat_values).numpy().any()


def test_training_reaches_the_layer():
    x = tf.ragged.constant([[[1.0]] * 1000], inner_shape=(1,))
    layer = InstanceWise(keras.layers.Dropout(0.5))
    assert_close(layer(x), x)
    dropped = layer(x, training=True).flat_values.numpy()
    assert set(np.unique(dropped)) == {0.0, 2.0}


def test_a_batch_without_instances_leaves_no_nan_in_the_statistics():
    normalization = keras.layers.BatchNormalization()
    layer = InstanceWise(normalization)
    layer(bags(4))
    nothing = bags(4, lengths=([1], [0]))
    outputs = tf.function(lambda: layer(nothing, training=True))()
    assert outputs.flat_values.shape == (0, 4)
    assert np.isfinite(normalization.moving_mean).all()
    assert np.isfinite(normalization.moving_variance).all()


def test_gradients():
    x, dense = bags(4), keras.layers.Dense(3)
    layer = InstanceWise(dense)
    layer(x)
    with tf.GradientTape(persistent=True) as tape:
        ours = tf.reduce_sum(tf.sin(layer(x).flat_values))
        theirs = tf.reduce_sum(tf.sin(dense(x.flat_values)))
    for a, b in zip(
        *(tape.gradient(y, [w.value for w in dense.weights]) for y in (ours, theirs)), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_mixed_precision():
    layer = InstanceWise(keras.layers.Dense(3, dtype="mixed_float16"))
    assert layer(bags(4)).dtype == tf.float16
    assert layer(keras.Input((None, None, 4), ragged=True)).dtype == "float16"


def test_uint8_instances_keep_their_dtype():
    images = tf.ragged.constant([[[200], [100]]], dtype=tf.uint8, inner_shape=(1,))
    scaled = InstanceWise(keras.layers.Rescaling(1 / 100))(images)
    np.testing.assert_allclose(scaled.flat_values, [[2.0], [1.0]], rtol=1e-6)


@pytest.mark.parametrize("x", [tf.zeros((2, 3)), keras.KerasTensor((None, 3))])
def test_dense_input_is_refused(x):
    with pytest.raises(ValueError, match=r"expected a RaggedTensor.*inputs.shape="):
        InstanceWise(keras.layers.Dense(2))(x)


def test_between_bag_layers():
    x = keras.Input((None, None, 4), ragged=True)
    h = InstanceWise(keras.layers.Dense(5))(BagLayer(3)(x))
    model = Model(x, BagLayer(2)(h))
    assert model(bags(4)).shape == (3, 2)
