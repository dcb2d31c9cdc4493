"""Networks with random weights, and random bags of points for them."""

import keras
import numpy as np
import tensorflow as tf

import keras_mmil
from keras_mmil import ragged
from keras_mmil.layers import BagLayer
from keras_mmil.rules import Explainer

Dense = keras.layers.Dense


def make_model(units=1, activation="sigmoid", depth=1, loss=None):
    inputs = keras.Input((None,) * depth + (2,), ragged=True, name="bags")
    x = inputs
    for level in range(depth):
        x = BagLayer(3, name=f"level_{level}")(x)
    model = keras_mmil.Model(inputs, Dense(units, activation=activation)(x))
    if loss is not None:
        model.compile("adam", loss)
    return model


def make_data(n=30, depth=1, seed=0):
    rng = np.random.default_rng(seed)
    sizes = [rng.integers(1, 4, n)]
    for _ in range(depth - 1):
        sizes.append(rng.integers(1, 4, sizes[-1].sum()))
    return ragged.from_flat(rng.normal(size=(sizes[-1].sum(), 2)).astype(np.float32), sizes)


def quick_explainer(**arguments):
    return Explainer(**{"max_clusters": 3, "verbose": 0, **arguments})


class Concatenated(keras.layers.Layer):
    """Ragged parts side by side, which Keras's own layer does not take."""

    def call(self, parts):
        return tf.concat(parts, axis=-1)

    def compute_output_spec(self, parts):
        units = sum(part.shape[-1] for part in parts)
        return keras.KerasTensor((*parts[0].shape[:-1], units), ragged=True)
