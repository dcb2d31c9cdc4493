"""Compiled networks, and labelled bags of points to train them on."""

import keras
import numpy as np
import tensorflow as tf

import keras_mmil
from keras_mmil import ragged
from keras_mmil.layers import BagLayer


def make_model(depth=1):
    keras.utils.set_random_seed(1)
    inputs = keras.Input((None,) * depth + (2,), ragged=True)
    x = inputs
    for _ in range(depth):
        x = BagLayer(4)(x)
    model = keras_mmil.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(x))
    model.compile(keras.optimizers.Adam(0.02), "binary_crossentropy", metrics=["accuracy"])
    return model


def make_data(n=40, depth=1, seed=0):
    """Positive iff the first feature of some instance is above 1."""
    rng = np.random.default_rng(seed)
    sizes = [rng.integers(1, 4, n)]
    for _ in range(depth - 1):
        sizes.append(rng.integers(1, 3, sizes[-1].sum()))
    values = rng.normal(size=(sizes[-1].sum(), 2)).astype(np.float32)
    x = ragged.from_flat(values, sizes)
    first = x.with_flat_values(values[:, 0])
    while first.shape.rank > 1:
        first = tf.reduce_max(first, axis=-1)
    return x, (first.numpy() > 0.7).astype(float)


def median_target(model, x):
    return 0, float(np.median(model(x)))
