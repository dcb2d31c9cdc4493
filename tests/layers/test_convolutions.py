"""A convolution with max-pooling is a bag-layer on the patches under each pooling window.

Paper, section "Convolutional Neural Networks".
"""

import itertools

import keras
import numpy as np
import tensorflow as tf

import keras_mmil
from keras_mmil.layers import BagLayer
from keras_mmil.testing import assert_close


def patches_1d(signal, width, pool):
    """Dense [batch, windows, pool, width * channels]: the patches under each pooling window."""
    n = signal.shape[1] - width + 1
    patches = np.stack([signal[:, i : i + width].reshape(len(signal), -1) for i in range(n)], 1)
    return patches[:, : n // pool * pool].reshape(len(signal), n // pool, pool, -1)


def as_bags(patches):
    """The same as a RaggedTensor [batch, (windows), (pool), features]."""
    batch, windows, pool, features = patches.shape
    return keras_mmil.ragged.from_flat(
        patches.reshape(-1, features), [[windows] * batch, [pool] * (batch * windows)]
    )


def bag_layer_with(kernel, bias=None, **kwargs):
    layer = BagLayer(kernel.shape[-1], use_bias=bias is not None, empty="zeros", **kwargs)
    layer.build((None, None, kernel.shape[0]))
    layer.set_weights([kernel] if bias is None else [kernel, bias])
    return layer


def random(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype("float32")


def test_convolution_and_max_pooling_of_an_image_are_a_bag_layer():
    images, kernel, bias = random(2, 10, 12, 3), random(3, 3, 3, 6), random(6)
    convolution = keras.layers.Conv2D(6, 3, activation="relu")
    convolution.build(images.shape)
    convolution.set_weights([kernel, bias])
    expected = keras.layers.MaxPooling2D(2)(convolution(images))  # (batch, 4, 5, filters)

    pool = list(itertools.product(range(2), range(2)))
    patches = [
        [
            [images[:, r + i : r + i + 3, c + j : c + j + 3].reshape(2, -1) for i, j in pool]
            for c in range(0, 10, 2)
        ]
        for r in range(0, 8, 2)
    ]
    bags = as_bags(np.asarray(patches).transpose(3, 0, 1, 2, 4).reshape(2, 20, 4, 27))
    layer = bag_layer_with(kernel.reshape(-1, 6), bias)
    assert_close(tf.reshape(layer(bags).to_tensor(), [2, 4, 5, 6]), expected)


def test_two_convolutions_are_two_bag_layers_on_bags_of_bags():
    """The paper's {{{x11, x12}, {x21, x22}, {x31, x32}}, {{x21, x22}, {x31, x32}, {x41, x42}}}.

    A bag knows no order, so the second convolution has the same kernel at its three positions.
    """
    signal, kernel, bias, second = random(3, 11, 2), random(4, 2, 5), random(5), random(5, 6)
    convolutions = keras.Sequential(
        [
            keras.Input(signal.shape[1:]),
            keras.layers.Conv1D(5, 4, activation="relu"),
            keras.layers.MaxPooling1D(2),  # (batch, 4, 5)
            keras.layers.Conv1D(6, 3, use_bias=False),  # (batch, 2, 6)
        ]
    )
    convolutions.set_weights([kernel, bias, np.stack([second] * 3)])

    phi = patches_1d(signal, width=4, pool=2)  # (batch, 4, 2, features)
    windows = np.stack([phi[:, 0:3], phi[:, 1:4]], axis=1)  # (batch, 2, 3, 2, features)
    x = bag_layer_with(kernel.reshape(-1, 5), bias)(tf.constant(windows))  # (batch, 2, 3, 5)
    x = bag_layer_with(second, activation="linear", aggregation="sum")(x)  # (batch, 2, 6)
    assert_close(x, convolutions(signal))
