"""Networks and data of each form that an explainer reads."""

import keras
import numpy as np

import keras_mmil
from keras_mmil import ragged
from keras_mmil.layers import BagLayer, Distinct, TextBags, bag_inputs
from keras_mmil.rules import Explainer

N, BATCH = 22, 8


VOCABULARY = ["_", "?", "good", "bad", "very", "not"]


def plain_model(depth=2, ragged_input=True):
    keras.utils.set_random_seed(1)
    shape = (None,) * depth + (2,) if ragged_input else (3,) * depth + (2,)
    inputs = x = keras.Input(shape, ragged=ragged_input)
    for _ in range(depth):
        x = BagLayer(4, "tanh", aggregation="mean")(x)
    return keras_mmil.Model(inputs, keras.layers.Dense(1)(x))


def compressed_model():
    keras.utils.set_random_seed(1)
    inputs = bag_inputs(2)
    x, *levels = Distinct()(inputs)
    x = keras.layers.Embedding(9, 3)(x)
    for members, weights in levels:
        x = BagLayer(4, "tanh", aggregation="mean")(x, members, weights)
    return keras_mmil.Model(inputs, keras.layers.Dense(1)(x))


def text_model():
    keras.utils.set_random_seed(1)
    inputs = keras.Input((), dtype="string")
    x, *levels = Distinct()({"bags": TextBags(VOCABULARY, splitter="core")(inputs)})
    x = keras.layers.Embedding(6, 3)(x)
    x = BagLayer(4, "tanh", window_size=3)(x, *levels[0])
    return keras_mmil.Model(inputs, keras.layers.Dense(1)(BagLayer(4, "tanh")(x, *levels[1])))


def sizes_of(rng, depth, n=N):
    sizes = [rng.integers(1, 4, n)]
    for _ in range(depth - 1):
        sizes.append(rng.integers(1, 4, sizes[-1].sum()))
    return sizes


def vectors(depth=2, seed=0, n=N):
    rng = np.random.default_rng(seed)
    sizes = sizes_of(rng, depth, n)
    return ragged.from_flat(rng.normal(size=(sizes[-1].sum(), 2)).astype(np.float32), sizes)


def ids(seed=0, n=N):
    rng = np.random.default_rng(seed)
    sizes = sizes_of(rng, 2, n)
    return ragged.from_flat(rng.integers(0, 9, sizes[-1].sum()).astype(np.int32), sizes)


def packed(seed=0, n=N):
    return keras_mmil.Bags.from_ragged(ids(seed, n))


def dense(seed=0, n=N):
    return np.random.default_rng(seed).normal(size=(n, 3, 2)).astype(np.float32)


def texts(seed=0, n=N):
    rng = np.random.default_rng(seed)
    words = rng.choice(["good", "bad", "very", "not", "."], (n, 7))
    return np.array([" ".join(line) for line in words], object)


FORMS = {
    "ragged": (plain_model, vectors),
    "one level": (lambda: plain_model(1), lambda seed=0: vectors(1, seed)),
    "dense": (lambda: plain_model(1, ragged_input=False), dense),
    "compressed": (compressed_model, packed),
    "ids": (compressed_model, ids),
    "texts": (text_model, texts),
}


def new_explainer(model, x, **arguments):
    outputs = model.predict(x, verbose=0)
    settings = {"max_clusters": 3, "batch_size": BATCH, "verbose": 0, "ccp_alpha": 0}
    return Explainer(**{**settings, "target": (0, float(np.median(outputs))), **arguments})
